package mask

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may be nested: a walk goes as deep, and a
// goroutine whose stack is full ends the process.
const maxDepth = 1000

var (
	errDepth  = errors.New("nested too deep")
	errMore   = errors.New("more than one value")
	errScalar = errors.New("neither an object nor an array, so that no path can lead anywhere")
	errUTF8   = errors.New("not valid UTF-8")
)

// walker copies a JSON text without hidden values.
type walker struct {
	*pass
	dec *json.Decoder
	out bytes.Buffer
	hid bool // something is left out
}

// json returns a JSON text with ••• in place of the values that the rules hide. If the end of text is missing, whole is
// false and out is the masked part before. If text cannot be parsed for another reason, or is a number or a plain
// string, json returns an error. If text is a string in another JSON text, t is its position there, otherwise nil.
func (p *pass) json(text []byte, t trail) (out []byte, whole bool, err error) {
	if !utf8.Valid(text) {
		return nil, false, errUTF8
	}

	w := &walker{pass: p, dec: json.NewDecoder(bytes.NewReader(text))}
	w.dec.UseNumber()

	// A rule may match from the start of either text: $.pan and $.data.pan both hide pan in {"data":"{\"pan\":1}"}.
	err = w.document(p.r.start.join(t))

	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return w.out.Bytes(), false, nil
	case err != nil:
		return nil, false, err
	case w.hid:
		return w.out.Bytes(), true, nil
	}

	return text, true, nil
}

// document copies the one value of a text.
func (w *walker) document(t trail) error {
	tok, err := w.dec.Token()
	if err != nil {
		return err
	}
	if !leads(tok) {
		return errScalar
	}
	if err := w.rest(tok, t); err != nil {
		return err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return errMore
	}

	return nil
}

// leads reports whether a text that begins with this token can be shown: an object,
// an array, a string that is a document itself, true, false or null.
func leads(tok json.Token) bool {
	switch v := tok.(type) {
	case json.Number:
		return false
	case string:
		return isContainer(v) || isQuoted(v)
	}
	return true
}

// value copies the next value.
func (w *walker) value(t trail) error {
	tok, err := w.dec.Token()
	if err != nil {
		return err
	}

	return w.rest(tok, t)
}

// rest copies the value that begins with a token.
func (w *walker) rest(tok json.Token, t trail) error {
	switch v := tok.(type) {
	case json.Delim:
		return w.container(v, t)
	case string:
		shown := w.text(v, t)
		w.hid = w.hid || shown != v
		w.write(shown)
	case json.Number:
		if w.secrets != nil && w.secrets.in(v.String()) {
			w.hid = true
			w.write(Hidden)
			return nil
		}

		w.out.WriteString(v.String())
	default:
		w.write(tok)
	}

	return nil
}

// container copies an array or an object.
func (w *walker) container(open json.Delim, t trail) error {
	if w.depth++; w.depth > maxDepth {
		return errDepth
	}

	defer func() { w.depth-- }()

	w.out.WriteByte(byte(open))

	for i := 0; w.dec.More(); i++ {
		if i > 0 {
			w.out.WriteByte(',')
		}

		deeper, hit := t.down("", i)
		if open == '{' {
			name, err := w.name()
			if err != nil {
				return err
			}

			deeper, hit = t.member(name)
		}

		if err := w.item(deeper, hit); err != nil {
			return err
		}
	}

	end, err := w.dec.Token()
	if err != nil {
		return err
	}

	if d, ok := end.(json.Delim); ok {
		w.out.WriteByte(byte(d))
	}

	return nil
}

// item copies or hides an element, or a member's value.
func (w *walker) item(t trail, hit bool) error {
	if hit {
		return w.hideNext()
	}
	return w.value(t)
}

// name copies a member's name.
func (w *walker) name() (string, error) {
	tok, err := w.dec.Token()
	if err != nil {
		return "", err
	}

	name, _ := tok.(string)
	shown := name
	if w.secrets != nil && w.secrets.in(name) {
		shown, w.hid = Hidden, true
	}

	w.write(shown)
	w.out.WriteByte(':')
	return name, nil
}

// write encodes a string, a bool or null.
func (w *walker) write(v any) {
	enc := json.NewEncoder(&w.out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)               // each of them can be encoded
	w.out.Truncate(w.out.Len() - 1) // the line's end
}

// hideNext skips the next value and records the hidden values in it.
func (w *walker) hideNext() error {
	w.hid = true
	w.out.WriteString(`"` + Hidden + `"`)
	for depth := 0; ; {
		tok, err := w.dec.Token()
		if err != nil {
			return err
		}

		switch v := tok.(type) {
		case json.Delim:
			depth += step1(v)
		case string:
			w.hide(v)
		case json.Number:
			w.hide(v.String())
		}

		if depth == 0 {
			return nil
		}
	}
}

// step1 is by how much a bracket changes the depth.
func step1(d json.Delim) int {
	if d == '{' || d == '[' {
		return 1
	}
	return -1
}

// leaves are the strings and numbers of a JSON text; none if it is no container.
func leaves(text string) []string {
	if !isContainer(text) {
		return nil
	}

	var out []string
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()

	for len(out) <= maxSecrets {
		tok, err := dec.Token()
		if err != nil {
			return out
		}

		switch v := tok.(type) {
		case string:
			out = append(out, v)
		case json.Number:
			out = append(out, v.String())
		}
	}

	return out
}
