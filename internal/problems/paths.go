package problems

import (
	"net/url"
	"strconv"

	"notifier/internal/notice"
	"notifier/internal/receivers"
)

// Root is the address of the dashboard.
const Root = "/ui/"

// ReceiverPath returns the address of a receiver.
func ReceiverPath(name string) string { return Root + "receivers/" + url.PathEscape(name) }

// NoticesPath returns the address of a search, from names and values in turn.
func NoticesPath(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}

	return Root + "notices?" + q.Encode()
}

// DeadPath returns the address of the dead letters of a route.
func DeadPath(route string) string { return Root + "dead?" + url.Values{"route": {route}}.Encode() }

// GroupPath returns the address of the dead letters of a route with a cause.
func GroupPath(route string, c notice.Cause) string {
	return Root + "dead/group?" + GroupValues(route, c).Encode()
}

// GroupValues are the parameters that name the dead letters of a route with a cause.
func GroupValues(route string, c notice.Cause) url.Values {
	q := url.Values{"route": {route}, "reason": {string(c.Reason)}}
	if c.Status > 0 {
		q.Set("status", strconv.Itoa(c.Status))
	}

	return q
}

// ReceiversPath returns the address of the receivers of a route (empty = of all) that a selection has.
func ReceiversPath(route string, s receivers.Selection) string {
	if q := ReceiverValues(route, s).Encode(); q != "" {
		return Root + "receivers?" + q
	}
	return Root + "receivers"
}

// ReceiverValues are the parameters of a selection of receivers, without empty ones.
func ReceiverValues(route string, s receivers.Selection) url.Values {
	q := url.Values{}
	for name, text := range map[string]string{"q": s.Contains, "state": string(s.State), "route": route, "reason": s.Reason} {
		if text != "" {
			q.Set(name, text)
		}
	}

	return q
}

// changesPath returns the address of the audit of a route.
func changesPath(prefix string) string {
	return Root + "audit?" + url.Values{"prefix": {prefix}}.Encode()
}
