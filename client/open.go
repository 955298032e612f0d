package client

import (
	"context"
	"encoding/json"
)

// Opened is the content of a sealed text.
type Opened struct {
	Raw
	Key string `json:"key"`
	// URL is set if the text has it, without its password.
	URL string `json:"url"`
	// ContentType is application/json if the body is JSON. That of the entry takes precedence.
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Withheld    []string          `json:"headers_withheld"` // names of headers with secret values, which are not shown
	Body        json.RawMessage   `json:"body"`
	BodyBase64  []byte            `json:"body_base64"`
}

// Content returns the bytes of the body, in whichever member it came.
func (o *Opened) Content() []byte {
	if len(o.BodyBase64) > 0 {
		return o.BodyBase64
	}
	return o.Body
}

// Open opens the sealed text of an entry of a list or stream; key is that of the entry. A [Problem] with the status 410 means that the
// text's audience or id was forgotten, 422 that the text was changed or is of another notice, and 503 that the service lacks the
// service key. Clients of the role produce open texts of lists and streams within their prefix.
func (c *Client) Open(ctx context.Context, key, sealed string) (*Opened, error) {
	o := &Opened{}
	body := map[string]string{"key": key, "sealed": sealed}
	return o, c.send(ctx, request{method: "POST", path: []string{"v1", "open"}, idempotent: true}, body, o)
}
