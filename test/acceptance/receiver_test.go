package acceptance

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// hit is one request that a receiver got.
type hit struct {
	key     string
	id      string
	attempt int
	due     time.Time
	at      time.Time
	body    string // the beginning
	replay  string
}

func (h hit) late() time.Duration { return h.at.Sub(h.due) }

// receiver records requests, and answers with its handler.
type receiver struct {
	t     testing.TB
	url   string
	serve http.Handler
	mu    sync.Mutex
	hits  []hit
	keys  map[string]int // how often each came
}

// listen starts a receiver. A nil answer is 200.
func listen(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, h hit)) *receiver {
	rec := &receiver{t: t, keys: map[string]int{}}
	rec.serve = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		due, err := time.Parse(time.RFC3339, r.Header.Get("Notifier-Due"))
		if err != nil {
			t.Errorf("notifier-due: %v", err)
		}
		n, err := strconv.Atoi(r.Header.Get("Notifier-Attempt"))
		if err != nil {
			t.Errorf("notifier-attempt: %v", err)
		}
		h := hit{key: r.Header.Get("Notifier-Key"), id: r.Header.Get("Webhook-Id"), attempt: n, due: due, at: at,
			replay: r.Header.Get("Notifier-Replay")}
		body, _ := io.ReadAll(io.LimitReader(r.Body, 256)) // a sender that dies is part of the game
		h.body = string(body)
		rec.mu.Lock()
		rec.hits = append(rec.hits, h)
		rec.keys[h.key]++
		rec.mu.Unlock()
		if at.Before(due) {
			t.Errorf("%s attempt %d came %s before its due time", h.key, n, due.Sub(at))
		}
		if answer != nil {
			answer(w, r, h)
		}
	})
	srv := httptest.NewServer(rec.serve)
	t.Cleanup(srv.Close)
	rec.url = srv.URL
	return rec
}

// all returns the requests so far.
func (r *receiver) all() []hit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.hits)
}

// of returns the requests for one key.
func (r *receiver) of(key string) []hit {
	return slices.DeleteFunc(r.all(), func(h hit) bool { return h.key != key })
}

// byKey returns the requests by key.
func (r *receiver) byKey() map[string][]hit {
	m := map[string][]hit{}
	for _, h := range r.all() {
		m[h.key] = append(m[h.key], h)
	}
	return m
}

// count is how many requests came, and how many different notices.
func (r *receiver) count() (hits, notices int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.hits), len(r.keys)
}

// wait waits until n different notices have come.
func (r *receiver) wait(limit time.Duration, n int) {
	r.t.Helper()
	if !eventually(r.t.Context(), limit, func() bool { _, got := r.count(); return got >= n }) {
		hits, got := r.count()
		r.t.Fatalf("%d of %d notices within %s, in %d requests", got, n, limit, hits)
	}
}

// once fails the test unless exactly n notices were delivered, each once. The notices of but
// may have been delivered more than once.
func (r *receiver) once(n int, but ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) != n {
		r.t.Errorf("%d different notices were delivered, want %d", len(r.keys), n)
	}
	shown := 0
	for k, times := range r.keys {
		if times != 1 && !slices.Contains(but, k) {
			if shown++; shown <= 5 {
				r.t.Errorf("%s came %d times", k, times)
			}
		}
	}
	if shown > 5 {
		r.t.Errorf("and %d more came more than once", shown-5)
	}
}

// spread is the distribution of some durations.
type spread struct{ n, p50, p99, most time.Duration }

func (s spread) String() string {
	f := func(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }
	return fmt.Sprintf("%d: p50 %s, p99 %s, max %s", s.n, f(s.p50), f(s.p99), f(s.most))
}

func spreadOf(ds []time.Duration) spread {
	if len(ds) == 0 {
		return spread{}
	}
	slices.Sort(ds)
	at := func(q float64) time.Duration { return ds[min(int(q*float64(len(ds))), len(ds)-1)] }
	return spread{n: time.Duration(len(ds)), p50: at(0.5), p99: at(0.99), most: ds[len(ds)-1]}
}

// lateness is that of all requests whose key begins with the prefix.
func (r *receiver) lateness(prefix string) spread {
	var ds []time.Duration
	for _, h := range r.all() {
		if strings.HasPrefix(h.key, prefix) {
			ds = append(ds, h.late())
		}
	}
	return spreadOf(ds)
}
