package search

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
)

// Query is the meaning of a line. Empty fields select all.
type Query struct {
	Key    string // a whole key, or the beginning of keys if no notice has it
	Begins string // the beginning of a key, with a colon
	Number string // the beginning of the last segment of a key, such as an order number
	Part   string // a part of a key
	ID     string // a webhook-id
	Host   string
	Route  string // a name or a prefix
	State  string // a notice.State or notice.EndReplaced
	Reason notice.Reason
	Text   string // words of a body or an answer
	notice.TimeRange
}

// MaxBox is the maximum length of a line in bytes.
const MaxBox = 500

// Word is a part of a line with one meaning.
type Word struct {
	Kind Kind
	// Text is the part as it was written. The line without it is the search without it.
	Text string
}

// Kind is the meaning of a word.
type Kind string

// Kinds of words.
const (
	KindKey    Kind = "a key"
	KindBegins Kind = "the beginning of a key"
	KindNumber Kind = "an order number"
	KindPart   Kind = "a part of a key"
	KindID     Kind = "a webhook-id"
	KindHost   Kind = "a host"
	KindRoute  Kind = "a route"
	KindState  Kind = "a state"
	KindReason Kind = "a reason"
	KindSince  Kind = "a start"
	KindUntil  Kind = "an end"
	KindTime   Kind = "a time range"
	KindText   Kind = "text"
)

// Fault is an error of a line: the word, and what would be right, which is one of Wants.
type Fault struct{ Word, Want string }

// Wants are the texts of faults.
var Wants = []string{WantShort, WantUTF8, WantQuotes, WantID, WantHost, WantState, WantReason, WantPart, WantNumber, WantValue, WantOne,
	WantOnePlace, WantShortText, WantDead, WantOneTime, WantOrder}

// What would be right.
const (
	WantShort     = "has more than 500 bytes"
	WantUTF8      = "is not UTF-8"
	WantQuotes    = `want text between two quotation marks, such as "card declined"`
	WantID        = "a webhook-id is msg_ and 26 hexadecimal digits"
	WantHost      = "want a host, such as host=shop.example"
	WantState     = "want scheduled, claimed, delivered, dead, cancelled or replaced"
	WantReason    = "want a reason, such as reason=timeout"
	WantPart      = "want a part of a key, such as part=4711"
	WantNumber    = "want an order number, such as id=4711"
	WantValue     = "want a value after the equals sign"
	WantOne       = "is a second word of its kind: write one, and text in quotation marks"
	WantOnePlace  = "goes with no other key or part of a key: put text in quotation marks"
	WantShortText = "has more than 200 bytes of text"
	WantDead      = "only dead letters have a reason: leave the state out"
	WantOneTime   = "is a second time range: write one"
	WantOrder     = "ends before it starts"
)

func (f *Fault) Error() string { return fmt.Sprintf("%.100q: %s", f.Word, f.Want) }

// states are the words for states.
var states = map[string]string{"scheduled": "scheduled", "claimed": "claimed", "delivered": "delivered", "cancelled": "cancelled",
	"dead": "dead", "failed": "dead", "replaced": "replaced",
	"失败": "dead", "死信": "dead", "已送达": "delivered", "待投递": "scheduled", "投递中": "claimed", "已取消": "cancelled", "已被替换": "replaced"}

// chineseDays are the words for days in the Chinese pages.
var chineseDays = map[string]string{"昨天": "yesterday", "今天": "today"}

// Parse reads a line. Words of time are read in the zone of now. The error is a [Fault], or a [notice.TimeError] of a time.
func Parse(box string, now time.Time) (Query, error) {
	q, _, err := Read(box, now)
	return q, err
}

// Read is Parse, and returns the words too.
func Read(box string, now time.Time) (Query, []Word, error) {
	p := parser{now: now}
	switch {
	case len(box) > MaxBox:
		return Query{}, nil, &Fault{box, WantShort}
	case !utf8.ValidString(box):
		return Query{}, nil, &Fault{box, WantUTF8}
	}

	words, err := split(box)
	for i := 0; i < len(words) && err == nil; {
		n, err2 := p.time(words[i:])
		if n == 0 && err2 == nil {
			n, err2 = 1, p.word(words[i])
		}

		err, i = err2, i+n
	}

	p.q.Text = strings.Join(p.text, " ")
	if err == nil {
		err = p.check()
	}

	if err != nil {
		return Query{}, p.words, err
	}

	return p.q, p.words, nil
}

