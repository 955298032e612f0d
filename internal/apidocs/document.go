package apidocs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The parts of an OpenAPI document that the page shows.
type (
	document struct {
		Info struct{ Title, Version, Description string }
		Tags []struct{ Name, Description string }

		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]*schema }
	}

	operation struct {
		OperationID string `json:"operationId"`
		Summary     string
		Description string
		Tags        []string
		Parameters  []struct {
			Name, In, Description string
			Required              bool
		}
		RequestBody *struct{ Content content }
		Responses   map[string]struct {
			Description string
			Content     content
		}
		Security []map[string][]string
	}

	content map[string]struct {
		Schema  schema
		Example json.RawMessage
	}

	schema struct {
		Ref         string `json:"$ref"`
		Type        any
		Format      string
		Description string
		Enum        []any
		OneOf       []schema
		Items       *schema
		Properties  map[string]*schema
		Required    []string
	}
)

// kind describes a type in words, with links to the types that it names.
type kind []part

type part struct{ Text, Type string }

func plain(text string) kind { return kind{{Text: text}} }

// join concatenates kinds with a word between them.
func join(list []kind, word string) (all kind) {
	for i, k := range list {
		if i > 0 {
			all = append(all, part{Text: word})
		}
		all = append(all, k...)
	}
	return all
}

func (c content) kind() kind {
	var list []kind
	for _, mime := range slices.Sorted(maps.Keys(c)) {
		s := c[mime].Schema
		list = append(list, append(s.kind(), part{Text: " (" + mime + ")"}))
	}

	return join(list, " or ")
}

// example returns the first example of a body, or nil.
func (c content) example() json.RawMessage {
	for _, mime := range slices.Sorted(maps.Keys(c)) {
		if e := c[mime].Example; len(e) > 0 {
			return e
		}
	}
	return nil
}

func (s *schema) kind() kind {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return kind{{Text: name, Type: strings.ToLower(name)}}
	}

	if len(s.OneOf) > 0 {
		list := make([]kind, len(s.OneOf))
		for i := range s.OneOf {
			list[i] = s.OneOf[i].kind()
		}

		return join(list, " or ")
	}

	if len(s.Enum) > 0 {
		list := make([]kind, len(s.Enum))
		for i, v := range s.Enum {
			list[i] = plain(fmt.Sprint(v))
		}

		return join(list, ", ")
	}

	switch t, _ := s.Type.(string); {
	case t == "array" && s.Items != nil:
		return append(plain("array of "), s.Items.kind()...)
	case t == "":
		return plain("any JSON")
	case s.Format == "date-time":
		return plain("time (RFC 3339)")
	default:
		return plain(t)
	}
}
