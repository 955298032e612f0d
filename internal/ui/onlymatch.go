package ui

import (
	"net/url"

	"notifier/internal/search"
)

// Parameters of addresses: listParam keeps a search from leading on to its only match, foundParam is the order number that led
// to a notice.
const (
	listParam  = "list"
	foundParam = "found"
)

// onlyMatch returns the address of the only notice with an order number, if the search has no other word. The notice's page
// leads back to the matches.
func (s *searching) onlyMatch(got *search.Answer) string {
	q := s.r.URL.Query()
	if s.path != Root+"notices" || len(s.words) != 1 || s.q.Number == "" || q.Has(listParam) || q.Has("cursor") || q.Has("past") {
		return ""
	}

	key := got.OnlyKey(s.q.Number)
	if key == "" {
		return ""
	}

	return noticePath(key) + "?" + url.Values{foundParam: {s.q.Number}}.Encode()
}

// foundBy returns the order number that led to a page; empty if none did.
func (p *Pages) foundBy(q url.Values) string {
	if by, err := search.Parse("id="+q.Get(foundParam), p.now()); err == nil && q.Has(foundParam) {
		return by.Number
	}
	return ""
}

// matchesPath returns the address of all matches of an order number.
func matchesPath(number string) string { return noticesPath("q", number, listParam, "1") }
