package client

import (
	"context"
	"encoding/json"
	"time"
)

// Address is a change of a notice's url and headers.
type Address struct {
	URL string `json:"url,omitempty"` // empty = it stays
	// Headers replace all headers of the notice; nil = they stay.
	Headers map[string]string `json:"-"`
	// KeepHeaders keeps the notice's Authorization, Cookie and Proxy-* headers if URL has another host.
	KeepHeaders bool `json:"keep_headers,omitempty"`
	// Due is a new due time, Delay one from now by the service's clock; if both are zero, it stays.
	Due   time.Time     `json:"-"`
	Delay time.Duration `json:"-"`
}

// MarshalJSON writes the body of the call.
func (a Address) MarshalJSON() ([]byte, error) {
	type plain Address
	var headers *map[string]string
	if a.Headers != nil {
		headers = &a.Headers
	}

	return json.Marshal(struct {
		plain
		Headers *map[string]string `json:"headers,omitempty"`
		Due     string             `json:"due,omitempty"`
		Delay   string             `json:"delay,omitempty"`
	}{plain(a), headers, instant(a.Due), delay(a.Delay)})
}

// Readdress changes the url and the headers of a scheduled or dead notice, and the due time of a scheduled one. The
// client needs the role operate.
func (c *Client) Readdress(ctx context.Context, key string, a Address) (*Notice, error) {
	n := &Notice{}
	return n, c.send(ctx, request{method: "PATCH", path: []string{"v1", "notices", key}, idempotent: true}, a, n)
}
