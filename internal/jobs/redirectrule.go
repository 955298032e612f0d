package jobs

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// Rule selects notices, and says which address they get.
type Rule struct {
	// From is an address: scheme, host and port are equal, and the path is a prefix that ends before a slash. If it is
	// empty, all addresses of Host match.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Prefix, Audience and Host narrow the selection; empty = any. Host is a name, or name:port.
	Prefix      string `json:"prefix,omitempty"`
	Audience    string `json:"audience,omitempty"`
	Host        string `json:"host,omitempty"`
	KeepHeaders bool   `json:"keep_headers,omitempty"`
}

// CheckBase validates the address from or to. Its error has no address in it.
func CheckBase(address string) error {
	if _, err := notice.CanonicalURL(address); err != nil {
		return err
	}

	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return errors.New("has a user, a query or a fragment; want scheme, host and path, such as https://shop.example/hooks")
	}

	return nil
}

// Same reports whether two addresses are equal as bases.
func Same(a, b string) bool {
	x, y := baseOf(a), baseOf(b)
	return x == y
}

// base is an address in the form in which bases are compared.
type base struct{ scheme, host, port, path string }

func baseOf(address string) base {
	u, err := url.Parse(address)
	if err != nil {
		return base{}
	}

	host, err := notice.Host(u.Hostname())
	if err != nil {
		return base{}
	}

	return base{u.Scheme, host, portOf(u), strings.TrimSuffix(u.EscapedPath(), "/")}
}

func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Matches reports whether the rule selects a notice, whatever its state is.
func (r *Rule) Matches(n *notice.Notice) bool {
	if n.URL == "" || r.Prefix != "" && !keys.HasPrefix(n.Key, r.Prefix) || r.Audience != "" && n.Audience != r.Audience {
		return false
	}

	at := baseOf(n.URL)
	if at.host == "" || r.Host != "" && r.Host != at.host && r.Host != net.JoinHostPort(at.host, at.port) {
		return false
	}
	if r.From == "" {
		return r.Host != ""
	}

	from := baseOf(r.From)
	return from.scheme == at.scheme && from.host == at.host && from.port == at.port &&
		(at.path == from.path || strings.HasPrefix(at.path, from.path+"/"))
}

// Target returns the new address of a notice that the rule matches. Query, fragment and the rest of the path stay. User
// and password stay only with the same receiver, or with KeepHeaders.
func (r *Rule) Target(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}

	to, err := url.Parse(r.To)
	if err != nil {
		return ""
	}

	path, rest := to.EscapedPath(), strings.TrimPrefix(u.EscapedPath(), baseOf(r.From).path)
	if rest != "" {
		path = strings.TrimSuffix(path, "/") + rest
	}

	out := to.Scheme + "://"
	if u.User != nil && (r.KeepHeaders || notice.SameReceiver(address, r.To)) {
		out += u.User.String() + "@"
	}

	out += to.Host + path
	if u.RawQuery != "" || u.ForceQuery {
		out += "?" + u.RawQuery
	}

	if u.Fragment != "" {
		out += "#" + u.EscapedFragment()
	}

	return out
}
