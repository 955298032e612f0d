// Package mask hides sensitive parts of notices on the dashboard and in downloads. Hidden values are replaced by •••.
//
// # Rules
//
// A rule is a JSON path: $.card.number, items[*].cvv, or $..pan at any depth. Names match without regard to case. All
// other values keep their order and the spelling of their numbers.
//
// A rule applies to these parts of a notice:
//   - a body in JSON;
//   - a body that is a form, where card[number] and card.number match $.card.number;
//   - JSON that is a string inside of another JSON text or a form;
//   - the parameters of the address, as one object: $.token hides the parameter token;
//   - the headers, as one object: $.token hides the header token.
//
// # Texts that cannot be parsed
//
// A body is hidden as a whole if it is neither a form nor JSON of at most 1000 levels. A string inside of a body
// that looks like JSON but cannot be parsed is hidden if it contains a name that a rule hides.
//
// # Repeated values
//
// A receiver may repeat a hidden value in its answer. So a hidden value of four or more bytes is also hidden in the
// rest of the notice: other members, the address, the headers and the answers. Plain and escaped occurrences are
// replaced. If the value occurs in another encoding, such as base64, the whole text is hidden. If a text was hidden
// because it could not be parsed, an answer that contains one of its words is hidden too.
package mask
