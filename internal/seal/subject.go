package seal

import (
	"errors"
	"strings"

	"notifier/internal/keys"
)

// Subject is the route, audience or order key whose keys seal a text.
type Subject string

// RouteSubject returns the subject of all notices of a route, by its prefix.
func RouteSubject(prefix string) Subject { return Subject("route:" + prefix) }

// AudienceSubject returns the subject of all notices of an audience.
func AudienceSubject(audience string) Subject { return Subject("audience:" + audience) }

// IDSubject returns the subject of all notices with an order key (keys.OrderKey).
func IDSubject(orderKey string) Subject { return Subject("id:" + orderKey) }

// OrderKey returns the order key of a subject; ok is false for a route or audience.
func (s Subject) OrderKey() (key string, ok bool) {
	return strings.CutPrefix(string(s), string(IDSubject("")))
}

// Scope selects the subjects of a route's notices.
type Scope string

// The scopes.
const (
	PerRoute    Scope = "route"    // one subject for the route
	PerAudience Scope = "audience" // one for each audience
	PerID       Scope = "id"       // one for each order key
)

// ParseScope reads a scope.
func ParseScope(s string) (Scope, error) {
	switch scope := Scope(s); scope {
	case PerRoute, PerAudience, PerID:
		return scope, nil
	}

	return "", errors.New("want route, audience or id")
}

// Subject returns the subject of a notice of the route with that prefix. ok is false if the scope is PerAudience and the
// notice has no audience.
func (s Scope) Subject(prefix, audience, key string) (of Subject, ok bool) {
	switch s {
	case PerAudience:
		return AudienceSubject(audience), audience != ""
	case PerID:
		return IDSubject(keys.OrderKey(key)), true
	}

	return RouteSubject(prefix), true
}
