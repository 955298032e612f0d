package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/tracing"
)

// Tapper opens taps.
type Tapper interface {
	// OpenTap opens a tap of a client on the keys under a prefix. It must be closed.
	OpenTap(ctx context.Context, client, prefix string) (*tracing.Tap, error)
}

// tapTimes are the times of streams of GET /v1/tap.
type tapTimes struct {
	write   time.Duration // for one event to reach the reader
	beat    time.Duration // between two comments that keep the connection in use
	recheck time.Duration // between two checks of the client's rights
}

var defaultTapTimes = tapTimes{write: 10 * time.Second, beat: 15 * time.Second, recheck: 30 * time.Second}

var tapParams = []parameter{{"prefix", "app, app:module or app:module:type: what the keys lie under; all of the client's keys if it is " +
	"left out.",
	"app1:orders"}}

// The data of the events of GET /v1/tap.
type (
	tapOpened struct {
		Prefix string `json:"prefix"`
		Key    string `json:"key,omitempty"`
		Masked bool   `json:"masked"`
	}
	tapReady struct {
		Instances int `json:"instances"`
		Of        int `json:"of"`
	}
	tapDropped struct {
		Copies int64 `json:"copies"`
	}
	tapEnd struct {
		Reason string `json:"reason"`
	}
)

// tap serves GET /v1/tap.
func (a *api) tap(w http.ResponseWriter, r *http.Request, at site) error {
	prefix, err := tapPrefix(r, at)
	if err != nil {
		return err
	}

	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", eventStreamType)
		return nil
	}

	t, err := a.tapper.OpenTap(r.Context(), at.Name, prefix)
	if err != nil {
		return tapRefusal(err)
	}

	defer t.Close()
	a.operated(r, at, audit.Entry{Action: audit.Tap, Prefix: prefix}, nil)
	(&stream{api: a, request: r, prefix: prefix, tap: t, view: tracing.NewView(a.mask), sse: newEvents(w, a.tapTimes.write)}).run()
	return nil
}

// tapPrefix reads the prefix, within the caller's.
func tapPrefix(r *http.Request, at site) (string, error) {
	values, p := queryOf(r, tapParams)
	if p != nil {
		return "", p
	}

	var f codec.Faults
	q := store.Query{Prefix: strings.TrimSuffix(values.Get("prefix"), ":")}
	if q.Prefix != "" {
		if err := keys.CheckPrefix(q.Prefix); err != nil {
			f.Add("query.prefix", codec.Clip(q.Prefix, 100), "%s", codec.Clip(err.Error(), 200))
		}
	}

	if p := refusal(f); p != nil {
		return "", p
	}
	if !at.narrow(&q) {
		return "", problem(http.StatusNotFound, "this client has no keys under %s", codec.Clip(q.Prefix, 200))
	}

	return q.Prefix, nil
}

// tapRefusal is the answer to a tap that was not opened.
func tapRefusal(err error) error {
	var full *tracing.TapsFullError
	if errors.As(err, &full) {
		return problem(http.StatusTooManyRequests, "%v", full).with("Retry-After", "15")
	}

	return err
}

// stream is one answer of GET /v1/tap.
type stream struct {
	api     *api
	request *http.Request
	prefix  string
	tap     *tracing.Tap
	view    *tracing.View
	sse     *eventWriter
}

// run sends events until the reader, the tap or the client's right ends.
func (s *stream) run() {
	if s.sse.send("open", tapOpened{s.prefix, s.view.Secret(), s.view.Masked()}) != nil {
		return
	}

	times := s.api.tapTimes
	beat, recheck := time.NewTicker(times.beat), time.NewTicker(times.recheck)
	defer beat.Stop()
	defer recheck.Stop()
	for {
		var err error
		select {
		case <-s.request.Context().Done():
			return
		case <-beat.C:
			err = s.sse.comment()
		case <-recheck.C:
			if !s.allowed() {
				_ = s.sse.send("end", tapEnd{"the client may not read this tap any more"}) // it ends either way
				return
			}
		case e, ok := <-s.tap.Events():
			if !ok {
				_ = s.sse.send("end", tapEnd{"this instance is stopping"}) // it ends either way
				return
			}
			err = s.pass(&e)
		}

		if err != nil {
			return
		}
	}
}

// allowed reports whether the client may still open this tap.
func (s *stream) allowed() bool {
	c, p := s.api.admit(s.request)
	return p == nil && c.Role.Includes(auth.Operate) && c.Owns(s.prefix)
}

// pass sends an event of the tap.
func (s *stream) pass(e *tracing.Event) error {
	dropped := s.tap.Received(e) + e.Dropped
	if dropped > 0 {
		if err := s.sse.send("dropped", tapDropped{dropped}); err != nil {
			return err
		}
	}

	switch {
	case e.Copy != nil:
		return s.sse.send("copy", s.view.Show(e.Copy))
	case e.Ready:
		return s.sse.send("ready", tapReady{e.Instances, e.Alive})
	case e.Interrupted:
		return s.sse.send("interrupted", struct{}{})
	}

	return nil
}

const eventStreamType = "text/event-stream"

// eventWriter writes server-sent events, with a deadline for each.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// newEvents begins a stream.
func newEvents(w http.ResponseWriter, timeout time.Duration) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", eventStreamType)
	h.Set("X-Accel-Buffering", "no") // a proxy that collects the stream would delay it
	return &eventWriter{w, http.NewResponseController(w), timeout}
}

func (e *eventWriter) send(name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}

	return e.write("event: " + name + "\ndata: " + string(text) + "\n\n")
}

// comment sends a line that readers ignore, by which either side finds out that the other has
// gone.
func (e *eventWriter) comment() error { return e.write(": open\n\n") }

func (e *eventWriter) write(text string) error {
	if err := e.control.SetWriteDeadline(time.Now().Add(e.timeout)); err != nil {
		return err
	}
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}

	return e.control.Flush()
}
