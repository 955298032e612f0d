package mask

import (
	"net/url"
	"strings"
	"unicode"
)

// Sent is what a receiver got, as far as its answer may repeat it.
type Sent struct {
	Body []byte
	URL  string
	// Headers by name.
	Headers map[string]string
}

// URL is what may be seen of an address: the fields of its query are members of one
// object, as those of a form are, and a query that is no form is hidden whole. all
// reports whether nothing was taken out.
func (r *Rules) URL(address string) (shown string, all bool) {
	if r.None() {
		return address, true
	}
	rest, fragment, cut := strings.Cut(address, "#")
	base, query, has := strings.Cut(rest, "?")
	if !has && !cut {
		return address, true
	}
	if cut { // it is never sent
		fragment = "#" + Hidden
	}
	if query != "" {
		out, ok := r.form([]byte(query))
		if query = string(out); !ok || r.all {
			query = Hidden
		}
		base += "?"
	}
	shown = base + query + fragment
	return shown, shown == address
}

// Header reports whether the value of a header may be seen: headers are members of
// one object.
func (r *Rules) Header(name string) bool {
	if r.None() {
		return true
	}
	_, hit := r.start.down(name, -1)
	return !hit && !r.all
}

// secrets are the texts that the rules hide of what was sent. opaque is the body, if
// it is hidden whole because nobody can say what a path would lead to.
func (r *Rules) secrets(s Sent) (list []string, opaque string) {
	w := walker{secrets: &list}
	if _, ok := r.form(s.Body); ok {
		r.eachHidden(string(s.Body), w.note)
	} else if _, whole, err := r.json(s.Body, &list); len(s.Body) > 0 && (err != nil || !whole) {
		opaque = string(s.Body)
	}
	if _, query, ok := strings.Cut(s.URL, "?"); ok {
		query, _, _ = strings.Cut(query, "#")
		if _, isForm := r.form([]byte(query)); isForm {
			r.eachHidden(query, w.note)
		} else {
			w.note(query)
		}
	}
	for name, value := range s.Headers {
		if !r.Header(name) {
			w.note(value)
			if _, credentials, ok := strings.Cut(value, " "); ok { // as in Bearer x
				w.note(credentials)
			}
		}
	}
	return list, opaque
}

// eachHidden calls do with the values of a form's fields that are hidden, as they
// stand and unescaped.
func (r *Rules) eachHidden(form string, do func(string)) {
	for part := range strings.SplitSeq(form, "&") {
		name, value, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		if err != nil {
			plain = name
		}
		if _, hit := r.start.down(plain, -1); !hit {
			continue
		}
		do(value)
		if v, err := url.QueryUnescape(value); err == nil && v != value {
			do(v)
		}
	}
}

// repeats reports whether a text has a word of a body in it that is long enough to
// be told.
func repeats(text, body string) bool {
	apart := func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }
	for word := range strings.FieldsFuncSeq(text, apart) {
		if len(word) >= leastSecret && strings.Contains(body, word) {
			return true
		}
	}
	return false
}
