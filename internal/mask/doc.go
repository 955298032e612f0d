// Package mask hides sensitive parts of notices on the dashboard and in downloads. Hidden values are replaced by •••.
//
// # Rules
//
// A rule is a JSON path: $.card.number, items[*].cvv, or $..pan at any depth. Names match without regard to case. All
// other values keep their order and the spelling of their numbers.
//
// The rules apply to bodies in JSON and to forms. Flattened names of fields are read as paths too: card[number] and
// card.number match $.card.number. They also apply to JSON that is a string inside of another JSON text or a form, to
// the parameters of the address, and to the headers. The parameters and the headers are each treated as one object:
// $.token hides the parameter token and the header token.
//
// # Texts that cannot be parsed
//
// A body that is neither JSON, of at most 1000 levels, nor a form is hidden as a whole. A string inside of a body that
// cannot be parsed is hidden if it contains the name of a member that a rule hides.
//
// # Repeated values
//
// A receiver may repeat a hidden value in its answer. So a hidden value of four or more bytes is also hidden in all
// other parts of the notice: other members, the address, the headers and the answers. Plain and escaped occurrences are
// replaced. If the value occurs in another encoding, such as base64, the whole text is hidden. If a text was hidden
// because it could not be parsed, an answer that contains one of its words is hidden too.
package mask
