package route

import (
	"errors"
	"net/url"
	"strings"

	"notifier/internal/notice"
	"notifier/internal/sign"
)

// OAuth2 is the source of a route's access tokens, by the client credentials grant (RFC 6749, section 4.4).
type OAuth2 struct {
	TokenURL     *url.URL
	ClientID     string
	ClientSecret Hidden
	Scopes       []string
	Audience     string // empty = none is requested
}

// Hidden is a text that prints as dots.
type Hidden string

func (Hidden) String() string   { return "•••" }
func (Hidden) GoString() string { return "•••" }

// MarshalText keeps the text out of JSON and logs.
func (Hidden) MarshalText() ([]byte, error) { return []byte("•••"), nil }

// ParseTokenURL parses the address of an issuer's token endpoint. Its error does not quote the address.
func ParseTokenURL(s string) (*url.URL, error) {
	s, err := notice.CanonicalURL(s)
	if err != nil {
		return nil, errors.New("want https://host/path of the issuer's token endpoint: the " + strings.TrimPrefix(err.Error(), "invalid: "))
	}

	u, err := url.Parse(s)
	if err != nil || u.User != nil || u.Fragment != "" {
		return nil, errors.New("want https://host/path of the issuer's token endpoint, without user and fragment")
	}

	return u, nil
}

// reserves reports whether the route writes the header itself, so that notices must not have it.
func (r *Route) reserves(s *sign.Settings, name string) bool {
	return s.Reserves(name) || r.OAuth2 != nil && strings.EqualFold(name, "authorization")
}

// Reserves reports whether the route writes the header of that name itself.
func (r *Route) Reserves(name string) bool { return r.reserves(r.Signing(), name) }
