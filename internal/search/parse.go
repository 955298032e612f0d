package search

import (
	"cmp"
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
	"notifier/internal/timespec"
)

// Query is the meaning of a line. Empty fields select all.
type Query struct {
	Key    string // a whole key
	Begins string // the beginning of a key, with a colon
	Number string // the beginning of the last segment of a key, such as an order number
	Part   string // a part of a key
	ID     string // a webhook-id
	Host   string
	Route  string // a name or a prefix
	State  string // a notice.State or notice.EndReplaced
	Reason notice.Reason
	Text   string // words of a body or an answer
	timespec.Range
}

// MaxBox is the maximum length of a line in bytes.
const MaxBox = 500

// Fault is an error of a line: the word, and what would be right.
type Fault struct{ Word, Want string }

func (f *Fault) Error() string { return fmt.Sprintf("%.100q: %s", f.Word, f.Want) }

// states are the words for states.
var states = map[string]string{"scheduled": "scheduled", "claimed": "claimed", "delivered": "delivered", "cancelled": "cancelled",
	"dead": "dead", "failed": "dead", "replaced": "replaced", "失败": "dead", "死信": "dead", "已送达": "delivered"}

// chineseDays are the words for days in the Chinese pages.
var chineseDays = map[string]string{"昨天": "yesterday", "今天": "today"}

// Parse reads a line. Words of time are read in the zone of now.
func Parse(box string, now time.Time) (Query, error) {
	var p parser
	switch {
	case len(box) > MaxBox:
		return Query{}, &Fault{box, fmt.Sprintf("has %d bytes, at most %d are allowed", len(box), MaxBox)}
	case !utf8.ValidString(box):
		return Query{}, &Fault{box, "is not UTF-8"}
	}

	words, err := split(box)
	if err != nil {
		return Query{}, err
	}

	for i := 0; i < len(words); {
		n, err := p.time(words[i:], now)
		if n == 0 && err == nil {
			n, err = 1, p.word(words[i])
		}

		if err != nil {
			return Query{}, err
		}

		i += n
	}

	p.q.Text = strings.Join(p.text, " ")
	return p.q, p.check()
}

// word is a word of a line. Quoted ones are text.
type word struct {
	text   string
	quoted bool
}

// split returns the words of a line. "…" and “…” are one word.
func split(box string) (words []word, err error) {
	for rest := strings.TrimSpace(box); rest != ""; rest = strings.TrimSpace(rest) {
		end := ""
		switch {
		case strings.HasPrefix(rest, `"`):
			rest, end = rest[1:], `"`
		case strings.HasPrefix(rest, "“"):
			rest, end = rest[len("“"):], "”"
		}

		if end != "" {
			text, after, ok := strings.Cut(rest, end)
			if !ok || strings.TrimSpace(text) == "" {
				return nil, &Fault{rest, `want text between two quotation marks, such as "card declined"`}
			}

			words, rest = append(words, word{text, true}), after
			continue
		}

		all := strings.Fields(rest)
		words, rest = append(words, word{text: all[0]}), rest[len(all[0]):]
	}

	return words, nil
}

type parser struct {
	q    Query
	text []string
}

// mostOfTime is the maximum number of words of one range, as in "2026-11-22 09:30 - 10:15".
const mostOfTime = 4

// time reads the longest range at the beginning of the words, and returns the number of its words.
func (p *parser) time(words []word, now time.Time) (n int, err error) {
	for n := min(mostOfTime, len(words)); n > 0; n-- {
		if slices.ContainsFunc(words[:n], func(w word) bool { return w.quoted }) {
			continue
		}

		texts := make([]string, n)
		for i, w := range words[:n] {
			texts[i] = cmp.Or(chineseDays[w.text], w.text)
			if i == 0 {
				texts[i] = strings.ToLower(texts[i])
			}

			if strings.HasPrefix(w.text, "20") { // RFC 3339 has capitals
				texts[i] = w.text
			}
		}

		all := strings.Join(texts, " ")
		r, err := timespec.ParseRange(all, now)
		if err != nil {
			continue
		}
		if p.q.Range != (timespec.Range{}) {
			return 0, &Fault{all, "is a second time range; write one"}
		}

		p.q.Range = r
		return n, nil
	}

	return 0, nil
}

// word reads a word that is not of a time.
func (p *parser) word(w word) error {
	name, value, field := strings.Cut(w.text, "=")
	lower := strings.ToLower(w.text)
	switch host, isHost := hostOf(w.text); {
	case w.quoted:
		p.text = append(p.text, w.text)
		return nil
	case field && slices.Contains(fields, name):
		return p.field(name, value)
	case notice.IsID(lower):
		return p.set(&p.q.ID, lower, "a webhook-id")
	case strings.HasPrefix(lower, "msg_"):
		return &Fault{w.text, "a webhook-id is msg_ and 26 hexadecimal digits"}
	case states[lower] != "":
		return p.set(&p.q.State, states[lower], "a state")
	case keys.Valid(w.text):
		return p.set(&p.q.Key, w.text, "a key")
	case isHost:
		return p.set(&p.q.Host, host, "a host")
	case strings.Contains(w.text, ":") && isKeyText(w.text):
		return p.set(&p.q.Begins, w.text, "the beginning of a key")
	case isKeyText(w.text) && strings.ContainsAny(w.text, "0123456789"):
		return p.set(&p.q.Number, w.text, "an order number")
	}

	p.text = append(p.text, w.text)
	return nil
}

// fields are the names that are written with an equals sign.
var fields = []string{"host", "route", "state", "reason", "part", "text", "id"}

func (p *parser) field(name, value string) error {
	switch name {
	case "host":
		host, err := notice.Host(value)
		if err != nil || value == "" {
			return &Fault{value, "want a host, such as host=shop.example"}
		}

		return p.set(&p.q.Host, host, "a host")
	case "route":
		return p.set(&p.q.Route, value, "a route")
	case "state":
		if states[value] == "" {
			return &Fault{value, "want scheduled, claimed, delivered, dead, cancelled or replaced"}
		}
		return p.set(&p.q.State, states[value], "a state")
	case "reason":
		if !slices.Contains(notice.Reasons, notice.Reason(value)) {
			return &Fault{value, "want a reason, such as reason=timeout"}
		}
		return p.set((*string)(&p.q.Reason), value, "a reason")
	case "part":
		if !isKeyText(value) {
			return &Fault{value, "want a part of a key, such as part=4711"}
		}
		return p.set(&p.q.Part, value, "a part of a key")
	case "id":
		if !isKeyText(value) || strings.Contains(value, ":") {
			return &Fault{value, "want an order number, such as id=4711"}
		}
		return p.set(&p.q.Number, value, "an order number")
	}

	p.text = append(p.text, value)
	return nil
}

func (p *parser) set(to *string, value, what string) error {
	switch {
	case value == "":
		return &Fault{value, "want " + what + " after the equals sign"}
	case *to != "" && *to != value:
		return &Fault{value, "is a second word for " + what + "; write one, and text in quotation marks"}
	}

	*to = value
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
		return &Fault{cmp.Or(p.q.Part, p.q.Number), "goes with no other key or part of a key; put text in quotation marks"}
	case len(p.q.Text) > maxText:
		return &Fault{p.q.Text, fmt.Sprintf("has %d bytes, at most %d are allowed", len(p.q.Text), maxText)}
	case p.q.Reason != "" && p.q.State != "" && p.q.State != string(notice.Dead):
		return &Fault{string(p.q.Reason), "only dead letters have a reason: leave the state out"}
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
