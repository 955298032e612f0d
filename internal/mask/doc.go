// Package mask hides sensitive parts of notices on the dashboard and in downloads, following rules that the operator
// has set. Hidden values are replaced by •••.
//
// # Rules
//
// A rule is a JSON path, such as $.card.number, $.items[*].cvv, or $..pan for any depth. The $ may be omitted. The case
// of names does not matter. Masked JSON keeps the order of its values and the spelling of its numbers.
//
// A rule applies to these parts of a notice:
//   - a body in JSON;
//   - a body that is a form, where card[number] and card.number match $.card.number;
//   - JSON that is a string inside of another JSON text or a form;
//   - the parameters of the address: $.token hides the parameter token;
//   - the headers: $.token hides the header token;
//   - a receiver's answer in JSON.
//
// # Texts that cannot be parsed
//
// Some texts are hidden as a whole, because the rules cannot be applied:
//   - a body that is neither a form nor JSON of at most 1000 levels;
//   - a string of four or more bytes that looks like JSON, but cannot be parsed;
//   - another string of that length, if it contains a name that a rule hides, and punctuation that may lead to a value,
//     such as an equals sign.
//
// # Repeated values
//
// A receiver may repeat a hidden value in its answer. So most values of four or more bytes that are hidden in the body,
// the address or the headers are also hidden in the rest of the notice and in the answers:
//   - Plain and escaped occurrences of the value are replaced.
//   - A text that contains the value in base64 or hex is hidden as a whole.
//   - An answer is hidden as a whole if it repeats a word, of four or more bytes, of a text that could not be parsed.
package mask
