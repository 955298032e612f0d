package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// readBody reads a request's body, up to limit.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge("the request", limit)
	}

	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, bodyError(err, "the request", limit)
	}

	return data, nil
}

// bodyError returns the answer to a body that could not be read; what names its content, which limit bounds.
func bodyError(err error, what string, limit int64) error {
	var tooBig *http.MaxBytesError
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooBig):
		return tooLarge(what, limit)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problem(http.StatusBadRequest, "the request's body ended before its Content-Length or its last chunk")
	}

	return problem(http.StatusBadRequest, "the request's body could not be read to its end")
}

// parseNotice reads one notice to schedule. Everything about it that needs no Redis is checked here. A *Problem as the
// error is its answer.
func (a *api) parseNotice(it *item, data []byte, prefix string, c caller, from traceContext) error {
	if int64(len(data)) > a.itemLimit() {
		return tooLarge("the notice", a.itemLimit())
	}

	var f codec.Faults
	var q codec.Request
	if err := codec.Read(data, prefix, &q, &f); err != nil {
		return notJSON(err)
	}

	it.req = store.Request{Key: q.Key, OnDuplicate: store.Duplicate(q.OnDuplicate), Content: q.Given()}
	it.req.Traceparent, it.req.Tracestate = from.parent, from.state
	when, readAs := a.timesOf(q.Delay, q.Due, prefix, &f)
	it.req.Delay, it.req.Due, it.readAs = when.Delay, when.Due, readAs

	if err := a.takeBody(it, &q, prefix, &f); err != nil {
		return err
	}

	return a.place(&it.req, prefix, c, f)
}

// timesOf checks the times of a request. readAs is the delay in words if it was given without a unit.
func (a *api) timesOf(delay *codec.Delay, at codec.Due, prefix string, f *codec.Faults) (when store.When, readAs string) {
	when.Due = time.Time(at)
	if delay != nil {
		when.Delay, readAs = delay.Span, delay.ReadAs
	}

	if delay != nil && !when.Due.IsZero() {
		f.Add(prefix+"due", nil, "delay and due are both given; give one of them, or none for now")
	}

	return when, readAs
}

// takeBody takes the one body that a request gives.
func (a *api) takeBody(it *item, q *codec.Request, prefix string, f *codec.Faults) error {
	var given []string
	if q.Body != nil {
		it.req.Body, given = q.Body, append(given, "body")
	}

	if q.BodyText != nil {
		it.req.Body, given = []byte(*q.BodyText), append(given, "body_text")
	}

	if q.BodyBase64 != nil {
		it.req.Body, given = q.BodyBase64, append(given, "body_base64")
	}

	if len(given) > 1 {
		f.Add(prefix+given[1], nil, "%s are given; give one of them", strings.Join(given, " and "))
	}

	return a.checkBody(it, prefix, q.Body != nil)
}

// checkBody checks a notice's body. inline reports whether it was given as JSON within the request.
func (a *api) checkBody(it *item, prefix string, inline bool) error {
	req := &it.req
	if int64(len(req.Body)) > a.maxBody {
		return tooLarge(prefix+"body", a.maxBody)
	}

	req.Body = bytes.Clone(req.Body) // else it would keep the whole batch in memory
	// Only a long body can be nested too deep for another JSON text.
	it.json = inline && len(req.Body) <= 1000 || req.InlineJSON()
	if inline && !it.json && req.ContentType == "" {
		req.ContentType = "application/json" // the record cannot show that the body is JSON
	}

	return nil
}

// place checks the scope and everything else of a request. Outside the scope nothing else is said.
func (a *api) place(req *store.Request, prefix string, c caller, f codec.Faults) error {
	if keys.Valid(req.Key) && !c.Covers(req.Key) {
		return problem(http.StatusForbidden, "this client may only schedule keys under %s:", c.Prefix)
	}

	wrong := f // in fields that could not be read
	for _, x := range a.scheduler.Check(req) {
		at := strings.TrimSuffix(prefix+x.Field, ".")
		switch {
		case slices.ContainsFunc(wrong, func(w codec.Wrong) bool { return w.Location == at || x.Field == "" }):
		case errors.Is(x.Err, store.ErrUnrouted):
			f.Add(at, req.Key, "%s", a.unrouted(c))
		case x.Field == "key":
			f.Add(at, given(req, x.Field), "%s", codec.Clip(x.Text(), 200))
		default:
			f.Add(at, given(req, x.Field), "%s", x.Text())
		}
	}

	return asError(refusal(f))
}

// given returns what a request has in a field, for the answer; nil if the answer does not repeat it.
func given(req *store.Request, field string) any {
	switch {
	case field == "key" && req.Key != "":
		return codec.Clip(req.Key, 100)
	case field == "due":
		return notice.Stamp(req.Due)
	}

	return nil
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
