package config

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one wrong variable.
type Problem struct {
	Variable string
	Value    string // never a secret; empty if missing or not shown
	Want     string // an acceptable value
}

func (p Problem) String() string {
	if p.Value == "" {
		return p.Variable + ": " + p.Want
	}
	return fmt.Sprintf("%s=%q: %s", p.Variable, p.Value, p.Want)
}

// Errors lists all problems of an environment, one line each.
type Errors []Problem

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.String()
	}

	return strings.Join(lines, "\n")
}

// sorted orders the problems by variable and removes duplicates.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Problem) int { return strings.Compare(a.Variable, b.Variable) })
	return slices.Compact(e)
}

// of reports whether the variable has a problem.
func (e Errors) of(variable string) bool {
	return slices.ContainsFunc(e, func(p Problem) bool { return p.Variable == variable })
}
