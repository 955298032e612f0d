// Package record writes the results of long test runs into the documentation, so that nobody copies measured numbers by
// hand. A short result becomes a section of a page, between the lines `<!-- record: name -->` and `<!-- end:
// name -->`. A long result becomes a file in docs/records.
//
// The package also reads model/transitions.txt, which names the lines of code for each step of the model of one notice
// (directory model).
package record
