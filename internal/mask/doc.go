// Package mask hides parts of notices on the pages and in downloads.
//
// Rules are JSON paths: $.card.number, items[*].cvv, $..pan (at any depth). Names match without
// regard to case. A value that a path selects is replaced by the text •••. Everything else keeps
// its order and the spelling of its numbers.
//
// A body that cannot be parsed is hidden as a whole. A body is parsed if it is JSON of at most 1000
// levels, or if its content type says that it is a form. Flattened names are read as paths too:
// card[number] and card.number are $.card.number. JSON inside a string or a form's field is masked
// like the body. A string that cannot be parsed is hidden if it contains the name of a hidden
// member.
//
// A hidden value of four or more bytes is also hidden in the rest of the notice: other members, the
// address, headers and the receiver's answers. Plain and escaped occurrences are replaced. If the
// value occurs in another encoding, such as base64, the whole text is hidden. If a text was hidden
// because it could not be parsed, an answer that repeats one of its words is hidden too.
//
// The parameters of an address's query are masked as the members of one object, and so are a
// notice's headers: $.token hides the parameter and the header of that name.
package mask
