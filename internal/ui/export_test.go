package ui

import "notifier/internal/auth"

// Patterns returns the patterns of the mux.
func (p *Pages) Patterns() []string {
	var out []string
	for _, x := range p.mux.patterns {
		out = append(out, x.text)
	}
	return out
}

// Roles are the roles that the patterns require.
func (p *Pages) Roles() map[string]auth.Role {
	out := map[string]auth.Role{}
	for _, x := range p.mux.patterns {
		out[x.text] = x.role
	}
	return out
}

// CSRFPlaceholder is the placeholder of CSRF tokens in blocks.
func CSRFPlaceholder() string { return csrfHere }

// FaultText returns what the pages say of a fault of a search.
func FaultText(want string) string { return faultTexts[want].String() }
