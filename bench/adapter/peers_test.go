//go:build peers

package adapter

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"notifier/bench/harness"
	"notifier/bench/peer"
)

// Needs all servers: scripts/bench-deps.sh brings them.
func TestPeersConform(t *testing.T) {
	for _, e := range All() {
		t.Run(e.Info.Name, func(t *testing.T) { conform(t, e, peer.Env{}) })
	}
}

func TestServiceLogConforms(t *testing.T) { conform(t, notifierHTTPEntry(), peer.Env{Log: true}) }

func TestServiceReportsLockWaits(t *testing.T) {
	s := &service{}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Start(t.Context(), peer.Env{Dir: scratch(t), Bin: t.TempDir(), Handlers: 1, Cores: 1}); err != nil {
		t.Fatal(err)
	}
	for metric, fits := range map[string]func(float64) bool{
		lockWait:                       func(v float64) bool { return v >= 0 },
		"go_sched_gomaxprocs_threads ": func(v float64) bool { return v == 1 },
	} {
		if v, err := s.metric(t.Context(), s.instances[0], metric); err != nil || !fits(v) {
			t.Errorf("%s= %v, %v", metric, v, err)
		}
	}
}

func TestServiceResizes(t *testing.T) {
	s := &service{}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Start(t.Context(), peer.Env{Dir: scratch(t), Bin: t.TempDir(), Handlers: 4, Routes: 2}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 1} {
		if err := s.Resize(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		u, err := s.Usage(t.Context())
		if err != nil || len(u.PIDs) != n+1 || u.CPU <= 0 {
			t.Errorf("%+v, %v; want Redis and %d processes", u, err, n)
		}
		if vain, err := s.InVain(t.Context()); err != nil || vain != 0 {
			t.Errorf("%d claims in vain, %v", vain, err)
		}
	}
}

// A peer repeats a refused job with its own means and with all its data, and does not repeat an
// accepted job.
func TestPeersRepeatRefusedJobs(t *testing.T) {
	for _, e := range All() {
		if e.Info.Refused == "" || e.Info.Name == notifierHTTPEntry().Info.Name { // it delivers by itself
			continue
		}
		t.Run(e.Info.Name, func(t *testing.T) {
			t.Parallel()
			refuse(t, e)
		})
	}
}

func refuse(t *testing.T, e peer.Entry) {
	if m := harness.Missing(e.Info); m != "" {
		t.Fatalf("%s %s", e.Info.Name, m)
	}
	const jobs, refused = 8, 2
	p := e.New()
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Start(t.Context(), peer.Env{Dir: scratch(t), Bin: t.TempDir(), Handlers: jobs, URLs: true}); err != nil {
		t.Fatal(err)
	}
	url := func(n int) string { return "http://127.0.0.1:" + string(rune('1'+n)) + "/callback" }
	var mu sync.Mutex
	calls, left, all := map[string]int{}, jobs+refused, make(chan struct{})
	err := p.Work(t.Context(), jobs, func(_ context.Context, j peer.Job) error {
		mu.Lock()
		defer mu.Unlock()
		n, ok := peer.Index(j.ID)
		if !ok || j.URL != url(n) || !bytes.Equal(j.Body, peer.Body(n)) {
			t.Errorf("the job %q, %q, %q was not scheduled", j.ID, j.URL, j.Body)
		}
		if calls[j.ID]++; left > 0 {
			if left--; left == 0 {
				close(all)
			}
		}
		if n < refused && calls[j.ID] == 1 {
			return errors.New("500 Internal Server Error")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(max(e.Info.Lead, time.Second)).Truncate(time.Millisecond)
	for n := range jobs {
		if err := p.Schedule(t.Context(), peer.Job{ID: peer.ID(n), Due: due, Body: peer.Body(n), URL: url(n)}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-all:
	case <-time.After(3 * time.Minute):
		t.Error("not all calls have come")
	}
	mu.Lock()
	defer mu.Unlock()
	for n := range jobs {
		want := 1
		if n < refused {
			want = 2
		}
		if calls[peer.ID(n)] != want {
			t.Errorf("job %d: %d calls, want %d", n, calls[peer.ID(n)], want)
		}
	}
}
