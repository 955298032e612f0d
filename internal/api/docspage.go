package api

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

//go:embed docs.css
var docsStyle []byte

// Data of the template.
type (
	docsData struct {
		Title, Version string
		About          []string // paragraphs
		Groups         []docsGroup
		Statuses       []docsStatus // a status of errors is explained once
		Types          []docsType
	}

	docsGroup struct {
		Name, About string
		Calls       []docsCall
	}

	docsCall struct {
		ID, Method, Path string
		Summary, About   string
		Role             string // empty if no token is needed
		Parameters       []docsRow
		Body             docsKind
		Curl             string
		Answers          []docsStatus
		Errors           []string
	}

	docsType struct {
		Name, ID string
		Fields   []docsRow
	}

	docsRow struct {
		Name  string
		Note  string // the location of a parameter, or "always" for a field that is always present
		Kind  docsKind
		About string
	}

	docsStatus struct {
		Code, About string
		Kind        docsKind
	}
)

// renderDocs returns the page of an OpenAPI document.
func renderDocs(text []byte) ([]byte, error) {
	var d docsDocument
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}

	p := docsData{Title: d.Info.Title, Version: d.Info.Version, About: strings.Split(d.Info.Description, "\n\n"),
		Groups: docsGroups(&d), Statuses: docsFailures(&d), Types: docsTypes(&d)}

	var b bytes.Buffer
	if err := docsTemplate(p).Render(context.Background(), &b); err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}

	return b.Bytes(), nil
}

// docsGroups returns the calls by tag, in the order of the document's tags.
func docsGroups(d *docsDocument) []docsGroup {
	list := make([]docsGroup, len(d.Tags))
	for i, tag := range d.Tags {
		list[i] = docsGroup{Name: tag.Name, About: tag.Description}
	}

	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		methods := d.Paths[path]
		for _, method := range slices.SortedFunc(maps.Keys(methods), byMethod) {
			op := methods[method]
			i := slices.IndexFunc(list, func(g docsGroup) bool { return slices.Contains(op.Tags, g.Name) })
			if i < 0 {
				list, i = append(list, docsGroup{Name: "other"}), len(list)
			}

			list[i].Calls = append(list[i].Calls, docsCallOf(strings.ToUpper(method), path, &op))
		}
	}

	return list
}

// byMethod orders the calls of a path for a reader: read, create, change, delete.
func byMethod(a, b string) int {
	order := []string{"get", "post", "put", "patch", "delete"}
	return cmp.Compare(slices.Index(order, a), slices.Index(order, b))
}

func docsCallOf(method, path string, op *docsOperation) docsCall {
	c := docsCall{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, About: op.Description, Curl: docsCurl(method, path, op)}
	for _, scheme := range op.Security {
		c.Role = strings.Join(scheme["token"], ", ")
	}

	for _, p := range op.Parameters {
		c.Parameters = append(c.Parameters, docsRow{Name: p.Name, Note: p.In, About: p.Description})
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
		c.Answers = append(c.Answers, docsStatus{Code: code, About: r.Description, Kind: r.Content.kind()})
	}

	return c
}

// docsCurl returns the command for a call, with the example of its body.
func docsCurl(method, path string, op *docsOperation) string {
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

// docsFailures returns the statuses from 400 up, each with its meaning.
func docsFailures(d *docsDocument) (list []docsStatus) {
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
		list = append(list, docsStatus{Code: code, About: about[code]})
	}

	return list
}

func docsTypes(d *docsDocument) (list []docsType) {
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		s := d.Components.Schemas[name]
		t := docsType{Name: name, ID: strings.ToLower(name)}
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			f := s.Properties[field]
			r := docsRow{Name: field, Kind: f.kind(), About: f.Description}
			if slices.Contains(s.Required, field) {
				r.Note = "always"
			}

			t.Fields = append(t.Fields, r)
		}

		list = append(list, t)
	}
	return list
}
