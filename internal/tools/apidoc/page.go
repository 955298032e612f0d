package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"notifier/internal/api"
)

// The parts of an OpenAPI document that the reference shows.
type (
	docSchema struct {
		Ref         string                `json:"$ref"`
		Type        any                   `json:"type"`
		Format      string                `json:"format"`
		Description string                `json:"description"`
		Enum        []any                 `json:"enum"`
		OneOf       []docSchema           `json:"oneOf"`
		Items       *docSchema            `json:"items"`
		Properties  map[string]*docSchema `json:"properties"`
		Required    []string              `json:"required"`
	}
	docContent map[string]struct {
		Schema  docSchema
		Example json.RawMessage
	}
	docOperation struct {
		Summary     string
		Description string
		Parameters  []struct{ Name, In, Description string }
		RequestBody *struct{ Content docContent }
		Responses   map[string]struct {
			Description string
			Content     docContent
		}
		Security []map[string][]string
	}
	docFile struct {
		Info       struct{ Title, Description string }
		Paths      map[string]map[string]docOperation
		Components struct{ Schemas map[string]*docSchema }
	}
)

// page is docs/api.md: the OpenAPI document as a page to read.
func page() ([]byte, error) {
	var doc docFile
	if err := json.Unmarshal(api.Document(""), &doc); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	var b strings.Builder
	b.WriteString("# HTTP API\n\nThis page is generated from the OpenAPI document (`go generate ./internal/api`); " +
		"the service serves that at " +
		"`/openapi.json`.\n\n")
	b.WriteString(doc.Info.Description + "\n\n## Calls\n")
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range []string{"get", "post", "patch", "delete"} {
			if op, ok := doc.Paths[path][method]; ok {
				writeOperation(&b, strings.ToUpper(method), path, op)
			}
		}
	}
	b.WriteString("\n## Types\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name]
		fmt.Fprintf(&b, "\n### %s\n\n| field | type | |\n|---|---|---|\n", name)
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[field]
			about := p.Description
			if slices.Contains(s.Required, field) {
				about = strings.TrimSpace("Always there. " + about)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", field, p.words(), cell(about))
		}
	}
	return []byte(b.String()), nil
}

func writeOperation(b *strings.Builder, method, path string, op docOperation) {
	fmt.Fprintf(b, "\n### %s %s\n\n%s.", method, path, op.Summary)
	if op.Description != "" {
		b.WriteString(" " + op.Description)
	}
	if len(op.Security) == 0 {
		b.WriteString(" Needs no token.")
	}
	for _, scheme := range op.Security {
		fmt.Fprintf(b, " Role: `%s`.", strings.Join(scheme["token"], "`, `"))
	}
	b.WriteString("\n")
	if len(op.Parameters) > 0 {
		b.WriteString("\n| parameter | in | |\n|---|---|---|\n")
		for _, p := range op.Parameters {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, p.In, cell(p.Description))
		}
	}
	if op.RequestBody != nil {
		content := op.RequestBody.Content
		var example bytes.Buffer
		_ = json.Indent(&example, content["application/json"].Example, "", "  ") // it has been parsed
		fmt.Fprintf(b, "\nBody: %s. Example:\n\n```json\n%s\n```\n", content.words(), &example)
	}
	b.WriteString("\n| status | | answer |\n|---|---|---|\n")
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		fmt.Fprintf(b, "| %s | %s | %s |\n", status, cell(r.Description), r.Content.words())
	}
}

func cell(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "|", `\|`), "\n", " ") }

func (c docContent) words() string {
	var parts []string
	for _, ct := range slices.Sorted(maps.Keys(c)) {
		s := c[ct].Schema
		parts = append(parts, fmt.Sprintf("%s (`%s`)", s.words(), ct))
	}
	return strings.Join(parts, " or ")
}

// words is a schema's type in a few words.
func (s *docSchema) words() string {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	if len(s.OneOf) > 0 {
		parts := make([]string, len(s.OneOf))
		for i := range s.OneOf {
			parts[i] = s.OneOf[i].words()
		}
		return strings.Join(parts, " or ")
	}
	if len(s.Enum) > 0 {
		parts := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			parts[i] = fmt.Sprintf("`%v`", v)
		}
		return strings.Join(parts, ", ")
	}
	t, _ := s.Type.(string)
	if many, ok := s.Type.([]any); ok && len(many) > 0 { // ["array","null"]
		t, _ = many[0].(string)
	}
	switch {
	case t == "array" && s.Items != nil:
		return "array of " + s.Items.words()
	case t == "":
		return "any JSON"
	case s.Format == "date-time":
		return "time (RFC 3339)"
	}
	return t
}
