// Package mask hides parts of notices on the pages and in downloads.
//
// Rules are JSON paths: $.card.number, items[*].cvv, $..pan (at any depth). Names
// match without regard to case. A value that a path leads to becomes the text •••.
// Everything else keeps its order and the spelling of its numbers.
//
// Masking fails closed: a body is hidden whole unless it is JSON of at most 1000
// levels, or its content type says that it is a form. Flattened names are read as
// paths too: card[number] and card.number are $.card.number. JSON inside a string or
// a form's field is masked like the body. A string that cannot be parsed is hidden if
// it contains the name of a hidden member.
//
// A hidden value of four or more bytes is also hidden in the rest of the notice:
// other members, the address, headers and the receiver's answers. Plain and escaped
// occurrences are replaced. If another spelling remains, such as base64, the whole
// text is hidden. An answer is also hidden if it repeats a word of a text that was
// hidden because it could not be parsed.
//
// The fields of an address's query, and a notice's headers, are members of one object
// each: $.token hides the parameter and the header of that name.
package mask
