package notice

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

// AsScheduled describes the content of the schedule call of a notice whose url or headers were changed later. A repeated
// schedule call is compared with it.
type AsScheduled struct {
	URL     string        `json:"url"`
	Content ContentDigest `json:"content"`
}

// ContentDigest identifies a content, with the fields that [Content.Diff] compares.
type ContentDigest [contentDigestSize]byte

// MarshalText writes the digest in hex.
func (d ContentDigest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *ContentDigest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(d) {
		return fmt.Errorf("%.40q is no digest of a content", text)
	}

	copy(d[:], b)
	return nil
}

func (s *AsScheduled) append(b []byte) []byte {
	b = append(b, `,"scheduled":{"url":`...)
	b = append(quote(b, s.URL), `,"content":"`...)
	return append(hex.AppendEncode(b, s.Content[:]), `"}`...)
}

// Address is a change of a notice's url and headers.
type Address struct {
	URL string // empty = the url stays
	// Headers replace the notice's headers if SetHeaders is true.
	Headers    []Header
	SetHeaders bool
	// KeepHeaders keeps credentials in a change to another host: see [WithoutCredentials].
	KeepHeaders bool
	// Redirect is the id of the redirect that makes the change, if any.
	Redirect string
}

// Readdress returns the notice with another url or other headers. It keeps its webhook-id and its attempts. A change to
// another host drops the notice's own credentials, unless the change sets the headers or keeps them.
func (n *Notice) Readdress(a Address) *Notice {
	x := *n
	x.kept = ""
	if x.Scheduled == nil {
		x.Scheduled = &AsScheduled{URL: n.URL, Content: n.Content.digest()}
	}

	if a.URL != "" {
		x.URL = a.URL
	}

	switch {
	case a.SetHeaders:
		x.Headers = a.Headers
	case !a.KeepHeaders && !SameReceiver(n.URL, x.URL):
		x.Headers = WithoutCredentials(n.Headers)
	}

	if a.Redirect != "" {
		x.Redirect = a.Redirect
	}

	now := x.Content
	if now.Scheduled = nil; now.digest() == x.Scheduled.Content {
		x.Scheduled = nil // as scheduled again
	}

	return &x
}

// ScheduledURL returns the url that the schedule call gave.
func (c *Content) ScheduledURL() string {
	if c.Scheduled != nil {
		return c.Scheduled.URL
	}
	return c.URL
}

// SameReceiver reports whether credentials for one address may be sent to another: the host and the port are the same,
// with the default port of each scheme, and the other address is not http in place of https.
func SameReceiver(from, to string) bool {
	a, b := receiverOf(from), receiverOf(to)
	return a != "" && a == b && (HTTPS(to) || !HTTPS(from))
}

// receiverOf returns the host of an address, with the port if it is not the default port; empty if it has none.
func receiverOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}

	host, err := Host(u.Hostname())
	if err != nil {
		return ""
	}

	switch port := u.Port(); {
	case port == "", port == "80" && u.Scheme == "http", port == "443" && u.Scheme == "https":
		return host
	default:
		return host + " " + port
	}
}

// WithoutCredentials returns headers without Authorization, Cookie and Proxy-*, which are meant for one host.
func WithoutCredentials(hs []Header) []Header {
	var out []Header
	for _, h := range hs {
		// Some servers read an underscore as a hyphen.
		switch l := strings.ReplaceAll(strings.ToLower(h.Name), "_", "-"); {
		case l == "authorization", l == "cookie", strings.HasPrefix(l, "proxy-"):
		default:
			out = append(out, h)
		}
	}

	return out
}

// PublicAddress returns an address for logs, the audit and pages: without user, password, query and fragment.
func PublicAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}

	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
