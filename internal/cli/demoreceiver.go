package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// demoReceiver is a merchant's endpoint that fails the number of times that each order sets.
type demoReceiver struct {
	url    string
	server *http.Server
	news   chan demoHit
	total  int // expected attempts

	mu    sync.Mutex
	fails map[string]int
	hits  map[string][]demoHit
	made  map[string]time.Time
}

// demoHit is one attempt, seen by the receiver.
type demoHit struct {
	key     string
	attempt string
	at      time.Time
	late    time.Duration
	status  int
}

func newDemoReceiver(list []demoOrder) (*demoReceiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	r := &demoReceiver{url: "http://" + l.Addr().String() + "/paid", fails: map[string]int{}, hits: map[string][]demoHit{},
		made: map[string]time.Time{}}
	for _, x := range list {
		r.fails[x.key] = x.fails
		r.total += x.attempts()
	}

	r.news = make(chan demoHit, 10*r.total)
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: time.Second}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *demoReceiver) close() { _ = r.server.Close() }

// expect records when a notice was scheduled, for the printed times.
func (r *demoReceiver) expect(key string, made time.Time) {
	r.mu.Lock()
	r.made[key] = made
	r.mu.Unlock()
}

func (r *demoReceiver) serve(w http.ResponseWriter, q *http.Request) {
	at := time.Now()
	_, _ = io.Copy(io.Discard, io.LimitReader(q.Body, 1<<16))
	h := demoHit{key: q.Header.Get("Notifier-Key"), attempt: q.Header.Get("Notifier-Attempt"), at: at, status: http.StatusOK}
	if due, err := time.Parse(time.RFC3339Nano, q.Header.Get("Notifier-Due")); err == nil {
		h.late = at.Sub(due)
	}

	r.mu.Lock()
	if r.fails[h.key] > 0 {
		r.fails[h.key]--
		h.status = http.StatusInternalServerError
	}

	r.hits[h.key] = append(r.hits[h.key], h)
	r.mu.Unlock()
	w.WriteHeader(h.status)
	select {
	case r.news <- h:
	default:
	}
}

// print prints each attempt when it arrives, until all have arrived or ctx ends.
func (r *demoReceiver) print(ctx context.Context, out io.Writer) {
	for range r.total {
		select {
		case <-ctx.Done():
			return
		case h := <-r.news:
			r.mu.Lock()
			since := h.at.Sub(r.made[h.key])
			r.mu.Unlock()
			printTo(out, "  %6.2fs after scheduling  %-22s attempt %s  %.1f ms late  → %d\n", since.Seconds(), h.key, h.attempt,
				float64(h.late.Microseconds())/1000, h.status)
		}
	}
}

func (r *demoReceiver) lateness(key string) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var d []time.Duration
	for _, h := range slices.Clone(r.hits[key]) {
		d = append(d, h.late)
	}

	return d
}
