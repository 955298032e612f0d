package ui

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"notifier/internal/callback"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// What notices hold is shown by the functions of this file and by no other.

// mostShown is how much of a body a page shows.
const mostShown = 32 << 10

// shownBody is a body as a page shows it.
type shownBody struct {
	Text string
	Kind string // what it is, in words
	Size string
	Cut  bool
}

// body is a notice's body, laid out if it is JSON.
func (p *Pages) body(f *store.Found) shownBody {
	raw := f.Body
	if len(f.Raw) > 0 {
		raw = f.Raw // all that is known of it
	}
	out := shownBody{Size: plural(len(raw), "byte")}
	content, ok := p.view(f), true
	switch {
	case len(f.Raw) == 0:
		raw, ok = content.Body()
	case !p.o.Mask.None(): // a record that cannot be read has no paths
		raw, ok = nil, false
	}
	var laid bytes.Buffer
	switch {
	case !ok:
		out.Kind = "masked"
		return out
	case len(raw) == 0:
		out.Kind = "empty"
		return out
	case len(raw) <= 1<<20 && json.Indent(&laid, raw, "", "  ") == nil:
		out.Kind, out.Text = "JSON, laid out", laid.String()
	case utf8.Valid(raw):
		out.Kind, out.Text = "text", string(raw)
	default:
		out.Kind, out.Text = "no text; in base64", base64.StdEncoding.EncodeToString(raw[:min(len(raw), mostShown)])
	}
	if f.EffectiveType() != "" {
		out.Kind = content.Text(f.EffectiveType()) + ", " + out.Kind
	}
	if out.Cut = len(out.Text) > mostShown; out.Cut {
		out.Text = strings.ToValidUTF8(out.Text[:mostShown], "")
	}
	return out
}

// view shows a notice's content without what is masked.
func (p *Pages) view(f *store.Found) *mask.View {
	sent := mask.Sent{ContentType: f.EffectiveType(), Body: f.Body, URL: f.URL, Headers: map[string]string{}}
	for _, h := range f.Headers {
		sent.Headers[h.Name] = h.Value
	}
	return p.o.Mask.View(sent)
}

// answer is a receiver's answer as a page shows it.
func answer(text string, content *mask.View) string {
	shown, ok := content.Answer(text)
	if !ok {
		return "(masked)"
	}
	return shown
}

// address is a notice's url as a page shows it: without values whose names are those of
// secrets, whatever the rules are.
func address(content *mask.View) string {
	shown, _ := content.URL()
	if shown == "" {
		return ""
	}
	return callback.RedactURL(shown)
}

// headers are as a page shows them, without the values of those that are named like
// secrets, whatever the rules are.
func headers(list []notice.Header, content *mask.View) []notice.Header {
	out := slices.Clone(list)
	for i := range out {
		if out[i].Value, _ = content.Header(out[i].Name, out[i].Value); notice.SecretName(out[i].Name) {
			out[i].Value = mask.Hidden
		}
	}
	return out
}

// clean makes visible what could otherwise turn the direction of a line, or hide, in
// a page that is rendered: escaping keeps it from being read as markup, and not from
// that. It works in place where there is nothing of the kind.
func clean(page []byte) []byte {
	if bytes.IndexFunc(page, hidden) < 0 {
		return page
	}
	return bytes.Map(func(r rune) rune {
		if hidden(r) {
			return unicode.ReplacementChar
		}
		return r
	}, page)
}

// hidden are control characters, and those that change the direction of text or
// have no width.
func hidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}
