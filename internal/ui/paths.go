package ui

import (
	"net/url"

	"notifier/internal/problems"
)

// noticePath returns the address of a notice.
func noticePath(key string) string { return Root + "notices/" + url.PathEscape(key) }

// receiverPath returns the address of a receiver.
func receiverPath(name string) string { return problems.ReceiverPath(name) }

// routePath returns the address under which a route is paused and resumed.
func routePath(name string) string { return Root + "routes/" + url.PathEscape(name) }

// redirectPath returns the address under which a redirect is stopped and resumed.
func redirectPath(id string) string { return Root + "redirects/" + url.PathEscape(id) }

// recurrencePath returns the address under which a recurring notice is paused, resumed and run.
func recurrencePath(key string) string { return Root + "recurrences/" + url.PathEscape(key) }

// noticesPath returns the address of a search, from names and values in turn.
func noticesPath(pairs ...string) string { return problems.NoticesPath(pairs...) }

// deadPath returns the address of the dead letters of a route.
func deadPath(route string) string { return problems.DeadPath(route) }

// home returns the address of the visitor's first page.
func (v Visitor) home() string {
	if v.Linked() {
		return Root + "notices"
	}
	return Root
}
