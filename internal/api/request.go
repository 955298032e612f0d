package api

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// readBody reads a request's body, up to limit.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge("the request", limit)
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooBig *http.MaxBytesError
	var p *Problem
	switch {
	case errors.As(err, &p):
		return nil, p
	case errors.As(err, &tooBig):
		return nil, tooLarge("the request", limit)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, problem(http.StatusBadRequest, "the request's body ended before its Content-Length")
	case err != nil:
		return nil, problem(http.StatusBadRequest, "the request's body could not be read to its end")
	}
	return data, nil
}

// object checks that data is one JSON object and yields its members.
func object(data []byte, prefix string, known []string, f *faults, each func(name, at string, raw []byte)) error {
	if err := checkJSON(data); err != nil {
		return problem(http.StatusBadRequest, "the request's body is not JSON: %v", err)
	}
	if kind(data) != '{' {
		f.add(strings.TrimSuffix(prefix, "."), nil, "want a JSON object")
		return nil
	}
	seen := make([]string, 0, 16)
	for name, raw := range members(data) {
		if f.full() {
			break
		}
		at := prefix + clip(name, 60)
		switch {
		case !slices.Contains(known, name):
			f.add(at, nil, "no such field; the fields are %s", strings.Join(known, ", "))
		case slices.Contains(seen, name):
			f.add(at, nil, "is given twice")
		default:
			seen = append(seen, name)
			each(name, at, raw)
		}
	}
	return nil
}

var scheduleFields = []string{"key", "delay", "due", "body", "body_text", "body_base64", "content_type", "url", "audience", "headers", "method",
	"retry", "on_duplicate"}

// parseNotice reads one notice to schedule. Everything about it that needs no
// Redis is checked here. A *Problem as the error is its answer.
func (a *api) parseNotice(data []byte, prefix string, c caller, trace string) (it item, err error) {
	var f faults
	req := &it.req
	var times []string
	var when store.When
	if int64(len(data)) > a.itemLimit() {
		return it, tooLarge("the notice", a.itemLimit())
	}
	err = object(data, prefix, scheduleFields, &f, func(name, at string, raw []byte) {
		switch name {
		case "key":
			req.Key = stringField(&f, at, raw)
		case "delay", "due":
			times = append(times, name)
			a.timeField(&f, name, at, raw, &when)
			it.readAs = readAs(name, raw, when.Delay)
		case "on_duplicate":
			req.OnDuplicate = store.Duplicate(stringField(&f, at, raw))
			if kind(raw) == '"' && !slices.Contains([]store.Duplicate{store.Reject, store.Keep, store.Replace}, req.OnDuplicate) {
				f.add(at, shown(raw), "want reject, keep or replace")
			}
		default:
			it.contentField(&f, name, at, raw)
		}
	})
	req.Due, req.Delay = when.Due, when.Delay
	if err != nil {
		return it, err
	}
	if len(times) > 1 {
		f.add(prefix+"due", nil, "delay and due are both given; give one of them, or none for now")
	}
	if err := a.bodyOf(&it, prefix, &f); err != nil {
		return it, err
	}
	req.Traceparent = trace
	return it, a.place(req, prefix, c, f)
}

// contentField reads a field of what is to be sent, and to where.
func (it *item) contentField(f *faults, name, at string, raw []byte) {
	req := &it.req
	switch name {
	case "body":
		it.bodies = append(it.bodies, name)
		req.Body = raw
	case "body_text":
		it.bodies = append(it.bodies, name)
		req.Body = []byte(stringField(f, at, raw))
	case "body_base64":
		it.bodies = append(it.bodies, name)
		req.Body = base64Field(f, at, raw)
	case "content_type":
		req.ContentType = stringField(f, at, raw)
		if err := (&notice.Content{ContentType: req.ContentType}).Check(); err != nil {
			f.addErr(at, shown(raw), err)
		}
	case "url":
		if req.URL = stringField(f, at, raw); kind(raw) == '"' {
			if err := notice.CheckURL(req.URL); err != nil {
				f.addErr(at, nil, err) // its value may hold a password
			}
		}
	case "audience":
		if req.Audience = stringField(f, at, raw); kind(raw) == '"' {
			if err := notice.CheckAudience(req.Audience); err != nil {
				f.addErr(at, nil, err)
			}
		}
	case "headers":
		req.Headers = headersField(f, at, raw)
	case "method":
		if req.Method = stringField(f, at, raw); kind(raw) == '"' && !slices.Contains(notice.Methods, req.Method) {
			f.add(at, shown(raw), "want POST, PUT or GET")
		}
	case "retry":
		req.Ladder = ladderField(f, at, raw)
	}
}

