package ui

import (
	"context"
	_ "embed"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"notifier/internal/auth"
	"notifier/internal/problems"
)

// language is a language of the pages.
type language struct {
	Tag  string // as in HTML and HTTP
	Name string // in the language itself
	// texts are the messages by their English text; nil in English.
	texts map[string]string
}

//go:embed messages.txt
var messagesFile string

var (
	english   = &language{Tag: "en", Name: "English"}
	chinese   = &language{Tag: "zh-CN", Name: "中文", texts: readMessages(messagesFile)}
	languages = []*language{english, chinese}
)

// readMessages reads pairs of lines: the English text of a message, and its translation. Empty lines
// and lines that begin with # separate the pairs.
func readMessages(file string) map[string]string {
	texts, message := map[string]string{}, ""
	for line := range strings.Lines(file) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case line == "" || line[0] == '#':
			message = ""
		case message == "":
			message = line
		default:
			texts[message], message = line, ""
		}
	}

	return texts
}

// text is a text of a page. Pages show the message's translation, if messages.txt has one.
type text problems.Text

// say is a text of messages.txt.
func say(message string, args ...any) text { return append(text{message}, args...) }

// plain is a number, a duration, or a text that is the same in each language.
func plain(value any) text {
	if value == "" {
		return nil
	}
	return text{"", value}
}

// given is a text of another package. It is translated if messages.txt has it.
func given(s string) text {
	if _, ok := chinese.texts[s]; ok {
		return text{s}
	}
	return plain(s)
}

// String returns the text in English.
func (t text) String() string { return english.plain(t) }

// perSecond is a rate.
type perSecond float64

// languageKey is the key of the language in the context of a template.
type languageKey struct{}

// languageIn returns the language of the page that a template renders. It panics in a template that
// [language.render] did not call.
func languageIn(ctx context.Context) *language { return ctx.Value(languageKey{}).(*language) }

// t returns a message without arguments for a template, which escapes it. In a message with `…` or **…**,
// use [say], which renders the markup.
func t(ctx context.Context, message string) string { return say(message).in(ctx) }

// in returns the text without markup in the language of a template, for attributes.
func (t text) in(ctx context.Context) string { return languageIn(ctx).plain(t) }

// Render writes the text as HTML in the language of a template. Arguments are escaped.
func (t text) Render(ctx context.Context, w io.Writer) error {
	_, err := io.WriteString(w, languageIn(ctx).html(t))
	return err
}

// html returns a message or a value as HTML. Arguments are escaped.
func (l *language) html(x any) string { return l.show(x, templ.EscapeString[string]) }

// plain returns a message or a value without markup.
func (l *language) plain(x any) string { return l.show(x, nil) }

// show returns a message or a value. Without escape there is no markup.
func (l *language) show(x any, escape func(string) string) string {
	var s string
	switch x := x.(type) {
	case text:
		return l.write(x, escape)
	case []text:
		parts := make([]string, len(x))
		for i, p := range x {
			parts[i] = l.show(p, escape)
		}

		return strings.Join(parts, l.comma())
	case []string:
		s = strings.Join(x, l.comma())
	case time.Duration:
		s = l.duration(x)
	case problems.Text:
		return l.write(text(x), escape)
	case problems.Until:
		s = l.plain(x.Text())
	case problems.Moment:
		return stampFrom(x.Now, x.At).clock(escape)
	case perSecond:
		s = l.rate(float64(x))
	case stamp:
		return l.time(x, escape)
	case clock:
		return stamp(x).clock(escape)
	default:
		s = number(x)
	}

	if escape != nil {
		return escape(s)
	}

	return s
}

func (l *language) comma() string {
	if l == chinese {
		return "、"
	}
	return ", "
}

// write returns a text.
func (l *language) write(t text, escape func(string) string) string {
	if len(t) == 0 {
		return ""
	}

	message, _ := t[0].(string)
	if message == "" {
		return l.show(t[1], escape)
	}

	if own, ok := l.texts[message]; ok {
		message = own
	}

	message = problems.Bare(message)
	if escape != nil {
		message = markup(escape(message))
	} else {
		message = strings.NewReplacer("`", "", "**", "").Replace(message)
	}

	return problems.Fill(message, t[1:], func(x any) string { return l.show(x, escape) })
}

// markup makes code of `…` and strong text of **…**.
func markup(s string) string {
	for _, m := range []struct{ mark, open, end string }{{"`", "<code>", "</code>"}, {"**", "<strong>", "</strong>"}} {
		parts := strings.Split(s, m.mark)
		for i := 1; i+1 < len(parts); i += 2 {
			parts[i] = m.open + parts[i] + m.end
		}

		s = strings.Join(parts, "")
	}
	return s
}

// languageCookie holds the language that a visitor chose.
const languageCookie = "notifier_language"

// languageOf is the language of an answer: the one that was chosen, or the one that the browser asks
// for.
func languageOf(r *http.Request) *language {
	if c, err := r.Cookie(languageCookie); err == nil {
		if l := languageNamed(c.Value); l != nil {
			return l
		}
	}

	best, chosen := 0.0, english
	for part := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		tag, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		q := 1.0
		if value, ok := strings.CutPrefix(strings.TrimSpace(weight), "q="); ok {
			q, _ = strconv.ParseFloat(value, 64) // 0 if it is none
		}

		main, _, _ := strings.Cut(tag, "-")
		for _, l := range languages {
			if own, _, _ := strings.Cut(l.Tag, "-"); strings.EqualFold(own, main) && q > best {
				best, chosen = q, l
			}
		}
	}

	return chosen
}

// languageNamed is the language with that tag; nil if there is none.
func languageNamed(tag string) *language {
	for _, l := range languages {
		if l.Tag == tag {
			return l
		}
	}
	return nil
}

// languagePath is the address that sets the language.
const languagePath = Root + "language"

// chooseLanguage serves GET /ui/language: it keeps the choice in a cookie and goes back.
func (p *Pages) chooseLanguage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	l := languageNamed(q.Get("to"))
	if l == nil {
		return failure{http.StatusNotFound, say("There is no such page.")}
	}

	http.SetCookie(w, &http.Cookie{Name: languageCookie, Value: l.Tag, Path: Root, MaxAge: 365 * 24 * 60 * 60, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: auth.OriginOf(r).Secure})
	return back(w, within(q.Get("back")), nil)
}

// switchItem is a link to the same page in another language.
type switchItem struct{ Path, Tag, Name string }

// switches are the links to a page in the other languages. A page that answers a form has no address
// of itself, so they lead to the first page.
func switches(r *http.Request, now *language) (list []switchItem) {
	to := Root
	if reads(r) {
		to = r.URL.RequestURI()
	}

	for _, l := range languages {
		if l != now {
			list = append(list, switchItem{languagePath + "?" + url.Values{"to": {l.Tag}, "back": {to}}.Encode(), l.Tag, l.Name})
		}
	}

	return list
}

// addLanguages adds the address that sets the language.
func (p *Pages) addLanguages() {
	p.mux.handle(auth.Public, "GET "+languagePath, func(w http.ResponseWriter, r *http.Request) {
		err := p.local(r)
		if err == nil {
			err = p.chooseLanguage(w, r)
		}

		if err != nil {
			p.fail(w, r, Visitor{}, err)
		}
	})
}
