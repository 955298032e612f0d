package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"notifier/internal/auth"
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

// tags group the operations, in the order of the document.
var tags = []*huma.Tag{
	{Name: "notices", Description: "Schedule, read and change notices."},
	{Name: "reports", Description: "Calls of the consumers of a list or stream."},
	{Name: "routes", Description: "Routes and their numbers."},
	{Name: "history", Description: "Finalized notices in the history database."},
	{Name: "subjects", Description: "Audiences and ids of sealed notices."},
	{Name: "replays", Description: "Finalized notices that are sent again."},
	{Name: "jobs", Description: "Changes of many notices at a rate, with progress: cancel pending ones, redrive or purge dead letters."},
	{Name: "redirects", Description: "New addresses for the pending notices of receivers that have moved."},
	{Name: "recurrences", Description: "Recurring notices: cron expressions and intervals."},
	{Name: "receivers", Description: "Pauses, limits and figures of single receivers."},
	{Name: "portal-links", Description: "Links to the pages for one merchant."},
	{Name: "audit", Description: "Calls of operators."},
	{Name: "service", Description: "The service itself: instances, copies of attempts, health, metrics and this document."},
}

// tag returns the name of the group that an operation belongs to.
func tag(op *operation) string {
	switch {
	case slices.Contains([]string{"ack", "nack", "defer", "open"}, op.id):
		return "reports"
	case op.id == "stats" || op.id == "dead" || op.id == "problems":
		return "routes"
	case strings.HasPrefix(op.id, "search"), op.id == "monthReport", op.id == "reportFile":
		return "history"
	case op.segments[0] != "v1" || op.id == "instances" || op.id == "tap":
		return "service"
	}
	return op.segments[1]
}

// init makes arrays not nullable: an empty list is answered as [], never as null.
// Generators of clients refuse a type that is an array or null.
func init() { huma.DefaultArrayNullable = false }

func document(ops []operation, version string) []byte {
	registry := newRegistry()
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "notifier", Version: version, Description: aboutAPI},
		Servers: []*huma.Server{
			{URL: "/", Description: "The service that serves this document."},
			{URL: "http://127.0.0.1:8080", Description: "A service on this machine with the default NOTIFIER_LISTEN."},
		},
		Tags: tags,
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer",
					Description: "A client's token; needed if any client is configured. Each call names the role that it needs: read, produce, operate " +
						"or admin; each includes those before it."},
			},
		},
	}
	for i := range ops {
		if !ops[i].hidden {
			doc.AddOperation(describe(&ops[i], registry))
		}
	}

	out, err := json.Marshal(doc)
	if err != nil {
		panic("api: the document cannot be written: " + err.Error()) // it does not depend on input
	}

	return out
}

func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if name == "" { // of an unnamed type, which gets no entry
		return ""
	}

	return strings.ToUpper(name[:1]) + name[1:]
}

func describe(op *operation, registry huma.Registry) *huma.Operation {
	h := &huma.Operation{
		Method: op.method, Path: op.path, OperationID: op.id, Summary: op.summary, Description: op.about,
		Tags: []string{tag(op)}, Responses: map[string]*huma.Response{},
	}
	if op.role != auth.Public {
		h.Security = []map[string][]string{{"token": {op.role.String()}}}
	}

	for _, segment := range op.segments {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			about := map[string]string{"key": "app:module:type:id of a notice, app:module:type:name of a recurrence.", "name": "The route's name.",
				"month":   "The month, such as 2026-11; this is the present one.",
				"subject": "audience:<audience>, or id:app:module:<id> with the id without ~ and a number.",
				"id":      "The id of the link, job or replay; client:id if several clients have a replay of that id."}[name]
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
		h.RequestBody = &huma.RequestBody{Required: true, Content: bodies(op, registry)}
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

// bodies describes the request body of an operation, with one whole example for each content type.
func bodies(op *operation, registry huma.Registry) map[string]*huma.MediaType {
	schema := registry.Schema(reflect.TypeOf(op.body), true, "")
	example := json.RawMessage(op.example)
	if !op.ndjson {
		return map[string]*huma.MediaType{"application/json": {Schema: schema, Example: example}}
	}

	most := maxBatch
	return map[string]*huma.MediaType{
		"application/json": {Schema: &huma.Schema{Type: huma.TypeArray, Items: schema, MaxItems: &most}, Example: []json.RawMessage{example}},
		ndjsonType:         {Schema: schema, Example: example},
	}
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
	case op.id == "searchFile", op.id == "reportFile":
		r.Content = map[string]*huma.MediaType{"text/csv": {Schema: &huma.Schema{Type: huma.TypeString}}}
	case op.id == "tap":
		r.Content = map[string]*huma.MediaType{eventStreamType: {Schema: &huma.Schema{Type: huma.TypeString}}}
	case op.id == "keySet":
		r.Content = map[string]*huma.MediaType{keySetType: {Schema: &huma.Schema{Type: huma.TypeObject}}}
	default:
		r.Content = map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}}}
	}

	return r
}

// meaning returns the description of a status for the document.
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
		return "The client makes too many calls, its requests take too much memory, or too many requests with a wrong token came from this " +
			"address; Retry-After says when to repeat."
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
