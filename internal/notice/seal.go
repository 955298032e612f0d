package notice

import (
	"net/url"
)

// Secret returns the part of a content that is sealed, as text: the body, the headers, and the url if it has credentials or
// if headers have some. The same contents have the same text.
func (c *Content) Secret() []byte {
	s := Content{Body: c.Body, Headers: c.Headers}
	if withoutUser(c.URL) != c.URL || len(WithoutCredentials(c.Headers)) < len(c.Headers) {
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
		x.Scheduled = &AsScheduled{URL: withoutUser(n.Scheduled.URL)}
	}

	return &x
}

// Seal replaces the part that Secret returns by its sealed text and its digest.
func (c *Content) Seal(sealed, same string) {
	c.Sealed, c.Same = sealed, same
	c.URL, c.Body, c.Headers = withoutUser(c.URL), nil, nil
}

// Opened returns a sealed content as if it had not been sealed: with the part that Secret has returned. If the receiver has been
// changed since, it has no credentials.
func (c *Content) Opened(secret []byte) (Content, error) {
	s, ok := scanSecret(string(secret))
	if !ok {
		var err error
		if s, err = DecodeContent(secret); err != nil {
			return Content{}, err
		}
	}

	x := *c
	x.Body, x.Headers, x.Sealed, x.Same = s.Body, s.Headers, "", ""
	switch {
	case s.URL == "":
	case withoutUser(s.URL) == c.URL:
		x.URL = s.URL
	case !SameReceiver(s.URL, c.URL):
		x.Headers = WithoutCredentials(s.Headers)
	}

	return x, nil
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

	x.URL, x.Body, x.Headers, x.Scheduled = next.URL, next.Body, next.Headers, nil
	if err := seal(&x.Content); err != nil {
		return nil, err
	}

	if x.Content.digest() != first.Content {
		x.Scheduled = &first
	}

	return x, nil
}

// withoutUser returns an address without user and password.
func withoutUser(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}

	u.User = nil
	return u.String()
}
