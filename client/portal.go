package client

import (
	"context"
	"encoding/json"
	"time"
)

// PortalLinkRequest says what a link to the pages shows: the notices under a
// prefix, and of them, if given, those that go to a host or are for an audience.
type PortalLinkRequest struct {
	Prefix   string        // app, app:module or app:module:type
	Host     string        // shop.example, without scheme, port and path
	Audience string        // whom the notices name
	TTL      time.Duration // how long it is good; 0 = 8 h
}

// PortalLink is a link to the pages for one merchant. Whoever has its URL sees
// what it shows.
type PortalLink struct {
	Raw
	ID        string    `json:"id"` // by which it can be revoked
	URL       string    `json:"url"`
	Prefix    string    `json:"prefix"`
	Host      string    `json:"host"`
	Audience  string    `json:"audience"`
	ExpiresAt time.Time `json:"expires_at"`
	Warning   string    `json:"warning"` // if it shows more than may be meant
}

// PortalLink makes a link to the pages. It is no wider than the client whose token
// this is, and ends with that token.
func (c *Client) PortalLink(ctx context.Context, r PortalLinkRequest) (*PortalLink, error) {
	body, err := json.Marshal(struct {
		Prefix   string `json:"prefix"`
		Host     string `json:"host,omitempty"`
		Audience string `json:"audience,omitempty"`
		TTL      string `json:"ttl,omitempty"`
	}{r.Prefix, r.Host, r.Audience, delay(r.TTL)})
	if err != nil {
		return nil, err
	}
	l := &PortalLink{}
	return l, c.into(ctx, request{method: "POST", path: []string{"v1", "portal-links"}, body: body}, l)
}

// RevokePortalLink ends a link early, also for those who have opened it.
func (c *Client) RevokePortalLink(ctx context.Context, id string) error {
	_, _, err := c.do(ctx, request{method: "DELETE", path: []string{"v1", "portal-links", id}})
	return err
}
