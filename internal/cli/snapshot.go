package cli

import (
	"bytes"
	"errors"
	"time"

	"notifier/internal/codec"
	"notifier/internal/notice"
)

// readSnapshot reads a line with a stored notice, of notifier export, notifier list or the pages' download. ok is false
// for a line that schedules a notice.
func readSnapshot(line []byte) (s codec.Snapshot, ok bool) {
	if !bytes.Contains(line, []byte(`"created_at"`)) || codec.Parse(line, &s) != nil {
		return codec.Snapshot{}, false
	}
	return s, s.ID != "" && !time.Time(s.CreatedAt).IsZero() && (s.State != "") != (s.Outcome != "")
}

// whole returns an error for a notice of which parts were not kept.
func whole(s *codec.Snapshot) error {
	if f := s.Whole(); len(f) > 0 {
		return errors.New(f[0].Location + ": " + f[0].Message)
	}
	return nil
}

// scheduleAgain returns a request that schedules the same content for now.
func scheduleAgain(s *codec.Snapshot) []byte {
	r := codec.Request{Key: s.Key, URL: s.URL, Audience: s.Audience, Method: s.Method, OnDuplicate: s.OnDuplicate, Headers: s.Headers,
		Retry: codec.Steps(s.Retry), ContentType: s.ContentType, Body: s.Body, BodyBase64: s.BodyBase64}
	r.Expires.At = time.Time(s.Expires)
	if s.ExpiresAfter != nil {
		r.Expires = codec.Expiry{After: s.ExpiresAfter.Span}
	}

	if s.Body != nil && s.ContentType == "application/json" {
		r.ContentType = "" // omitted in the original request
	}

	return codec.Append(nil, &r)
}

// dead reports whether the notice was a dead letter.
func dead(s *codec.Snapshot) bool { return s.Last() == notice.Dead }