// word is a word of a line, as it is written and without quotation marks. Quoted ones are text.
type word struct {
	written, text string
	quoted        bool
}

// split returns the words of a line. "…" and “…” are one word, and so is name="…".
func split(box string) (words []word, err error) {
	for rest := strings.TrimSpace(box); rest != ""; rest = strings.TrimSpace(rest) {
		w := word{text: strings.Fields(rest)[0]}
		name, _, field := strings.Cut(w.text, "=")
		if field = field && slices.Contains(fields, name); field {
			name += "="
		} else {
			name = ""
		}

		inner, end := rest[len(name):], ""
		switch {
		case strings.HasPrefix(inner, `"`):
			inner, end = inner[1:], `"`
		case strings.HasPrefix(inner, "“"):
			inner, end = inner[len("“"):], "”"
		}

		after := rest[len(w.text):]
		if end != "" {
			text, behind, ok := strings.Cut(inner, end)
			if !ok || strings.TrimSpace(text) == "" {
				return words, &Fault{rest, WantQuotes}
			}

			w.text, w.quoted, after = name+text, !field, behind
		}

		w.written = rest[:len(rest)-len(after)]
		words, rest = append(words, w), after
	}

	return words, nil
}

type parser struct {
	now          time.Time
	q            Query
	words        []Word
	text         []string
	since, until string // the words of these fields
}

// took adds a word of the line.
func (p *parser) took(kind Kind, words ...word) {
	texts := make([]string, len(words))
	for i := range words {
		texts[i] = words[i].written
	}

	p.words = append(p.words, Word{kind, strings.Join(texts, " ")})
}

// mostOfTime is the maximum number of words of one range, as in "2026-11-22 09:30 - 10:15".
const mostOfTime = 4

// time reads the longest range at the beginning of the words, and returns the number of its words.
func (p *parser) time(words []word) (n int, err error) {
	for n := min(mostOfTime, len(words)); n > 0; n-- {
		if slices.ContainsFunc(words[:n], func(w word) bool { return w.quoted }) {
			continue
		}

		all := timeText(words[:n])
		r, err := notice.ParseTimeRange(all, p.now)
		var skipped *notice.TimeError
		switch {
		case errors.As(err, &skipped) && skipped.Zone != "":
			return 0, err
		case err != nil:
			continue
		case p.q.TimeRange != (notice.TimeRange{}):
			return 0, &Fault{all, WantOneTime}
		}

		p.q.TimeRange = r
		p.took(KindTime, words[:n]...)
		return n, nil
	}

	return 0, nil
}

// timeText joins words for package notice, which reads English days in lower case.
func timeText(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = cmp.Or(chineseDays[w.text], w.text)
		if i == 0 && !strings.HasPrefix(w.text, "20") { // RFC 3339 has capitals
			texts[i] = strings.ToLower(texts[i])
		}
	}

	return strings.Join(texts, " ")
}

// word reads a word that is not of a time.
func (p *parser) word(w word) error {
	name, value, field := strings.Cut(w.text, "=")
	lower := strings.ToLower(w.text)
	switch host, isHost := hostOf(w.text); {
	case w.quoted:
	case field && slices.Contains(fields, name):
		return p.field(name, value, w)
	case notice.IsID(lower):
		return p.set(&p.q.ID, lower, KindID, w)
	case strings.HasPrefix(lower, "msg_"):
		return &Fault{w.text, WantID}
	case states[lower] != "":
		return p.set(&p.q.State, states[lower], KindState, w)
	case keys.Valid(w.text):
		return p.set(&p.q.Key, w.text, KindKey, w)
	case isHost:
		return p.set(&p.q.Host, host, KindHost, w)
	case strings.Contains(w.text, ":") && isKeyText(w.text):
		return p.set(&p.q.Begins, w.text, KindBegins, w)
	case isKeyText(w.text) && strings.ContainsAny(w.text, "0123456789"):
		return p.set(&p.q.Number, w.text, KindNumber, w)
	}

	p.text = append(p.text, w.text)
	p.took(KindText, w)
	return nil
}

// fields are the names that are written with an equals sign.
var fields = []string{"host", "route", "state", "reason", "part", "text", "id", "since", "until"}