// bodyOf looks at the body that was given.
func (a *api) bodyOf(it *item, prefix string, f *faults) error {
	req, bodies := &it.req, it.bodies
	if len(bodies) > 1 {
		f.add(prefix+bodies[1], nil, "%s are given; give one of them", strings.Join(bodies, " and "))
	}
	if int64(len(req.Body)) > a.maxBody {
		return tooLarge(prefix+"body", a.maxBody)
	}
	req.Body = bytes.Clone(req.Body) // else it would keep the whole batch in memory
	// What was given as body is JSON; only a long one can be too deep.
	given := len(bodies) == 1 && bodies[0] == "body"
	it.json = given && len(req.Body) <= 1000 || req.InlineJSON()
	if given && !it.json && req.ContentType == "" {
		req.ContentType = "application/json" // said aloud where the record cannot show that it is JSON
	}
	return nil
}

// place checks key, scope and route. Outside the scope nothing else is said.
func (a *api) place(req *store.Request, prefix string, c caller, f faults) error {
	_, err := keys.Parse(req.Key)
	switch {
	case err != nil && req.Key == "":
		f.add(prefix+"key", nil, "is missing; want app:module:type:id")
	case err != nil:
		f.add(prefix+"key", clip(req.Key, 100), "%s", clip(err.Error(), 200))
	case !c.Covers(req.Key):
		return problem(http.StatusForbidden, "this client may only schedule keys under %s:", c.Prefix)
	default:
		a.fit(req, prefix, c, &f)
	}
	if p := f.problem(); p != nil {
		return p
	}
	return nil
}

// fit checks what the key's route asks of a notice.
func (a *api) fit(req *store.Request, prefix string, c caller, f *faults) {
	r := a.routes.Match(req.Key)
	if r == nil {
		f.add(prefix+"key", req.Key, "%s", a.unrouted(c))
		return
	}
	for _, m := range r.Misfits(&req.Content) {
		f.add(prefix+m.Field, nil, "%s", m.Text)
	}
}

// unrouted names the prefixes that the caller could have meant.
func (a *api) unrouted(c caller) string {
	var have []string
	for _, r := range a.routes.All() {
		if c.Meets(r.Prefix) {
			have = append(have, r.Prefix)
		}
	}
	if len(have) == 0 {
		return "no route covers it, and none is configured for this client"
	}
	const most = 20
	if len(have) > most {
		have = append(have[:most], "…")
	}
	return "no route covers it; there are routes for the prefixes " + strings.Join(have, ", ")
}

func stringField(f *faults, at string, raw []byte) string {
	if kind(raw) != '"' {
		f.add(at, shown(raw), "want a string")
		return ""
	}
	s := text(raw)
	if !faithful(raw, s) {
		f.add(at, nil, "holds half of a surrogate pair, which stands for no character")
	}
	return s
}

func base64Field(f *faults, at string, raw []byte) []byte {
	s := stringField(f, at, raw)
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		f.add(at, shown(raw), "is not base64 (the standard alphabet, with padding)")
	}
	return data
}

// timeField reads delay and due into to. Both are rounded up to the millisecond: a
// notice is never early.
func (a *api) timeField(f *faults, name, at string, raw []byte, to *store.When) {
	if name == "delay" {
		if d, ok := durationField(f, at, raw); ok {
			to.Delay = d
		}
		return
	}
	s := stringField(f, at, raw)
	if kind(raw) != '"' {
		return
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		f.add(at, shown(raw), "want a time such as 2026-11-21T09:30:00Z or 2026-11-21T10:30:00.250+01:00")
		return
	}
	if t.After(a.now().Add(notice.MaxHorizon)) {
		f.add(at, shown(raw), "is more than %s ahead", notice.Short(notice.MaxHorizon))
		return
	}
	if t.Unix() <= 0 { // long past is now, and the zero time would mean "not given"
		t = time.UnixMilli(1)
	}
	if cut := t.Truncate(time.Millisecond); cut.Before(t) {
		t = cut.Add(time.Millisecond)
	}
	to.Due = t.UTC()
}

