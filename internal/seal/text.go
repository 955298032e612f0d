package seal

import (
	"fmt"
	"strings"
)

// Kind is the use of a text.
type Kind string

// The kinds.
const (
	Content   Kind = "content"   // a notice's body, headers, and secret parts of its url
	Answer    Kind = "answer"    // a receiver's answer to one attempt
	History   Kind = "history"   // parts of a history entry
	Recurring Kind = "recurring" // the same as Content, of a recurring notice: its occurrences have the same text
)

// marks are the beginnings of texts. The digit is the version of the format.
var marks = map[Kind]string{Content: "s1c", Answer: "s1a", History: "s1h", Recurring: "s1r"}

// Valid reports whether the kind is one of this package's.
func (k Kind) Valid() bool { return marks[k] != "" }

// HasContent reports whether a text of the kind is the content of a notice.
func (k Kind) HasContent() bool { return k == Content || k == Recurring }

// Text is a sealed text, without secrets. The zero Text holds nothing.
type Text struct {
	Kind    Kind
	DataKey string // id of the data key
	box     string // content id, ciphertext and tag, in base64
}

// ParseText reads a sealed text. It does not open the text.
func ParseText(s string) (Text, error) {
	mark, rest, ok1 := strings.Cut(s, ":")
	id, box, ok2 := strings.Cut(rest, ":")
	for kind, m := range marks {
		if m == mark && ok1 && ok2 && IsKeyID(id) {
			_, err := decode(box)
			return Text{kind, id, box}, err
		}
	}

	return Text{}, ErrFormat
}

// DataKeyOf returns the id of the data key in a sealed text; empty if it has none. Unlike ParseText it does not read the other parts.
func DataKeyOf(s string) string {
	_, rest, _ := strings.Cut(s, ":")
	id, _, _ := strings.Cut(rest, ":")
	if !IsKeyID(id) {
		return ""
	}

	return id
}

// String returns the stored form of the text.
func (t Text) String() string { return marks[t.Kind] + ":" + t.DataKey + ":" + t.box }

// Seal encrypts the plain text of a notice: its namespace and its key are bound to the text.
func (d *DataKey) Seal(kind Kind, space, key string, plain []byte) (Text, error) {
	return d.sealWith(random(saltSize), kind, space, key, plain)
}

// sealWith is Seal with a given content id.
func (d *DataKey) sealWith(salt []byte, kind Kind, space, key string, plain []byte) (Text, error) {
	if !kind.Valid() {
		return Text{}, fmt.Errorf("cannot seal a text of kind %q", kind)
	}

	box, err := encrypt(d.secret, salt, plain, string(kind), space, d.ID, key)
	if err != nil {
		return Text{}, err
	}

	return Text{kind, d.ID, box}, nil
}

// Open returns the plain text that Seal got with the same namespace and notice key.
func (d *DataKey) Open(t Text, space, key string) ([]byte, error) {
	if t.DataKey != d.ID {
		return nil, fmt.Errorf("%w: sealed with data key %s, opened with %s", ErrForeign, t.DataKey, d.ID)
	}

	return decrypt(d.secret, t.box, string(t.Kind), space, d.ID, key)
}
