// Package mask takes out of bodies and answers what may not be seen on the pages,
// in what is searched there, and in what is downloaded.
//
// Rules are paths of JSON: $.card.number, items[*].cvv, $..pan (at any depth).
// Names are compared without regard to case, for it is better to hide one too
// many. What a path leads to, however large, becomes the text •••, and all else
// stays as it was, order and spelling of numbers included.
//
// Where there are rules, a body that is neither JSON, of 1000 levels at most, nor a
// form is hidden whole, because nobody can say what in it a path would lead to. A receiver's answer is
// often short text, or JSON that was cut: of JSON what was cut off is dropped; of
// text, what the rules hide of the notice's body is taken out, and it is hidden
// whole if it has one of the rules' names in it. Of a notice whose body is hidden whole,
// an answer that repeats a word of it is, too.
//
// The fields of an address's query, and a notice's headers, are members of one object
// each: $.token hides the parameter and the header of that name.
package mask