// readAs spells a delay that was given without a unit as it was understood; empty
// for all others. Who means milliseconds should see it.
func readAs(name string, raw []byte, d time.Duration) string {
	if name != "delay" || !(kind(raw) != '"' || notice.Unitless(text(raw))) {
		return ""
	}
	return notice.Short(d)
}

// durationField reads a Go duration in a string, or seconds as number or string.
func durationField(f *faults, at string, raw []byte) (time.Duration, bool) {
	var s string
	switch k := kind(raw); {
	case k == '"':
		s = text(raw)
	case k == '-' || k >= '0' && k <= '9':
		s = string(raw)
	default:
		f.add(at, shown(raw), "want a duration such as \"15s\" or \"1h30m\", or a number of seconds")
		return 0, false
	}
	if len(s) > 64 {
		f.add(at, shown(raw), "is too long for a duration")
		return 0, false
	}
	d, err := notice.ParseDuration(s)
	if err != nil {
		f.addErr(at, shown(raw), err)
		return 0, false
	}
	if cut := d.Truncate(time.Millisecond); cut < d {
		d = cut + time.Millisecond
	}
	return d, true
}

// headersField reads an object of strings. They are kept sorted by name: a JSON
// object has no order, and a repeated call must come out the same.
func headersField(f *faults, at string, raw []byte) []notice.Header {
	if kind(raw) != '{' {
		f.add(at, nil, "want an object of strings, such as {\"x-tenant\":\"7\"}")
		return nil
	}
	var hs []notice.Header
	for name, v := range members(raw) {
		if len(hs) > notice.MaxHeaders {
			break // CheckHeaders says so
		}
		if kind(v) != '"' {
			f.add(at+"."+clip(name, 60), nil, "want a string")
			return nil
		}
		hs = append(hs, notice.Header{Name: name, Value: text(v)})
	}
	sort.SliceStable(hs, func(i, j int) bool { return strings.ToLower(hs[i].Name) < strings.ToLower(hs[j].Name) })
	for i := 1; i < len(hs); i++ {
		if strings.EqualFold(hs[i-1].Name, hs[i].Name) {
			f.add(at, nil, "%s is given twice", clip(hs[i].Name, 60))
			return nil
		}
	}
	if err := notice.CheckHeaders(hs); err != nil {
		f.addErr(at, nil, err) // its value may be a secret
	}
	return hs
}

// ladderField reads an array of durations, a ladder's text, or a preset's name.
func ladderField(f *faults, at string, raw []byte) notice.Ladder {
	switch kind(raw) {
	case '"':
		s := text(raw)
		if p := route.FindPreset(s); p != nil {
			return p.Ladder
		}
		if len(s) > 4096 {
			f.add(at, nil, "is too long")
			return nil
		}
		l, err := notice.ParseLadder(s)
		if err != nil {
			f.addErr(at, shown(raw), err)
		}
		return l
	case '[':
		l := notice.Ladder{}
		for v := range elements(raw) {
			if len(l) > notice.MaxSteps {
				break // Check says so
			}
			d, ok := durationField(f, at+"["+strconv.Itoa(len(l))+"]", v)
			if !ok {
				return nil
			}
			l = append(l, d)
		}
		if err := l.Check(); err != nil {
			f.addErr(at, nil, err)
		}
		return l
	}
	f.add(at, shown(raw), "want an array of delays such as [\"15s\",\"3m\"], or \"none\"")
	return nil
}

// traceparent is the request's, if it is one; any other is ignored, as the W3C
// text asks.
func traceparent(r *http.Request) string {
	v := r.Header.Values("Traceparent")
	if len(v) != 1 || v[0] == "" {
		return ""
	}
	if (&notice.Content{Traceparent: v[0]}).Check() != nil {
		return ""
	}
	return v[0]
}