func (p *parser) field(name, value string, w word) error {
	switch name {
	case "host":
		host, err := notice.Host(value)
		if err != nil || value == "" {
			return &Fault{w.text, WantHost}
		}

		return p.set(&p.q.Host, host, KindHost, w)
	case "route":
		return p.set(&p.q.Route, value, KindRoute, w)
	case "state":
		if states[value] == "" {
			return &Fault{w.text, WantState}
		}
		return p.set(&p.q.State, states[value], KindState, w)
	case "reason":
		if !slices.Contains(notice.Reasons, notice.Reason(value)) {
			return &Fault{w.text, WantReason}
		}
		return p.set((*string)(&p.q.Reason), value, KindReason, w)
	case "part":
		if !isKeyText(value) {
			return &Fault{w.text, WantPart}
		}
		return p.set(&p.q.Part, value, KindPart, w)
	case "id":
		if id := strings.ToLower(value); notice.IsID(id) {
			return p.set(&p.q.ID, id, KindID, w)
		}
		if strings.HasPrefix(strings.ToLower(value), "msg_") {
			return &Fault{w.text, WantID}
		}
		if !isKeyText(value) || strings.Contains(value, ":") {
			return &Fault{w.text, WantNumber}
		}

		return p.set(&p.q.Number, value, KindNumber, w)
	case "since":
		return p.instant(&p.q.Since, &p.since, value, KindSince, w)
	case "until":
		return p.instant(&p.q.Until, &p.until, value, KindUntil, w)
	}

	p.text = append(p.text, value)
	p.took(KindText, w)
	return nil
}

// instant reads one end of a range.
func (p *parser) instant(to *time.Time, seen *string, value string, kind Kind, w word) error {
	at, err := notice.ParseInstant(value, p.now, notice.TakeLast)
	switch {
	case err != nil:
		return err
	case *seen == "" && !to.IsZero():
		return &Fault{w.text, WantOneTime}
	case *seen != "" && *seen != value:
		return &Fault{w.text, WantOne}
	}

	*to, *seen = at, value
	p.took(kind, w)
	return nil
}

func (p *parser) set(to *string, value string, kind Kind, w word) error {
	switch {
	case value == "":
		return &Fault{w.text, WantValue}
	case *to != "" && *to != value:
		return &Fault{w.text, WantOne}
	}

	*to = value
	p.took(kind, w)
	return nil
}

// check refuses words that exclude each other.
func (p *parser) check() error {
	places := 0
	for _, s := range []string{p.q.Key, p.q.Begins, p.q.Number, p.q.Part} {
		if s != "" {
			places++
		}
	}

	switch {
	case places > 1:
		return &Fault{cmp.Or(p.q.Part, p.q.Number, p.q.Begins), WantOnePlace}
	case len(p.q.Text) > maxText:
		return &Fault{p.q.Text, WantShortText}
	case p.q.Reason != "" && p.q.State != "" && p.q.State != string(notice.Dead):
		return &Fault{string(p.q.Reason), WantDead}
	case !p.q.Until.IsZero() && !p.q.Since.Before(p.q.Until):
		return &Fault{cmp.Or(p.until, p.since), WantOrder}
	}

	return nil
}

// maxText is the maximum length of a text in bytes.
const maxText = 200

const keyText = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~-:"

func isKeyText(s string) bool {
	return s != "" && len(s) <= keys.MaxKey && strings.Trim(s, keyText) == ""
}

// hostOf returns the host of an address, a name with a dot and a top-level domain, or an IP address.
func hostOf(s string) (host string, ok bool) {
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		u, err := url.Parse(s)
		if err != nil {
			return "", false
		}

		host = history.HostOf(s)
		return host, u.Hostname() != "" && host != ""
	}

	if name, port, found := strings.Cut(s, ":"); found && port != "" && strings.Trim(port, "0123456789") == "" {
		s = name // with a port
	}

	host, err := notice.Host(s)
	if err != nil {
		return "", false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host, true
	}

	i := strings.LastIndexByte(host, '.')
	if i <= 0 {
		return "", false
	}

	top := host[i+1:]
	letters := len(top) > 1 && strings.Trim(top, "abcdefghijklmnopqrstuvwxyz") == ""
	return host, letters || strings.HasPrefix(top, "xn--")
}
