//go:build peers

package adapter

import (
	"testing"

	"notifier/bench/peer"
)

// Needs all servers: scripts/bench-deps.sh brings them.
func TestPeersConform(t *testing.T) {
	for _, e := range All() {
		t.Run(e.Info.Name, func(t *testing.T) { deliver(t, e, peer.Env{}, 20, 0) })
	}
}

func TestServiceLogConforms(t *testing.T) {
	deliver(t, notifierHTTPEntry(), peer.Env{Log: true}, 20, 0)
}

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
			deliver(t, e, peer.Env{URLs: true}, 8, 2)
		})
	}
}
