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

// Renamed returns the problems with other names, for options of programs. names are pairs of a variable and its name there.
func (e Errors) Renamed(names []string) Errors {
	by := strings.NewReplacer(names...)
	out := slices.Clone(e)
	for i := range out {
		out[i].Variable, out[i].Want = by.Replace(out[i].Variable), by.Replace(out[i].Want)
	}

	return out
}

// sorted orders the problems by variable and removes duplicates.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Problem) int { return strings.Compare(a.Variable, b.Variable) })
	return slices.Compact(e)
}

// Of reports whether the variable has a problem.
func (e Errors) Of(variable string) bool {
	return slices.ContainsFunc(e, func(p Problem) bool { return p.Variable == variable })
}
