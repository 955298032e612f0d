package client

import (
	"context"
	"time"
)

// PortalLinkRequest describes a link to the dashboard for one merchant. The link shows the notices under
// Prefix. Host and Audience, if set, restrict them further.
type PortalLinkRequest struct {
	Prefix   string        // app, app:module or app:module:type
	Host     string        // shop.example, without scheme, port and path
	Audience string        // the audience of the notices
	Label    string        // the merchant's name on the pages
	Resend   bool          // visitors may resend notices of Host, 10 a minute
	TTL      time.Duration // validity; 0 = 8 h
}

// PortalLink is a link to the dashboard for one merchant. Anyone with the URL can see its notices.
type PortalLink struct {
	Raw
	ID        string    `json:"id"` // for RevokePortalLink
	URL       string    `json:"url"`
	Prefix    string    `json:"prefix"`
	Host      string    `json:"host"`
	Audience  string    `json:"audience"`
	Label     string    `json:"label"`
	Resend    bool      `json:"resend"`
	ExpiresAt time.Time `json:"expires_at"`
	Warning   string    `json:"warning"` // set if the link may show more than intended
}

// PortalLink creates a link to the dashboard. The link shows no more than the client of this token may
// see, and becomes invalid with the token.
func (c *Client) PortalLink(ctx context.Context, r PortalLinkRequest) (*PortalLink, error) {
	l := &PortalLink{}
	return l, c.send(ctx, request{method: "POST", path: []string{"v1", "portal-links"}}, struct {
		Prefix   string `json:"prefix"`
		Host     string `json:"host,omitempty"`
		Audience string `json:"audience,omitempty"`
		Label    string `json:"label,omitempty"`
		Resend   bool   `json:"resend,omitempty"`
		TTL      string `json:"ttl,omitempty"`
	}{r.Prefix, r.Host, r.Audience, r.Label, r.Resend, delay(r.TTL)}, l)
}

// RevokePortalLink revokes a link, and ends the sessions that were opened with it.
func (c *Client) RevokePortalLink(ctx context.Context, id string) error {
	_, _, err := c.do(ctx, request{method: "DELETE", path: []string{"v1", "portal-links", id}})
	return err
}
