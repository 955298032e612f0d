package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"notifier/internal/access"
	"notifier/internal/route"
)

const aboutAPI = `The API schedules notices, shows and changes them, and takes the reports of consumers.

Errors are RFC 9457 problems (application/problem+json); the member errors lists each field that is not valid, by location, with what
would be right. Unknown fields and parameters are refused. Besides the answers that each call lists, any call may be answered with 404
(no such path), 405 (with Allow), 414 and 431 (address or headers too long) and, if no clients are configured, with 421 (the Host is
not this machine) and 403 (a web page of another site). Every answer has the header X-Request-Id, with the request's own id if it has
one.

429, 503 and 507 come with Retry-After. Any call may be repeated: scheduling the same notice again is answered with 200, and so is a replay with an id.`

// Unversioned is the version in the document that the repository holds; a service
// serves it with its own.
const Unversioned = "devel"

// Document is the OpenAPI document that is served, indented.
func Document(version string) []byte {
	table, err := route.NewTable(nil)
	if err != nil {
		panic("api: " + err.Error()) // an empty table is always right
	}
	a := &api{routes: table}
	var v any
	if err := json.Unmarshal(document(a.operations(), version), &v); err != nil {
		panic("api: " + err.Error())
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("api: " + err.Error())
	}
	return append(out, '\n')
}

func document(ops []operation, version string) []byte {
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "notifier", Version: version, Description: aboutAPI},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", Description: "A client's token; needed if any client is configured. Each call names the role that it needs: read, produce, operate or admin; each includes those before it."},
			},
		},
	}
	for i := range ops {
		doc.AddOperation(describe(&ops[i], registry))
	}
	out, err := json.Marshal(doc)
	if err != nil {
		panic("api: the document cannot be written: " + err.Error()) // it does not depend on input
	}
	return out
}

func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if name == "" { // of an unnamed type, which gets no entry of its own
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func describe(op *operation, registry huma.Registry) *huma.Operation {
	h := &huma.Operation{
		Method: op.method, Path: op.path, OperationID: op.id, Summary: op.summary, Description: op.about,
		Responses: map[string]*huma.Response{},
	}
	if op.role != access.Public {
		h.Security = []map[string][]string{{"token": {op.role.String()}}}
	}
	for _, segment := range op.segments {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			about := map[string]string{"key": "The notice's key: app:module:type:id.", "name": "The route's name.", "id": "The id of the link, or of the replay; client:id if several clients have a replay of that id."}[name]
			h.Parameters = append(h.Parameters, &huma.Param{Name: name, In: "path", Required: true, Description: about,
				Schema: &huma.Schema{Type: huma.TypeString}})
		}
	}
	for _, p := range op.query {
		schema := &huma.Schema{Type: huma.TypeString}
		if p.example != "" {
			schema.Examples = []any{p.example}
		}
		h.Parameters = append(h.Parameters, &huma.Param{Name: p.name, In: "query", Description: p.about, Schema: schema})
	}
	if op.body != nil {
		schema := registry.Schema(reflect.TypeOf(op.body), true, "")
		content := map[string]*huma.MediaType{"application/json": {Schema: schema}}
		if op.ndjson {
			most := maxBatch
			content["application/json"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeArray, Items: schema, MaxItems: &most}}
			content[ndjsonType] = &huma.MediaType{Schema: schema}
		}
		h.RequestBody = &huma.RequestBody{Required: true, Content: content}
	}
	for _, status := range op.ok {
		h.Responses[strconv.Itoa(status)] = success(op, status, registry)
	}
	for _, status := range slices.Concat(op.fails, op.everywhere()) {
		h.Responses[strconv.Itoa(status)] = &huma.Response{Description: meaning(status), Content: map[string]*huma.MediaType{
			"application/problem+json": {Schema: registry.Schema(reflect.TypeFor[Problem](), true, "")},
		}}
	}
	return h
}

func success(op *operation, status int, registry huma.Registry) *huma.Response {
	r := &huma.Response{Description: meaning(status)}
	switch {
	case op.answer != nil:
		schema := registry.Schema(reflect.TypeOf(op.answer), true, "")
		if op.repeated != nil && status == http.StatusOK {
			schema = &huma.Schema{OneOf: []*huma.Schema{schema, registry.Schema(reflect.TypeOf(op.repeated), true, "")}}
		}
		r.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
		if op.ndjson {
			r.Content[ndjsonType] = &huma.MediaType{Schema: registry.Schema(reflect.TypeFor[BatchResult](), true, "")}
		}
	case op.id == "metrics":
		r.Content = map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}
	default:
		r.Content = map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}}}
	}
	return r
}

// meaning is what a status says, in the words of this API.
func meaning(status int) string {
	switch status {
	case http.StatusOK:
		return "Success, also where nothing had to be changed."
	case http.StatusCreated:
		return "Created."
	case http.StatusMultiStatus:
		return "Each item has a status of its own."
	case http.StatusBadRequest:
		return "The request cannot be read: JSON, query or length."
	case http.StatusUnauthorized:
		return "No token, or a wrong one."
	case http.StatusForbidden:
		return "The client's role or prefix does not cover this."
	case http.StatusNotFound:
		return "There is nothing of this name that the client may see."
	case http.StatusNotAcceptable:
		return "The Accept header allows none of the formats that there are."
	case http.StatusConflict:
		return "The present state does not allow it; state or differs says why."
	case http.StatusTooManyRequests:
		return "The client makes too many calls, its requests take too much memory, or too many requests with a wrong token came from this address; Retry-After says when to repeat."
	case http.StatusRequestTimeout:
		return "The request's body did not arrive in time."
	case http.StatusRequestEntityTooLarge:
		return "More bytes than are allowed."
	case http.StatusUnsupportedMediaType:
		return "This content type is not accepted."
	case http.StatusUnprocessableEntity:
		return "A field or parameter is not valid; errors says which and why."
	case http.StatusServiceUnavailable:
		return "Redis cannot be reached, or refuses the service; Retry-After says when to repeat."
	case http.StatusInsufficientStorage:
		return "Redis is full; nothing was written."
	}
	return "A fault of the service."
}
