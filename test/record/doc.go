// Package record keeps docs/reliability.md true: it writes what a run has found
// into its section, between the lines `<!-- record: name -->` and
// `<!-- end: name -->`, so that no figure there is written by hand, and it knows
// the rows that point at lines of the code.
package record
