package config

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one variable that is wrong.
type Problem struct {
	Variable string
	Value    string // never a secret; empty = missing, or not shown
	Want     string // what would be right
}

func (p Problem) String() string {
	if p.Value == "" {
		return p.Variable + ": " + p.Want
	}
	return fmt.Sprintf("%s=%q: %s", p.Variable, p.Value, p.Want)
}

// Errors is everything that is wrong with an environment, one line each.
type Errors []Problem

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sorted orders by variable and drops what was found twice.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Problem) int { return strings.Compare(a.Variable, b.Variable) })
	return slices.Compact(e)
}

// of reports whether something is wrong with that variable.
func (e Errors) of(variable string) bool {
	return slices.ContainsFunc(e, func(p Problem) bool { return p.Variable == variable })
}
