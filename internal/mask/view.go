package mask

import (
	"mime"
	"strings"
	"unicode"

	"notifier/internal/notice"
)

// Sent is the content of a notice.
type Sent struct {
	ContentType string
	Body        []byte
	URL         string
	Headers     []notice.Header
}

// View shows one notice without its hidden values.
type View struct {
	r       *Rules
	sent    Sent
	secrets *secrets
	opaque  []string // texts that were hidden because they could not be parsed
}

// View finds the hidden values of a notice.
func (r *Rules) View(s Sent) *View {
	v := &View{r: r, sent: s, secrets: &secrets{}}
	if r.None() || r.all {
		return v
	}

	find := &pass{r: r, found: v}
	if _, ok := find.body(s); !ok {
		v.hideText(string(s.Body))
	}

	find.address(s.URL)
	for _, h := range s.Headers {
		find.header(h.Name, h.Value)
	}

	v.secrets.prepare()
	return v
}

// hideText records a text that was hidden because it could not be parsed.
func (v *View) hideText(text string) {
	if len(text) >= leastSecret {
		v.opaque = append(v.opaque, text)
	}
}

// show is the pass that leaves the hidden values out.
func (v *View) show() *pass { return &pass{r: v.r, secrets: v.secrets} }

// Body returns the body without hidden values: the same bytes if nothing is hidden,
// and nil, false if the body is hidden whole.
func (v *View) Body() (shown []byte, ok bool) {
	switch {
	case v.r.None() || len(v.sent.Body) == 0:
		return v.sent.Body, true
	case v.r.all:
		return nil, false
	}

	out, ok := v.show().body(v.sent)
	if !ok || v.secrets.in(string(out)) {
		return nil, false
	}

	return out, true
}

// URL returns the notice's address without hidden values. whole reports whether
// nothing was hidden.
func (v *View) URL() (shown string, whole bool) { return v.Address(v.sent.URL) }

// Address is URL for another address, such as that of a redirect.
func (v *View) Address(address string) (shown string, whole bool) {
	if v.r.None() || address == "" {
		return address, true
	}

	if shown = v.show().address(address); v.secrets.in(shown) {
		shown = Hidden
	}

	return shown, shown == address
}

// Header returns the value of a header without hidden values. whole reports whether
// nothing was hidden.
func (v *View) Header(name, value string) (shown string, whole bool) {
	if v.r.None() {
		return value, true
	}

	if shown = v.show().header(name, value); v.secrets.in(shown) {
		shown = Hidden
	}

	return shown, shown == value
}

// Text returns another text of the notice, such as its content type, without hidden
// values.
func (v *View) Text(text string) string {
	if v.r.None() || v.r.all {
		return text
	}
	if text = v.secrets.replace(text); v.secrets.in(text) {
		return Hidden
	}

	return text
}

// Answer returns a receiver's answer without hidden values. ok is false if the answer
// is hidden whole.
func (v *View) Answer(text string) (shown string, ok bool) {
	switch {
	case v.r.None() || text == "":
		return text, true
	case v.r.all || v.repeatsOpaque(text):
		return "", false
	}

	if isContainer(text) {
		out, whole, err := v.show().json([]byte(text), nil)
		if err != nil {
			return "", false
		}

		if shown = string(out); !whole {
			shown += "…"
		}
	} else {
		if v.r.names(text) {
			return "", false
		}
		shown = v.show().text(v.secrets.replaceTail(text), nil)
	}

	if v.secrets.in(shown) || shown == Hidden {
		return "", false
	}

	return shown, true
}

// AnswerText is Answer with Hidden in place of an answer that is hidden whole.
func (v *View) AnswerText(text string) string {
	shown, ok := v.Answer(text)
	if !ok {
		return Hidden
	}

	return shown
}

// repeatsOpaque reports whether an answer repeats a word of a text that was hidden
// because it could not be parsed.
func (v *View) repeatsOpaque(answer string) bool {
	for _, text := range v.opaque {
		words := &secrets{}
		for word := range strings.FieldsFuncSeq(text, notInWord) {
			words.add(word)
		}

		words.prepare()
		if words.in(answer) || repeats(answer, text) {
			return true
		}
	}

	return false
}

// repeats reports whether a word of an answer is part of a text.
func repeats(answer, text string) bool {
	answer, okAnswer := plain(answer)
	text, okText := plain(text)
	if !okAnswer || !okText || len(answer)*len(text) > maxWork {
		return true
	}

	for word := range strings.FieldsFuncSeq(answer, notInWord) {
		if len(word) >= leastSecret && strings.Contains(text, word) {
			return true
		}
	}

	return false
}

func notInWord(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }

// isForm reports whether a content type is that of a form.
func isForm(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/x-www-form-urlencoded"
}

// isContainer reports whether a text begins like a JSON object or array.
func isContainer(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n\ufeff")
	return text != "" && (text[0] == '{' || text[0] == '[')
}
