package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The parts of an OpenAPI document that the page shows.
type (
	docsDocument struct {
		Info struct{ Title, Version, Description string }
		Tags []struct{ Name, Description string }

		Paths      map[string]map[string]docsOperation
		Components struct{ Schemas map[string]*docsSchema }
	}

	docsOperation struct {
		OperationID string `json:"operationId"`
		Summary     string
		Description string
		Tags        []string
		Parameters  []struct {
			Name, In, Description string
			Required              bool
		}
		RequestBody *struct{ Content docsContent }
		Responses   map[string]struct {
			Description string
			Content     docsContent
		}
		Security []map[string][]string
	}

	docsContent map[string]struct {
		Schema  docsSchema
		Example json.RawMessage
	}

	docsSchema struct {
		Ref         string `json:"$ref"`
		Type        any
		Format      string
		Description string
		Enum        []any
		OneOf       []docsSchema
		Items       *docsSchema
		Properties  map[string]*docsSchema
		Required    []string
	}
)

// docsKind describes a type in words, with links to the types that it names.
type docsKind []docsPart

type docsPart struct{ Text, Type string }

func docsPlain(text string) docsKind { return docsKind{{Text: text}} }

// joinKinds concatenates kinds with a word between them.
func joinKinds(list []docsKind, word string) (all docsKind) {
	for i, k := range list {
		if i > 0 {
			all = append(all, docsPart{Text: word})
		}
		all = append(all, k...)
	}
	return all
}

func (c docsContent) kind() docsKind {
	var list []docsKind
	for _, mime := range slices.Sorted(maps.Keys(c)) {
		s := c[mime].Schema
		list = append(list, append(s.kind(), docsPart{Text: " (" + mime + ")"}))
	}

	return joinKinds(list, " or ")
}

// example returns the first example of a body, or nil.
func (c docsContent) example() json.RawMessage {
	for _, mime := range slices.Sorted(maps.Keys(c)) {
		if e := c[mime].Example; len(e) > 0 {
			return e
		}
	}
	return nil
}

func (s *docsSchema) kind() docsKind {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return docsKind{{Text: name, Type: strings.ToLower(name)}}
	}

	if len(s.OneOf) > 0 {
		list := make([]docsKind, len(s.OneOf))
		for i := range s.OneOf {
			list[i] = s.OneOf[i].kind()
		}

		return joinKinds(list, " or ")
	}

	if len(s.Enum) > 0 {
		list := make([]docsKind, len(s.Enum))
		for i, v := range s.Enum {
			list[i] = docsPlain(fmt.Sprint(v))
		}

		return joinKinds(list, ", ")
	}

	switch t, _ := s.Type.(string); {
	case t == "array" && s.Items != nil:
		return append(docsPlain("array of "), s.Items.kind()...)
	case t == "":
		return docsPlain("any JSON")
	case s.Format == "date-time":
		return docsPlain("time (RFC 3339)")
	default:
		return docsPlain(t)
	}
}
