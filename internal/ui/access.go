package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"notifier/internal/access"
	"notifier/internal/keys"
	"notifier/internal/session"
	"notifier/internal/store"
)

// Visitor is somebody who was let in, and what he may see and touch.
type Visitor struct {
	// Client is the name of the client whose token he has; empty where none is
	// configured.
	Client string
	// Prefix of the keys that he sees; empty = all.
	Prefix string
	// Host and Audience narrow that further, for a link given to one merchant.
	Host, Audience string
	// Role is the client's; that of a link's session is access.Read.
	Role access.Role
	// CSRF is the token that each form of his carries as the field csrf, and each
	// script's request as the header X-CSRF-Token.
	CSRF string
	// Zone is that of times he writes: see zoneCookie.
	Zone *time.Location
	// SignedIn: he has a session, which he can end.
	SignedIn bool

	session *session.Session // nil where he has none
}

// visitor is somebody with a session; nil is somebody who reaches a service
// without clients and has none.
func visitor(s *session.Session) Visitor {
	if s == nil {
		return Visitor{Role: access.Local().Role}
	}
	return Visitor{Client: s.Name, Prefix: s.Prefix, Host: s.Host, Audience: s.Audience, Role: s.Role, CSRF: s.CSRF(),
		SignedIn: !s.Anonymous(), session: s}
}

// caller is the visitor as the API knows one. It has no host and no audience: see
// Narrow.
func (v Visitor) caller() access.Caller {
	return access.Caller{Name: v.Client, Prefix: v.Prefix, Role: v.Role}
}

// May reports whether his role allows what requires the given one.
func (v Visitor) May(required access.Role) bool { return v.Role.Includes(required) }

// Covers reports whether a key lies within the visitor's prefix. What is found
// under it must also pass Sees.
func (v Visitor) Covers(key string) bool { return keys.HasPrefix(key, v.Prefix) }

// Owns reports whether all keys under prefix lie within his scope.
func (v Visitor) Owns(prefix string) bool {
	return !v.Narrow() && (prefix == v.Prefix || keys.HasPrefix(prefix, v.Prefix))
}

// ownsAll reports whether all keys under all of the prefixes lie within his scope: only
// then he is told how many were looked at, which counts what he does not see too.
func (v Visitor) ownsAll(prefixes []string) bool {
	return !slices.ContainsFunc(prefixes, func(p string) bool { return !v.Owns(p) })
}

// Meets reports whether keys under prefix may lie within his scope.
func (v Visitor) Meets(prefix string) bool {
	return prefix == v.Prefix || keys.HasPrefix(prefix, v.Prefix) || keys.HasPrefix(v.Prefix, prefix)
}

// Narrow reports whether he sees only some of the notices under his prefix. Then
// he is shown no count and no chart, which would tell of the others.
func (v Visitor) Narrow() bool { return v.Host != "" || v.Audience != "" }

// Linked reports whether he came by a link. The audit has the addresses of the link's
// maker, which are not for him.
func (v Visitor) Linked() bool { return v.session != nil && v.session.Link != "" }

// Sees reports whether a notice that was found is within his scope; host is where
// it goes to.
func (v Visitor) Sees(f *store.Found, host string) bool {
	return v.Covers(f.Key) && (v.Audience == "" || f.Audience == v.Audience) && (v.Host == "" || host == v.Host)
}

// scope tells visitors apart who see different things.
func (v Visitor) scope() string {
	return fmt.Sprintf("%q %q %q %v", v.Prefix, v.Host, v.Audience, v.Role)
}

// All reports whether he sees everything.
func (v Visitor) All() bool { return v.Prefix == "" && !v.Narrow() }

// zoneCookie is set by the pages' script: the name of the zone in which times are shown and read,
// if it is not UTC.
const zoneCookie = "notifier_zone"

// zoneOf is the zone in which a browser shows times; UTC unless it was switched.
func zoneOf(r *http.Request) *time.Location {
	if c, err := r.Cookie(zoneCookie); err == nil && c.Value != "" && c.Value != "Local" && len(c.Value) < 64 {
		if name, err := url.QueryUnescape(c.Value); err == nil {
			if zone, err := time.LoadLocation(name); err == nil {
				return zone
			}
		}
	}
	return time.UTC
}

// zone is the visitor's zone.
func (v Visitor) zone() *time.Location { return cmp.Or(v.Zone, time.UTC) }
