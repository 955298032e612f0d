package notice

import (
	"net/url"
	"strings"
)

// Secret returns the part of a content that is sealed, as text: the body, the headers, and the url if it has credentials, if headers
// have some, or if query is true and it has a query or a fragment. The same contents have the same text.
func (c *Content) Secret(query bool) []byte {
	s := Content{Body: c.Body, Headers: c.Headers}
	if clearURL(c.URL, query) != c.URL || len(WithoutCredentials(c.Headers)) < len(c.Headers) {
		s.URL = c.URL
	}

	return s.AppendJSON(nil)
}

// ToSeal returns a copy of a clear notice, to be sealed. Of the content as scheduled, if the url or headers were changed since, it has only
// the url without credentials: a digest would reveal a content that can be guessed. So a repeated schedule call differs.
func (n *Notice) ToSeal() *Notice {
	x := *n
	x.kept = ""
	if n.Scheduled != nil {
		x.Scheduled = &AsScheduled{URL: n.Scheduled.URL}
	}

	return &x
}

// ToSealAgain returns a copy of a sealed notice with its content opened, to be sealed in another form.
func (n *Notice) ToSealAgain(opened Content) *Notice {
	x := *n
	x.kept = ""
	x.Content = opened
	return &x
}

// ShowsQuery reports whether the query or the fragment of the url, or of the url as scheduled, is in clear text.
func (c *Content) ShowsQuery() bool {
	return HasQuery(c.URL) || c.Scheduled != nil && HasQuery(c.Scheduled.URL)
}

// Seal replaces the part that Secret returns by its sealed text and its digest. query is that of the call of Secret. Of the url as
// scheduled, only the clear part stays.
func (c *Content) Seal(sealed, same string, query bool) {
	c.Sealed, c.Same = sealed, same
	c.URLSealed = query && HasQuery(c.URL)
	c.URL, c.Body, c.Headers = clearURL(c.URL, query), nil, nil
	if first := c.Scheduled; first != nil {
		c.Scheduled = &AsScheduled{URL: clearURL(first.URL, query), Content: first.Content}
	}
}

// Opened returns a sealed content as if it had not been sealed: with the part that Secret has returned. If a redirect has changed the url
// since, it keeps its query and fragment, and loses its credentials.
func (c *Content) Opened(secret []byte) (Content, error) {
	s, ok := scanSecret(string(secret))
	if !ok {
		var err error
		if s, err = DecodeContent(secret); err != nil {
			return Content{}, err
		}
	}

	x := *c
	x.Body, x.Headers, x.Sealed, x.Same, x.URLSealed = s.Body, s.Headers, "", "", false
	switch {
	case s.URL == "":
	case c.URL == clearURL(s.URL, false), c.URL == clearURL(s.URL, true):
		x.URL = s.URL
	default:
		x.redirected(&s)
	}

	if first := x.Scheduled; first != nil && first.URL == c.URL { // the address is still the first one
		x.Scheduled = &AsScheduled{URL: x.URL, Content: first.Content}
	}

	return x, nil
}

// redirected completes an opened content whose url is not the sealed one.
func (c *Content) redirected(sealed *Content) {
	if !SameReceiver(sealed.URL, c.URL) {
		c.Headers = WithoutCredentials(sealed.Headers)
	}

	if c.URL != "" && !HasQuery(c.URL) {
		c.URL += sealed.URL[queryAt(sealed.URL):]
	}
}

// ReaddressSealed is Readdress for a sealed notice. opened is its content, and seal seals the new one.
func (n *Notice) ReaddressSealed(a Address, opened Content, seal func(c *Content) error) (*Notice, error) {
	clear := *n
	clear.Content = opened
	clear.Scheduled = nil
	next := clear.Readdress(a).Content
	x := n.Readdress(a) // with the digest of the sealed content as scheduled
	first := AsScheduled{URL: n.URL, Content: n.Content.digest()}
	if n.Scheduled != nil {
		first = *n.Scheduled
	}

	x.URL, x.Body, x.Headers, x.Scheduled = next.URL, next.Body, next.Headers, &first
	if err := seal(&x.Content); err != nil {
		return nil, err
	}

	now := x.Content
	if now.Scheduled = nil; now.digest() == first.Content {
		x.Scheduled = nil // as scheduled again
	}

	return x, nil
}

// HasQuery reports whether an address has a query or a fragment.
func HasQuery(address string) bool { return queryAt(address) < len(address) }

// queryAt returns where the query or the fragment of an address begins; its length without both.
func queryAt(address string) int {
	if at := strings.IndexAny(address, "?#"); at >= 0 {
		return at
	}
	return len(address)
}

// clearURL returns the part of an address that is not sealed: without user and password, and without query and fragment if query
// is true.
func clearURL(address string, query bool) string {
	if query {
		address = address[:queryAt(address)]
	}
	return withoutUser(address)
}

// withoutUser returns an address without user and password.
func withoutUser(address string) string {
	if !strings.Contains(address, "@") {
		return address
	}

	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}

	u.User = nil
	return u.String()
}
