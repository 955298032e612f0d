package ui

import "slices"

// Patterns are those that the pages serve, as the mux was given them.
func (p *Pages) Patterns() []string { return slices.Clone(p.mux.patterns) }
