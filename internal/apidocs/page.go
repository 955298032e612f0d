package apidocs

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed style.css
var style []byte

// Data of the template.
type (
	page struct {
		Title, Version string
		About          []string // paragraphs
		Groups         []group
		Statuses       []status // a status of errors is explained once
		Types          []typed
	}

	group struct {
		Name, About string
		Calls       []call
	}

	call struct {
		ID, Method, Path string
		Summary, About   string
		Role             string // empty if no token is needed
		Parameters       []row
		Body             kind
		Curl             string
		Answers          []status
		Errors           []string
	}

	typed struct {
		Name, ID string
		Fields   []row
	}

	row struct {
		Name  string
		Note  string // the location of a parameter, or "always" for a field that is always present
		Kind  kind
		About string
	}

	status struct {
		Code, About string
		Kind        kind
	}
)

// render returns the page of an OpenAPI document.
func render(text []byte) ([]byte, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}

	p := page{Title: d.Info.Title, Version: d.Info.Version, About: strings.Split(d.Info.Description, "\n\n"),
		Groups: groups(&d), Statuses: failures(&d), Types: types(&d)}

	var b bytes.Buffer
	if err := apiPage(p).Render(context.Background(), &b); err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}

	return b.Bytes(), nil
}

// groups returns the calls by tag, in the order of the document's tags.
func groups(d *document) []group {
	list := make([]group, len(d.Tags))
	for i, tag := range d.Tags {
		list[i] = group{Name: tag.Name, About: tag.Description}
	}

	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		methods := d.Paths[path]
		for _, method := range slices.SortedFunc(maps.Keys(methods), byMethod) {
			op := methods[method]
			i := slices.IndexFunc(list, func(g group) bool { return slices.Contains(op.Tags, g.Name) })
			if i < 0 {
				list, i = append(list, group{Name: "other"}), len(list)
			}

			list[i].Calls = append(list[i].Calls, callOf(strings.ToUpper(method), path, &op))
		}
	}

	return list
}

// byMethod orders the calls of a path for a reader: read, create, change, delete.
func byMethod(a, b string) int {
	order := []string{"get", "post", "put", "patch", "delete"}
	return cmp.Compare(slices.Index(order, a), slices.Index(order, b))
}

func callOf(method, path string, op *operation) call {
	c := call{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, About: op.Description, Curl: curl(method, path, op)}
	for _, scheme := range op.Security {
		c.Role = strings.Join(scheme["token"], ", ")
	}

	for _, p := range op.Parameters {
		c.Parameters = append(c.Parameters, row{Name: p.Name, Note: p.In, About: p.Description})
	}

	if op.RequestBody != nil {
		c.Body = op.RequestBody.Content.kind()
	}

	for _, code := range slices.Sorted(maps.Keys(op.Responses)) {
		if code >= "400" {
			c.Errors = append(c.Errors, code)
			continue
		}

		r := op.Responses[code]
		c.Answers = append(c.Answers, status{Code: code, About: r.Description, Kind: r.Content.kind()})
	}

	return c
}

// curl returns the command for a call, with the example of its body.
func curl(method, path string, op *operation) string {
	var b strings.Builder
	b.WriteString("curl")
	if method != "GET" && (method != "POST" || op.RequestBody == nil) {
		b.WriteString(" -X " + method)
	}

	if len(op.Security) > 0 {
		b.WriteString(` -H "Authorization: Bearer $NOTIFIER_TOKEN"`)
	}

	b.WriteString(" http://127.0.0.1:8080" + strings.NewReplacer("{", "$", "}", "").Replace(path))

	if op.RequestBody == nil {
		return b.String()
	}

	if e := op.RequestBody.Content.example(); e != nil {
		var pretty bytes.Buffer
		_ = json.Indent(&pretty, e, "", "  ") // it has been parsed
		b.WriteString(" -d '" + pretty.String() + "'")
	}

	return b.String()
}

// failures returns the statuses from 400 up, each with its meaning.
func failures(d *document) (list []status) {
	about := map[string]string{}
	for _, methods := range d.Paths {
		for _, op := range methods {
			for code, r := range op.Responses {
				if code >= "400" {
					about[code] = r.Description
				}
			}
		}
	}

	for _, code := range slices.Sorted(maps.Keys(about)) {
		list = append(list, status{Code: code, About: about[code]})
	}

	return list
}

func types(d *document) (list []typed) {
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		s := d.Components.Schemas[name]
		t := typed{Name: name, ID: strings.ToLower(name)}
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			f := s.Properties[field]
			r := row{Name: field, Kind: f.kind(), About: f.Description}
			if slices.Contains(s.Required, field) {
				r.Note = "always"
			}

			t.Fields = append(t.Fields, r)
		}

		list = append(list, t)
	}
	return list
}
