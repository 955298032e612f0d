package worker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/tracing"
)

// Duplicate is the behaviour of Schedule if the key has a notice. A finished notice counts too, while Options.Retention
// stores it.
type Duplicate string

// The behaviours.
const (
	Reject  = Duplicate(store.Reject)  // other content is ErrConflict, the same content is no error; the default
	Keep    = Duplicate(store.Keep)    // the stored notice stays, whatever its content
	Replace = Duplicate(store.Replace) // the new notice replaces the stored one
)

// Request describes a notice to schedule. Its key is app:module:type:id.
type Request struct {
	Key string
	// Due is an absolute time, and Delay counts from now. If both are zero, the notice is due now.
	Due   time.Time
	Delay time.Duration
	// JSON is encoded as the body, by Options.Codec. Body is used if it is nil. A body has at most 16 MiB.
	JSON        any
	Body        []byte
	ContentType string // empty = that of the codec, application/json for a JSON body
	Header      map[string]string
	// Retry are the delays between attempts; nil = those of the handler.
	Retry       []time.Duration
	OnDuplicate Duplicate
}

// Reply is the result of a call on a notice.
type Reply struct {
	Key string
	// State is scheduled, claimed while a handler runs, delivered, cancelled or dead.
	State string
	Due   time.Time
	// Attempts is the number of attempts made. Reason and Response are those of the last one.
	Attempts         int
	Reason, Response string
	// Changed reports whether the call created or changed the notice.
	Changed bool
	Err     error // of ScheduleMany
}

// request returns the call that stores a notice. Its attempts continue the trace of ctx.
func (w *Worker) request(ctx context.Context, r *Request) (store.Request, error) {
	c := notice.Content{Body: r.Body, ContentType: r.ContentType, Ladder: r.Retry}
	if r.JSON != nil {
		text, err := w.o.Codec.Marshal(r.JSON)
		if err != nil {
			return store.Request{}, fmt.Errorf("%w: JSON: %w", ErrInvalid, err)
		}

		c.Body = text
		if t := w.o.Codec.ContentType(); c.ContentType == "" && t != jsonType {
			c.ContentType = t
		}
	}

	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		c.Traceparent, c.Tracestate = tracing.Traceparent(span), span.TraceState().String()
	}

	for name, value := range r.Header {
		c.Headers = append(c.Headers, notice.Header{Name: name, Value: value})
	}

	if twice := notice.SortHeaders(c.Headers); twice != "" {
		return store.Request{}, fmt.Errorf("%w: headers: %.60s occurs twice", ErrInvalid, twice)
	}

	due, delay := r.Due, r.Delay
	if w.o.seam != nil && !due.IsZero() { // a Due is checked against the clock of the process
		due, delay = time.Time{}, max(due.Sub(w.o.seam.Now()), 0)
	}

	return store.Request{Key: r.Key, Due: due, Delay: delay, OnDuplicate: store.Duplicate(r.OnDuplicate), Content: c}, nil
}

func replyOf(f *store.Found, changed bool) Reply {
	if f.Notice == nil {
		return Reply{}
	}

	r := Reply{Key: f.Key, State: string(f.State), Due: f.Due, Attempts: f.AttemptsMade, Changed: changed}
	if n := len(f.Attempts); n > 0 {
		r.Reason, r.Response = string(f.Attempts[n-1].Reason), f.Attempts[n-1].Response
	}

	return r
}

func scheduled(s *store.Reply) (Reply, error) {
	if s.Err != nil {
		return Reply{Err: s.Err}, s.Err
	}

	r := replyOf(&s.Found, s.Created)
	if len(s.Differs) > 0 {
		r.Err = fmt.Errorf("%w: %s", ErrConflict, strings.Join(s.Differs, ", "))
	}

	return r, r.Err
}

// Schedule stores a notice.
func (w *Worker) Schedule(ctx context.Context, r Request) (Reply, error) {
	if err := w.ready(ctx); err != nil {
		return Reply{}, err
	}

	req, err := w.request(ctx, &r)
	if err != nil {
		return Reply{}, err
	}

	s, err := w.engine.Schedule(ctx, req)
	if err != nil {
		return Reply{}, err
	}

	return scheduled(&s)
}

// ScheduleMany stores notices, and returns one reply for each. A request with an error does not stop the others.
func (w *Worker) ScheduleMany(ctx context.Context, list []Request) ([]Reply, error) {
	if err := w.ready(ctx); err != nil {
		return nil, err
	}

	out := make([]Reply, len(list))
	reqs, at := make([]store.Request, 0, len(list)), make([]int, 0, len(list))
	for i := range list {
		r, err := w.request(ctx, &list[i])
		if err != nil {
			out[i].Err = err
			continue
		}

		reqs, at = append(reqs, r), append(at, i)
	}

	for i, s := range w.engine.ScheduleMany(ctx, reqs) {
		out[at[i]], _ = scheduled(&s) // the reply has the error
	}

	for i := range out {
		out[i].Key = list[i].Key
	}

	return out, nil
}

// Find returns a notice.
func (w *Worker) Find(ctx context.Context, key string) (Reply, error) {
	if err := w.ready(ctx); err != nil {
		return Reply{}, err
	}

	f, err := w.engine.Find(ctx, key)
	return replyOf(&f, false), err
}

// change makes a call that changes a notice.
func (w *Worker) change(ctx context.Context, call func() (store.Change, error)) (Reply, error) {
	if err := w.ready(ctx); err != nil {
		return Reply{}, err
	}

	c, err := call()
	return replyOf(&c.Found, c.Done), err
}

// Cancel cancels a notice. A handler that runs is not stopped; its result is ignored.
func (w *Worker) Cancel(ctx context.Context, key string) (Reply, error) {
	return w.change(ctx, func() (store.Change, error) { return w.engine.Cancel(ctx, key) })
}

// Reschedule changes when a scheduled notice is due.
func (w *Worker) Reschedule(ctx context.Context, key string, delay time.Duration) (Reply, error) {
	return w.change(ctx, func() (store.Change, error) { return w.engine.Reschedule(ctx, key, time.Time{}, delay) })
}

// Fire makes a scheduled notice due now.
func (w *Worker) Fire(ctx context.Context, key string) (Reply, error) {
	return w.change(ctx, func() (store.Change, error) { return w.engine.Fire(ctx, key) })
}
