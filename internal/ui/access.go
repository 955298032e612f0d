package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"notifier/internal/auth"
	"notifier/internal/keys"
	"notifier/internal/store"
)

// Visitor is a person who uses the pages, with the scope and the role of the session.
type Visitor struct {
	// Client is the name of the client whose token was used. It is empty without clients.
	Client string
	// Prefix is the prefix of the visible keys; empty means all.
	Prefix string
	// Host and Audience limit a portal link to the notices of one merchant. Label is the merchant's name,
	// and Resend reports whether the visitor may resend notices of the host.
	Host, Audience, Label string
	Resend                bool
	// Role is the role of the client. Sessions of links have auth.Read.
	Role auth.Role
	// CSRF is the token in the field csrf of each form, and in the header X-CSRF-Token of scripts.
	CSRF string
	// Zone is the time zone of typed times: see zoneCookie.
	Zone *time.Location
	// SignedIn reports whether there is a session to end.
	SignedIn bool

	session *auth.Session // nil without a session
}

// visitor returns the visitor of a session. Without one (nil) the service has no clients.
func visitor(s *auth.Session) Visitor {
	if s == nil {
		return Visitor{Role: auth.Local().Role}
	}
	return Visitor{Client: s.Name, Prefix: s.Prefix, Host: s.Host, Audience: s.Audience, Label: s.Label, Resend: s.Resend, Role: s.Role,
		CSRF: s.CSRF(), SignedIn: !s.Anonymous(), session: s}
}

// caller returns the visitor as a caller of the API, without host and audience: see Narrow.
func (v Visitor) caller() auth.Caller {
	return auth.Caller{Name: v.Client, Prefix: v.Prefix, Role: v.Role}
}

// May reports whether the role includes the required role.
func (v Visitor) May(required auth.Role) bool { return v.Role.Includes(required) }

// Covers reports whether a key lies within the visitor's prefix. A notice must also pass Sees.
func (v Visitor) Covers(key string) bool { return keys.HasPrefix(key, v.Prefix) }

// Owns reports whether all keys under prefix lie within the visitor's scope.
func (v Visitor) Owns(prefix string) bool {
	return !v.Narrow() && (prefix == v.Prefix || keys.HasPrefix(prefix, v.Prefix))
}

// ownsAll reports whether all keys under all prefixes lie within the visitor's scope. Otherwise pages hide
// how many notices a search inspected, since the number includes notices of other clients.
func (v Visitor) ownsAll(prefixes []string) bool {
	return !slices.ContainsFunc(prefixes, func(p string) bool { return !v.Owns(p) })
}

// Meets reports whether keys under prefix may lie within the visitor's scope.
func (v Visitor) Meets(prefix string) bool {
	return keys.Overlap(prefix, v.Prefix)
}

// Narrow reports whether the visitor sees only some notices of the prefix. Such a visitor gets no counts
// and no charts, which include the other notices.
func (v Visitor) Narrow() bool { return v.Host != "" || v.Audience != "" }

// Linked reports whether the session is of a portal link. Such a visitor sees pages of notices only, without
// names of clients and routes.
func (v Visitor) Linked() bool { return v.session != nil && v.session.Link != "" }

// resendPattern is the only change that a portal link may allow.
const resendPattern = "POST /ui/notices/{key}/resend"

// linkPages are the pages for visitors with a portal link. All other pages contain names of routes, or
// receivers and notices of others. A new page is not listed.
var linkPages = []string{"GET /ui/notices", "GET /ui/notices/{key}", "GET /ui/live/notices/{key}", "GET /ui/dead", "GET /ui/dead/group",
	"GET /ui/"}

// opens returns the failure if the visitor may not use a page that requires the role.
func (v Visitor) opens(role auth.Role, pattern string) error {
	switch {
	case pattern == resendPattern && v.Resend:
		return nil
	case !v.May(role):
		return failure{http.StatusForbidden, say("This needs the role `%s`. This sign-in has the role `%s`.", role, v.Role)}
	case v.Linked() && !slices.Contains(linkPages, pattern):
		return failure{http.StatusForbidden, say("This link shows notices only.")}
	}
	return nil
}

// mayResend reports whether the visitor may resend visible notices.
func (v Visitor) mayResend() bool { return v.opens(auth.Operate, resendPattern) == nil }

// Sees reports whether a notice lies within the visitor's scope; host is its receiver.
func (v Visitor) Sees(f *store.Found, host string) bool {
	return v.Covers(f.Key) && (v.Audience == "" || f.Audience == v.Audience) && (v.Host == "" || host == v.Host)
}

// scope returns an identifier of the visible notices and the role.
func (v Visitor) scope() string {
	return fmt.Sprintf("%q %q %q %v", v.Prefix, v.Host, v.Audience, v.Role)
}

// All reports whether the visitor sees all notices.
func (v Visitor) All() bool { return v.Prefix == "" && !v.Narrow() }

// zoneCookie holds the name of the time zone of the pages, if it is not UTC. The script of the pages sets
// it.
const zoneCookie = "notifier_zone"

// zoneOf returns the time zone of the pages in a browser; UTC by default.
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

func (v Visitor) zone() *time.Location { return cmp.Or(v.Zone, time.UTC) }
