package mask

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
)

// Hidden stands where something was taken out.
const Hidden = "•••"

// Rules say what may not be seen. Nil, and the zero value, hide nothing. They may
// be used by many goroutines at once.
type Rules struct {
	all   bool
	paths []path
	start trail
}

// New makes rules: all hides every body and answer; paths is a list of them,
// comma-separated. The error says which is wrong.
func New(all bool, paths string) (*Rules, error) {
	r := &Rules{all: all}
	for part := range strings.SplitSeq(paths, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		p, err := parsePath(part)
		if err != nil {
			return nil, err
		}
		r.paths = append(r.paths, p)
		r.start = append(r.start, mark{path: p})
	}
	if len(r.paths) > maxPaths {
		return nil, errors.New("more than 100 paths")
	}
	return r, nil
}

// None reports whether nothing is hidden.
func (r *Rules) None() bool { return r == nil || !r.all && len(r.paths) == 0 }

// All reports whether bodies are hidden whole.
func (r *Rules) All() bool { return r != nil && r.all }

// Body is what may be seen of a body: the body itself where nothing is hidden,
// one with marks where parts are, and nil, false where it is hidden whole.
func (r *Rules) Body(body []byte) (shown []byte, ok bool) {
	switch {
	case r.None() || len(body) == 0:
		return body, true
	case r.all:
		return nil, false
	}
	w := walker{}
	if whole, err := w.read(body, r.start); err == nil && whole {
		if !w.hid {
			return body, true // spaces and all
		}
		return w.out.Bytes(), true
	}
	if out, ok := r.form(body); ok {
		return out, true
	}
	return nil, false
}

// Answer is what may be seen of what a receiver said of what it was sent; false if
// that is nothing.
func (r *Rules) Answer(text string, sent Sent) (shown string, ok bool) {
	switch {
	case r.None() || text == "":
		return text, true
	case r.all:
		return "", false
	}
	secrets, opaque := r.secrets(sent)
	if opaque != "" && repeats(text, opaque) {
		return "", false
	}
	if trimmed := strings.TrimSpace(text); trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') {
		out, whole, err := r.json([]byte(text), nil)
		if err != nil {
			return "", false
		}
		if text = string(out); !whole {
			text += "…"
		}
	} else if r.names(text) {
		return "", false
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, Hidden)
	}
	return text, true
}

// names reports whether a text has the last name of a path in it.
func (r *Rules) names(text string) bool {
	text = strings.ToLower(text)
	for _, p := range r.paths {
		if last := p[len(p)-1]; last.name != "" && !last.any && strings.Contains(text, strings.ToLower(last.name)) {
			return true
		}
	}
	return false
}

// leastSecret is the length from which on a hidden value is looked for in
// answers: shorter ones, such as 1 or no, stand in any text.
const leastSecret = 4

// maxDepth is how deep arrays and objects may be nested: a walk goes as deep, and a
// goroutine whose stack is full ends the process. What is nested deeper is no JSON here.
const maxDepth = 1000

var errDepth = errors.New("nested too deep")

// walker copies JSON and leaves out what is hidden.
type walker struct {
	dec     *json.Decoder
	out     bytes.Buffer
	secrets *[]string
	depth   int
	hid     bool // something was
}

// json is a JSON text without what is hidden. whole is false if it was cut: then
// there is what came before. Values that are hidden are added to secrets, if that
// is not nil.
func (r *Rules) json(text []byte, secrets *[]string) (out []byte, whole bool, err error) {
	w := &walker{secrets: secrets}
	if whole, err = w.read(text, r.start); err != nil {
		return nil, false, err
	}
	return w.out.Bytes(), whole, nil
}

// read copies a JSON text. whole is false if it was cut.
func (w *walker) read(text []byte, t trail) (whole bool, err error) {
	w.dec = json.NewDecoder(bytes.NewReader(text))
	w.dec.UseNumber()
	if err := w.value(t); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return false, errors.New("more than one value")
	}
	return true, nil
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
	open, nested := tok.(json.Delim)
	if !nested {
		return w.scalar(tok)
	}
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
			key, err := w.dec.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string) // a member's name is one
			if err := w.scalar(key); err != nil {
				return err
			}
			w.out.WriteByte(':')
			deeper, hit = t.down(name, -1)
		}
		if hit {
			if err := w.hide(); err != nil {
				return err
			}
			continue
		}
		if err := w.value(deeper); err != nil {
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

func (w *walker) scalar(tok json.Token) error {
	if n, ok := tok.(json.Number); ok {
		w.out.WriteString(n.String())
		return nil
	}
	enc := json.NewEncoder(&w.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tok); err != nil {
		return err
	}
	w.out.Truncate(w.out.Len() - 1) // the line's end
	return nil
}

// hide passes over the next value, and notes what in it could be told elsewhere.
func (w *walker) hide() error {
	w.hid = true
	w.out.WriteString(`"` + Hidden + `"`)
	for depth := 0; ; {
		tok, err := w.dec.Token()
		if err != nil {
			return err
		}
		switch v := tok.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			w.note(v)
		case json.Number:
			w.note(v.String())
		}
		if depth == 0 {
			return nil
		}
	}
}

func (w *walker) note(s string) {
	const most = 1000
	if w.secrets != nil && len(s) >= leastSecret && len(*w.secrets) < most {
		*w.secrets = append(*w.secrets, s)
	}
}

// form is a form's fields without those that are hidden: each is a member of one
// object. ok is false if the text is no form.
func (r *Rules) form(body []byte) (out []byte, ok bool) {
	var fields []string
	for part := range strings.SplitSeq(string(body), "&") {
		name, _, isField := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		if !isField || err != nil || plain == "" || strings.ContainsAny(plain, " \r\n\t<>{}\"") {
			return nil, false
		}
		if _, hit := r.start.down(plain, -1); hit {
			part = name + "=" + Hidden
		}
		fields = append(fields, part)
	}
	return []byte(strings.Join(fields, "&")), true
}
