package notice

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// scan decodes the most frequent kind of record: a first attempt, written by this package, without escapes. It returns
// false for every other record, and Decode then uses encoding/json, which takes three times as long.
func scan(key, route, s string) (*Notice, bool) {
	c := cursor{s: s}
	due, made := c.number(`{"due":`), c.number(`,"made":`)
	n := &Notice{Key: key, Route: route, Due: time.UnixMilli(due).UTC(), Made: Made(made)}
	if strings.HasPrefix(s[c.at:], `,"first":`) {
		n.FirstDue = c.number(`,"first":`)
	}

	if strings.HasPrefix(s[c.at:], `,"expires":`) {
		at := c.number(`,"expires":`)
		n.Expires = timeOf(at)
		c.bad = c.bad || at <= 0 || at > maxNumber
	}

	if strings.HasPrefix(s[c.at:], `,"first_expires":`) {
		return nil, false
	}

	from, content := c.at, len(s)
	c.bad = c.bad || due <= 0 || made <= 0

	for !c.bad {
		if c.at == len(s)-1 && s[c.at] == '}' {
			n.kept = s[from:min(content, c.at)]
			return n, true
		}

		if content < len(s) { // a member other than client after the content
			return nil, false
		}

		at := c.at
		switch c.name() {
		case "url":
			n.URL = c.text()
		case "audience":
			n.Audience = c.text()
		case "method":
			n.Method = c.text()
		case "type":
			n.ContentType = c.text()
		case "trace":
			n.Traceparent = c.text()
		case "tracestate":
			n.Tracestate = c.text()
		case "text":
			n.Body = []byte(c.text())
		case "sealed":
			n.Sealed = c.text()
		case "same":
			n.Same = c.text()
		case "url_sealed":
			c.take("true")
			n.URLSealed = true
		case "adopted":
			c.take("true")
			n.Adopted = true
		case "json":
			n.Body, n.inline = []byte(c.value()), true
		case "expires_after":
			ms := c.number("")
			n.ExpiresAfter = time.Duration(ms) * time.Millisecond
			c.bad = c.bad || ms <= 0 || ms > MaxHorizon.Milliseconds()
		case "tick":
			ms := c.number("")
			n.Tick = timeOf(ms)
			c.bad = c.bad || ms <= 0 || ms > maxNumber
		case "client":
			content, n.Client = at, int(c.number(""))
			c.bad = c.bad || n.Client <= 0 || n.Client > maxCount
		default:
			return nil, false
		}
	}

	return nil, false
}

// scanSecret decodes the most frequent kind of what Content.Secret returns: a body without escapes or a JSON body, and no headers. The text
// was authenticated, so its JSON is not checked again.
func scanSecret(s string) (x Content, ok bool) {
	c := cursor{s: s, trusted: true}
	for first := true; !c.bad; first = false {
		if c.at == len(s)-1 && s[c.at] == '}' && !first {
			return x, true
		}

		switch c.member(first) {
		case "url":
			x.URL = c.text()
		case "text":
			x.Body = []byte(c.text())
		case "json":
			x.Body = []byte(c.value())
		default:
			return Content{}, false
		}
	}

	return Content{}, false
}

// cursor is a position in a record. bad means that it met an unexpected text.
type cursor struct {
	s       string
	at      int
	bad     bool
	trusted bool // JSON is valid
}

func (c *cursor) take(text string) {
	if !strings.HasPrefix(c.s[c.at:], text) {
		c.bad = true
		return
	}
	c.at += len(text)
}

func (c *cursor) number(before string) int64 {
	if c.take(before); c.bad {
		return 0
	}

	end := c.at
	for end < len(c.s) && c.s[end] >= '0' && c.s[end] <= '9' {
		end++
	}

	v, err := strconv.ParseInt(c.s[c.at:end], 10, 64)
	c.bad, c.at = err != nil || c.s[c.at] == '0' && end > c.at+1, end
	return v
}

func (c *cursor) name() string { return c.member(false) }

// member reads the name of an object's member.
func (c *cursor) member(first bool) string {
	before := `,"`
	if first {
		before = `{"`
	}

	if c.take(before); c.bad {
		return ""
	}

	end := strings.IndexByte(c.s[c.at:], '"')
	if end < 0 {
		c.bad = true
		return ""
	}

	name := c.s[c.at : c.at+end]
	c.at += end
	c.take(`":`)
	return name
}

// text reads a string without escapes.
func (c *cursor) text() string {
	if c.take(`"`); c.bad {
		return ""
	}

	end := strings.IndexAny(c.s[c.at:], `"\`)
	if end < 0 || c.s[c.at+end] == '\\' {
		c.bad = true
		return ""
	}

	text := c.s[c.at : c.at+end]
	c.at += end + 1

	for i := range len(text) {
		if text[i] < ' ' {
			c.bad = true
		}
	}

	c.bad = c.bad || !utf8.ValidString(text)
	return text
}

// value reads a JSON value and returns it as text.
func (c *cursor) value() string {
	if c.bad {
		return ""
	}

	depth := 0
	for i := c.at; i < len(c.s); i++ {
		switch ch := c.s[i]; ch {
		case '"':
			if i = closing(c.s, i+1); i < 0 {
				c.bad = true
				return ""
			}
		case '{', '[':
			depth++
		case '}', ']', ',':
			if depth == 0 {
				v := c.s[c.at:i]
				c.at = i
				c.bad = !c.trusted && !json.Valid([]byte(v))
				return v
			}
			if ch != ',' {
				depth--
			}
		}
	}

	c.bad = true
	return ""
}

// closing returns the index of the quote that ends the JSON string starting at from, or -1.
func closing(s string, from int) int {
	for i := from; ; i++ {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return -1
		}

		i += n
		slashes := 0

		for i-slashes > from && s[i-slashes-1] == '\\' {
			slashes++
		}

		if slashes%2 == 0 {
			return i
		}
	}
}
