package ui

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// snapshotOf returns a dead letter as one line of the dashboard's download, from which notifier import can restore it.
// If masking rules hide some of the content, the line is marked as masked, and import refuses it. Otherwise the line
// has the whole notice, including passwords and secret headers.
func (p *Pages) snapshotOf(f *store.Found) codec.Snapshot {
	// OnDuplicate is Replace because a purged dead letter stays in Redis for the retention. Without it, scheduling
	// the line would fail.
	content := p.view(f)
	s := codec.Snapshot{Key: f.Key, ID: f.ID(), State: f.State, Reason: codec.Reason(f.Reason), Due: codec.Stamp(f.Due),
		CreatedAt: codec.Stamp(f.Made.Time()), SettledAt: codec.Stamp(f.SettledAt), AttemptsMade: f.AttemptsMade, EndedBefore: f.Endings,
		Replay: f.Replay, ForgottenAt: codec.Stamp(f.Forgotten), Attempts: slices.Clone(f.Attempts), OnDuplicate: string(store.Replace),
		Content: codec.Content{Method: f.Method, Retry: codec.Ladder(f.Ladder), Expires: codec.Stamp(f.Expires), Tick: codec.Stamp(f.Tick)}}
	if f.ExpiresAfter > 0 {
		s.ExpiresAfter = &codec.Delay{Span: f.ExpiresAfter}
	}

	for i := range s.Attempts {
		s.Attempts[i].Response = content.AnswerText(s.Attempts[i].Response)
	}

	whole := p.fillContent(&s.Content, f, content)
	body, ok := content.Body()
	hidden := !ok || !bytes.Equal(body, f.Body) || f.Sealed != ""
	if s.Masked = hidden || !whole; s.Masked { // import refuses it, so it needs no secret
		s.URL, s.Headers = codec.URL(address(content)), headers(f.Headers, content)
	}

	switch {
	case oneLine(body) && (hidden && json.Valid(body) || f.InlineJSON() && !hidden):
		s.Body = body
	default:
		s.BodyBase64 = body
	}

	return s
}

// fillContent adds the parts of the content that rules may mask. It reports whether they are whole.
func (p *Pages) fillContent(c *codec.Content, f *store.Found, content *mask.View) (whole bool) {
	url, whole := content.URL()
	whole = whole && (!p.o.Mask.All() || address(content) == f.URL)
	c.URL, c.Audience, c.ContentType = codec.URL(url), codec.Audience(content.Text(f.Audience)), codec.ContentType(content.Text(f.ContentType))
	for _, h := range f.Headers {
		shown, all := content.Header(h.Name, h.Value)
		c.Headers, whole = append(c.Headers, notice.Header{Name: h.Name, Value: shown}), whole && all
	}

	return whole && string(c.Audience) == f.Audience && string(c.ContentType) == f.ContentType
}

// oneLine reports whether a body can be part of a line of JSON.
func oneLine(body []byte) bool { return !bytes.ContainsAny(body, "\r\n") }

// downloadTime limits a download, and writeTime one step of it.
const (
	downloadTime = 10 * time.Minute
	writeTime    = 30 * time.Second
)

// download serves a group of dead letters as a file for notifier import, one JSON object per line. The
// file name tells whether a node of Redis is missing.
func (p *Pages) download(w http.ResponseWriter, r *http.Request, v Visitor) error {
	g, q, fits, err := p.groupOf(r, v)
	if err != nil {
		return err
	}

	q.Until = p.now()
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	name := "dead-letters.ndjson"
	known := len(p.sampler.Current(r.Context()).Missing) > 0
	if known {
		name = "dead-letters-incomplete.ndjson"
	}

	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	control := http.NewResponseController(w)
	var broken error
	got, err := p.eachDead(r.Context(), q, v, downloadTime, func(list []store.Found) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // not every connection has one
		for i := range list {
			if fits(&list[i]) && broken == nil {
				if p.reveal(r.Context(), v, &list[i]) {
					p.noteOpened(r, v, audit.Entry{Prefix: g.Prefix, Detail: "in a download"})
				}

				line := p.snapshotOf(&list[i])
				_, broken = w.Write(append(codec.Append(nil, &line), '\n'))
			}
		}

		return broken == nil
	})
	if err != nil || broken != nil || len(got.missing) > 0 && !known {
		// Part of the file is sent. Aborting the connection tells the browser that the file is incomplete.
		panic(http.ErrAbortHandler)
	}

	return nil
}
