package notice

import (
	"encoding/json"
	"fmt"
)

// AppendJSON appends the content as an object with the members that a record has for it. It has no Expires, which scripts add to a
// record.
func (c *Content) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	start := len(b)
	b = c.append(b)
	if len(b) > start { // each member begins with a comma
		b = append(b[:start], b[start+1:]...)
	}

	return append(b, '}')
}

// DecodeContent parses what AppendJSON has written.
func DecodeContent(data []byte) (Content, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return Content{}, fmt.Errorf("content: %w", err)
	}

	return r.content()
}

// EffectiveType returns the content type that a callback carries: the given one, or application/json for a
// JSON body, or none.
func (c *Content) EffectiveType() string {
	if c.ContentType != "" {
		return c.ContentType
	}
	if inlineJSON(c.Body) {
		return "application/json"
	}

	return ""
}

// EffectiveType is that of the content. A decoded record has already shown whether its body is JSON.
func (n *Notice) EffectiveType() string {
	if n.inline && n.ContentType == "" {
		return "application/json"
	}
	return n.Content.EffectiveType()
}
