package ui

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// line is a dead letter as notifier import takes it.
type line struct {
	Key         string            `json:"key"`
	ID          string            `json:"id"`
	State       notice.State      `json:"state"`
	Reason      notice.Reason     `json:"reason,omitempty"`
	Due         string            `json:"due"`
	CreatedAt   string            `json:"created_at"`
	SettledAt   string            `json:"settled_at"` // when it died
	Made        int               `json:"attempts_made"`
	EndedBefore int               `json:"ended_before,omitempty"`
	Replay      string            `json:"replay,omitempty"`
	Attempts    []attempt         `json:"attempts"`
	URL         string            `json:"url,omitempty"`
	Audience    string            `json:"audience,omitempty"`
	Method      string            `json:"method,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Retry       []string          `json:"retry,omitzero"`
	OnDuplicate string            `json:"on_duplicate"`
	Body        json.RawMessage   `json:"body,omitempty"`
	BodyBase64  []byte            `json:"body_base64,omitempty"`
	// Masked: the body, the address or a header is not the notice's, or not all of it. Import knows no such
	// field and refuses the line, so that no receiver gets marks for a body.
	Masked bool `json:"masked,omitempty"`
}

// attempt is one of its attempts, as the API shows it.
type attempt struct {
	N          int           `json:"n"`
	At         string        `json:"at"`
	Status     int           `json:"status,omitempty"`
	DurationMS float64       `json:"duration_ms"`
	Reason     notice.Reason `json:"reason,omitempty"`
	Response   string        `json:"response,omitempty"`
}

// lineOf is all that it takes to put a dead letter back as it was, or to schedule it
// again: passwords and the values of secret headers too, unless parts are masked. A
// purged dead letter is kept until its retention ends, so a line that schedules
// replaces it.
func (p *Pages) lineOf(f *store.Found) line {
	content := p.view(f)
	url, all := content.URL()
	all = all && (!p.o.Mask.All() || address(content) == f.URL)
	l := line{Key: f.Key, ID: f.ID(), State: f.State, Reason: f.Reason, Due: notice.Stamp(f.Due), CreatedAt: notice.Stamp(f.Made.Time()),
		SettledAt: notice.Stamp(f.SettledAt), Made: f.AttemptsMade, EndedBefore: f.Endings, Replay: f.Replay, Attempts: make([]attempt, len(f.Attempts)),
		URL: url, Audience: content.Text(f.Audience), Method: f.Method, ContentType: content.Text(f.ContentType), OnDuplicate: string(store.Replace)}
	for i, a := range f.Attempts {
		l.Attempts[i] = attempt{a.Number, notice.Stamp(a.At), a.Status, float64(a.Duration.Microseconds()) / 1000, a.Reason, answer(a.Response, content)}
	}
	if len(f.Headers) > 0 {
		l.Headers = map[string]string{}
		for _, h := range f.Headers {
			shown, whole := content.Header(h.Name, h.Value)
			l.Headers[h.Name], all = shown, all && whole
		}
	}
	for _, d := range f.Ladder {
		l.Retry = append(l.Retry, notice.Short(d))
	}
	if f.Ladder != nil && len(f.Ladder) == 0 {
		l.Retry = []string{}
	}
	body, ok := content.Body()
	hidden := !ok || !bytes.Equal(body, f.Body)
	all = all && l.Audience == f.Audience && l.ContentType == f.ContentType
	if l.Masked = hidden || !all; l.Masked { // it does not come back, so it needs no secret
		l.URL = address(content)
		for _, h := range headers(f.Headers, content) {
			l.Headers[h.Name] = h.Value
		}
	}
	switch {
	case hidden && json.Valid(body):
		l.Body = json.RawMessage(body)
	case f.InlineJSON() && !hidden && compact(body):
		l.Body = json.RawMessage(f.Body)
	case len(body) > 0:
		l.BodyBase64 = body
	}
	return l
}

// compact reports whether an encoder leaves JSON as it is: any other body is written
// in base64, byte for byte.
func compact(body []byte) bool {
	var b bytes.Buffer
	return json.Compact(&b, body) == nil && bytes.Equal(b.Bytes(), body)
}

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
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	var broken error
	got, err := p.eachDead(r.Context(), q, v, downloadTime, func(list []store.Found) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // not every connection has one
		for i := range list {
			if fits(&list[i]) && broken == nil {
				broken = out.Encode(p.lineOf(&list[i]))
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
