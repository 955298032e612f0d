// Package record writes the results of long test runs into the documentation, so that
// no figure there is written by hand.
//
// A short result becomes a section of a page, between the lines `<!-- record: name -->`
// and `<!-- end: name -->`; a long one becomes a file in docs/records. The package also
// reads model/transitions.txt, whose rows quote lines of the code.
package record
