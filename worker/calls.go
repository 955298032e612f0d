package worker

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/tracing"
)

// Duplicate selects what Schedule does if the key has a notice. A finished notice counts too, while Options.Retention
// stores it.
type Duplicate string

// Values of Request.OnDuplicate. The default is Reject.
const (
	Reject  Duplicate = Duplicate(store.Reject)  // other content is ErrConflict, the same content is no error
	Keep    Duplicate = Duplicate(store.Keep)    // the stored notice stays, whatever its content
	Replace Duplicate = Duplicate(store.Replace) // the new notice replaces the stored one
)

// Request describes a notice to schedule. Its key is app:module:type:id.
type Request struct {
	Key string
	// Due is an absolute time. If it is zero, Delay counts from now. Both are times of Redis's clock.
	Due   time.Time
	Delay time.Duration
	// JSON is encoded as the body, by Options.Codec. Body is used if it is nil. A body has at most 16 MiB.
	JSON        any
	Body        []byte
	ContentType string // empty = that of the codec, application/json for a JSON body
	Header      map[string]string
	// Retry are the delays between attempts; nil = those of the handler.
	Retry []time.Duration
	// Expires is the time from which no attempt begins any more, and ExpiresAfter that time as a duration after the due time. Set at
	// most one of them. The notice is then dead with the reason expired. Without both, the handler decides: see [Expires].
	Expires      time.Time
	ExpiresAfter time.Duration
	OnDuplicate  Duplicate // empty = Reject
}

// Reply is the result of a call on a notice.
type Reply struct {
	Key string
	// State is scheduled, claimed while a handler runs, delivered, cancelled or dead.
	State string
	Due   time.Time
	// Attempts is the number of attempts made. Reason and Response are those of the last one; of a dead notice Reason is why it is dead.
	Attempts         int
	Reason, Response string
	// Changed reports whether the call created or changed the notice. It is false after a repeated call, and if the state of
	// the notice does not allow the change.
	Changed bool
	Err     error // of ScheduleMany
}

// request returns the call that stores a notice. Its attempts continue the trace of ctx.
func (w *Worker) request(ctx context.Context, r *Request) (store.Request, error) {
	c := notice.Content{Body: r.Body, ContentType: r.ContentType, Ladder: ladder(r.Retry), Expires: r.Expires, ExpiresAfter: r.ExpiresAfter}
	if !r.Expires.IsZero() && r.ExpiresAfter != 0 {
		return store.Request{}, fmt.Errorf("%w: Expires and ExpiresAfter are both set", ErrInvalid)
	}

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

	if w.o.seam != nil && !c.Expires.IsZero() {
		c.Expires, c.ExpiresAfter = time.Time{}, max(c.Expires.Sub(w.o.seam.Now().Add(delay)), time.Millisecond)
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

	r.Reason = cmp.Or(string(f.Reason), r.Reason)
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

// Schedule stores a notice for the handler of its key, which may be in another program. If the key has a notice already,
// the reply describes that one, and Request.OnDuplicate decides. The error wraps ErrInvalid, ErrUnhandled, ErrConflict or
// ErrUnavailable.
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

// ScheduleMany stores notices, and returns one reply for each, in their order. A request with an error does not stop the
// others: its error is Reply.Err.
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

// Find returns a notice. As with the methods below, the error wraps ErrNotFound if the key has none.
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

// Cancel cancels a notice that is not finished, or dead. A handler that runs is not stopped; its result is ignored.
func (w *Worker) Cancel(ctx context.Context, key string) (Reply, error) {
	return w.change(ctx, func() (store.Change, error) { return w.engine.Cancel(ctx, key) })
}

// Reschedule makes a scheduled notice due after a delay from now.
func (w *Worker) Reschedule(ctx context.Context, key string, delay time.Duration) (Reply, error) {
	return w.change(ctx, func() (store.Change, error) { return w.engine.Reschedule(ctx, key, time.Time{}, delay) })
}

// Fire makes a scheduled notice due now.
func (w *Worker) Fire(ctx context.Context, key string) (Reply, error) {
	return w.change(ctx, func() (store.Change, error) { return w.engine.Fire(ctx, key) })
}
