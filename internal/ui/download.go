package ui

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"notifier/internal/codec"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// snapshotOf is all that it takes to put a dead letter back as it was, or to schedule it
// again: passwords and the values of secret headers too, unless parts are masked. A
// purged dead letter is kept until its retention ends, so a line that schedules
// replaces it. The receiver of a masked notice would get marks for a body, so import
// refuses it.
func (p *Pages) snapshotOf(f *store.Found) codec.Snapshot {
	content := p.view(f)
	s := codec.Snapshot{Key: f.Key, ID: f.ID(), State: f.State, Reason: codec.Reason(f.Reason), Due: codec.Stamp(f.Due), CreatedAt: codec.Stamp(f.Made.Time()),
		SettledAt: codec.Stamp(f.SettledAt), AttemptsMade: f.AttemptsMade, EndedBefore: f.Endings, Replay: f.Replay, Attempts: slices.Clone(f.Attempts),
		OnDuplicate: string(store.Replace), Content: codec.Content{Method: f.Method, Retry: codec.Ladder(f.Ladder)}}
	for i := range s.Attempts {
		s.Attempts[i].Response = answer(s.Attempts[i].Response, content)
	}

	whole := p.fillContent(&s.Content, f, content)
	body, ok := content.Body()
	hidden := !ok || !bytes.Equal(body, f.Body)
	if s.Masked = hidden || !whole; s.Masked { // it does not come back, so it needs no secret
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

// fillContent shows the parts of a notice's content that rules may mask. It reports whether they are whole.
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

// oneLine reports whether a body may be part of a line of JSON as it is.
func oneLine(body []byte) bool { return !bytes.ContainsAny(body, "\r\n") }

// downloadTime is how long a download may take in all, and writeTime one step.
const (
	downloadTime = 10 * time.Minute
	writeTime    = 30 * time.Second
)

// download hands a group of dead letters over as a file that notifier import takes
// back, one JSON object a line. Its name says if a node of Redis is missing.
func (p *Pages) download(w http.ResponseWriter, r *http.Request, v Visitor) error {
	_, q, fits, err := p.groupOf(r, v)
	if err != nil {
		return err
	}
	q.Until = p.now()
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	name := "dead-letters.ndjson"
	known := len(p.sampler.current(r.Context()).Missing) > 0
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
				line := p.snapshotOf(&list[i])
				_, broken = w.Write(append(codec.Append(nil, &line), '\n'))
			}
		}
		return broken == nil
	})
	if err != nil || broken != nil || len(got.missing) > 0 && !known {
		// Part of the file is out; ended like this, the browser knows that it is not whole.
		panic(http.ErrAbortHandler)
	}
	return nil
}
