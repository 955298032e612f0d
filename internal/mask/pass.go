package mask

import (
	"encoding/base64"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pass goes over a notice's content once: first to find the hidden values, then to
// show the rest.
type pass struct {
	r       *Rules
	found   *View    // gets the hidden values; nil in the second pass
	secrets *secrets // are left out; nil in the first pass
	depth   int      // of arrays and objects, those of outer documents included
	nested  int      // documents inside strings
}

// maxNested is how many documents may be nested in each other's strings. Strings of
// deeper ones are hidden.
const maxNested = 5

// hide records a hidden value.
func (p *pass) hide(value string) {
	if p.found == nil {
		return
	}

	p.found.secrets.add(value)
	for _, leaf := range leaves(value) {
		p.found.secrets.add(leaf)
	}
}

// opaque hides a text that cannot be parsed.
func (p *pass) opaque(text string) string {
	if p.found != nil {
		p.found.hideText(text)
	}
	return Hidden
}

// body is a body without hidden values; ok is false if it cannot be parsed.
func (p *pass) body(s Sent) (out []byte, ok bool) {
	if len(s.Body) == 0 {
		return nil, true
	}

	if isForm(s.ContentType) {
		shown, ok := p.form(string(s.Body))
		return []byte(shown), ok
	}

	out, whole, err := p.json(s.Body, nil)
	return out, err == nil && whole
}

// address is a url without hidden values. The fragment, which is never sent, is hidden.
func (p *pass) address(address string) string {
	rest, _, hasFragment := strings.Cut(address, "#")
	base, query, hasQuery := strings.Cut(rest, "?")

	shown := p.place(base)
	if hasQuery && query == "" {
		shown += "?"
	}

	if query != "" {
		shown += "?" + p.query(query)
	}

	if hasFragment {
		shown += "#" + Hidden
	}

	return shown
}

// place is the part of a url before its query.
func (p *pass) place(base string) string {
	if p.r.all {
		return base
	}

	scheme, rest, _ := strings.Cut(base, "://")
	host, path, _ := strings.Cut(rest, "/")
	if p.r.assigns(path, "=:;") {
		p.opaque(path)
		return scheme + "://" + host + "/" + Hidden
	}

	if p.secrets == nil {
		return base
	}
	if base = p.secrets.replace(base); p.secrets.in(base) {
		return scheme + "://" + host + "/" + Hidden
	}

	return base
}

// query is hidden whole if it is not a form.
func (p *pass) query(query string) string {
	if p.r.all {
		return Hidden
	}

	shown, ok := p.form(query)
	if !ok {
		p.hide(query)
		return p.opaque(query)
	}

	return shown
}

// header is the value of a header: headers are members of one object.
func (p *pass) header(name, value string) string {
	deeper, hit := p.r.start.member(name)
	if !hit && !p.r.all {
		return p.text(value, deeper)
	}

	p.hide(value)
	if scheme, credentials, ok := strings.Cut(value, " "); ok {
		p.hide(credentials)
		if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
			_, password, _ := strings.Cut(string(plain), ":")
			p.hide(string(plain))
			p.hide(password)
		}
	}

	return Hidden
}

// form masks a form (a=1&b=2). The rules apply to its fields as to the members of one JSON object. A semicolon
// separates fields too, because some receivers read it so. ok is false if the text is not a form.
func (p *pass) form(form string) (shown string, ok bool) {
	var out strings.Builder
	for form != "" {
		end := strings.IndexAny(form, "&;")
		if end < 0 {
			end = len(form)
		}

		field, ok := p.field(form[:end])
		if !ok {
			return "", false
		}

		out.WriteString(field)
		if end == len(form) {
			return out.String(), true
		}

		out.WriteByte(form[end])
		form = form[end+1:]
	}

	return "", false // ends in a separator
}

// field is one field of a form.
func (p *pass) field(field string) (shown string, ok bool) {
	name, value, hasValue := strings.Cut(field, "=")
	plainName, err := url.QueryUnescape(name)
	if !hasValue || err != nil || !isFieldName(plainName) {
		return "", false
	}

	plainValue, err := url.QueryUnescape(value)
	if err != nil {
		return "", false
	}

	if p.secrets != nil && p.secrets.in(plainName) {
		name = Hidden
	}

	deeper, hit := p.r.start.member(plainName)
	if hit {
		p.hide(value)
		p.hide(plainValue)
		return name + "=" + Hidden, true
	}

	text := p.text(plainValue, deeper)
	if text == plainValue {
		return name + "=" + value, true
	}

	return name + "=" + strings.ReplaceAll(url.QueryEscape(text), url.QueryEscape(Hidden), Hidden), true
}

// isFieldName reports whether a text may be the name of a form's field: a value in
// the place of a name is then not shown.
func isFieldName(name string) bool {
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-.[]$:*@", c) {
			return false
		}
	}
	return name != "" && utf8.ValidString(name)
}

// text is a string without hidden values; t is the trail that leads to the string.
func (p *pass) text(text string, t trail) string {
	shown := text
	switch {
	case len(text) < leastSecret:
		return text
	case isContainer(text) || isQuoted(text):
		inner, ok := p.document(text, t)
		if !ok {
			return p.opaque(text)
		}

		shown = inner
	case p.hidesEncoded(text, t), p.r.assigns(text, structure):
		return p.opaque(text)
	}

	if p.secrets == nil {
		return shown
	}
	if shown = p.secrets.replace(shown); p.secrets.in(shown) {
		return Hidden
	}

	return shown
}

// isQuoted reports whether a text may be a JSON string.
func isQuoted(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"'
}

// document is a JSON text inside a string. Paths may begin at its root, or go on from
// the string; ok is false if the text cannot be parsed.
func (p *pass) document(text string, t trail) (shown string, ok bool) {
	if p.nested >= maxNested {
		return "", false
	}

	inner := *p
	inner.nested++
	out, whole, err := inner.json([]byte(text), t)
	if err != nil || !whole {
		return "", false
	}

	return string(out), true
}

// hidesEncoded reports whether a text, or a part of a JWT, is base64 of a text in
// which something is hidden.
func (p *pass) hidesEncoded(text string, t trail) bool {
	for part := range strings.SplitSeq(text, ".") {
		raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(standardBase64(part), "="))
		if err != nil || len(raw) < leastSecret || !utf8.Valid(raw) {
			continue
		}

		decoded := string(raw)
		if isContainer(decoded) {
			if shown, ok := p.document(decoded, t); !ok || shown != decoded {
				p.opaque(decoded)
				return true
			}
		} else if p.r.assigns(decoded, structure) {
			p.opaque(decoded)
			return true
		}
	}

	return false
}
