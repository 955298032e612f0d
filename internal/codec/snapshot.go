package codec

import (
	"time"

	"notifier/internal/notice"
)

// Last returns the notice's state, or the outcome in the history; empty if neither is given.
func (s *Snapshot) Last() notice.State {
	if s.Outcome != "" {
		return s.Outcome
	}
	return s.State
}

// Pending reports whether the notice has attempts to come.
func (s *Snapshot) Pending() bool { return s.Last() == notice.Scheduled || s.Last() == notice.Claimed }

// Died returns a dead letter's time of death; zero if it is not given.
func (s *Snapshot) Died() time.Time {
	if t := time.Time(s.SettledAt); !t.IsZero() {
		return t
	}
	return time.Time(s.EndedAt)
}

// Whole lists the parts that were omitted or masked in a snapshot. Such a notice cannot be restored, because it would
// be sent with other content.
func (s *Snapshot) Whole() Faults {
	var f Faults
	if s.Masked {
		f.Add("masked", nil, "parts of it were masked")
	}

	if s.Sealed {
		f.Add("sealed", nil, "it is encrypted, so the line may lack its content")
	}

	if s.URLSealed {
		f.Add("url_sealed", nil, "the query of its url is encrypted")
	}

	if at := time.Time(s.ForgottenAt); !at.IsZero() {
		f.Add("forgotten_at", notice.Stamp(at), "its content was forgotten")
	}

	if len(s.Unreadable) > 0 {
		f.Add("unreadable", s.Unreadable, "the history cannot read its %s", s.Unreadable[0])
	}

	if s.BodyKept != nil && !*s.BodyKept {
		f.Add("body_kept", false, "its body was not kept")
	}

	if len(s.Withheld) > 0 {
		f.Add("headers_withheld", s.Withheld, "the value of %s is a secret and was not kept", s.Withheld[0])
	}

	if notice.PasswordMissing(string(s.URL), s.Outcome != "") {
		f.Add("url", nil, "names a user, and the password was not kept")
	}

	return f
}

// Given returns the content without the body and without the withheld headers.
func (c *Content) Given() notice.Content {
	g := notice.Content{URL: string(c.URL), Audience: string(c.Audience), ContentType: string(c.ContentType), Headers: c.Headers,
		Ladder: notice.Ladder(c.Retry), Method: c.Method, Expires: time.Time(c.Expires), Tick: time.Time(c.Tick)}
	if c.ExpiresAfter != nil && !g.Expires.IsZero() {
		g.ExpiresAfter = c.ExpiresAfter.Span
	}

	return g
}

// Given returns the content without the body.
func (q *Request) Given() notice.Content {
	return notice.Content{URL: string(q.URL), Audience: string(q.Audience), ContentType: string(q.ContentType), Headers: q.Headers,
		Ladder: notice.Ladder(q.Retry), Method: q.Method, Expires: q.Expires.At, ExpiresAfter: q.Expires.After}
}

// Bytes returns the body; nil if there is none.
func (p *Payload) Bytes() []byte {
	if p.Body != nil {
		return p.Body
	}
	return p.BodyBase64
}
