package adapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifier/bench/harness"
	"notifier/bench/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEntriesAreDescribed(t *testing.T) {
	cases := harness.Cases(harness.Sizes()["nightly"])
	seen := map[string]bool{}
	for _, e := range All() {
		i := e.Info
		if seen[i.Name] {
			t.Errorf("two peers are named %s", i.Name)
		}
		seen[i.Name] = true
		texts := []string{i.Title, i.Version, i.Settings, string(i.Kind), i.BytesOf, i.CommandsOf, i.Traits.Crash, i.Traits.Race,
			i.Traits.Ladder, i.Traits.Cancel}
		if slices.Contains(texts, "") {
			t.Errorf("%s: a description is missing: %+v", i.Name, i)
		}
		for c := range i.Skip {
			if !slices.ContainsFunc(cases, func(k harness.Case) bool { return k.Name == c }) {
				t.Errorf("%s skips case %s, which there is not", i.Name, c)
			}
		}
	}
	for _, s := range harness.Sizes() {
		names := slices.Clone(s.Peers)
		for _, only := range s.Only {
			names = append(names, only...)
		}
		for _, n := range names {
			if !seen[n] {
				t.Errorf("size %s speaks of peer %s, which there is not", s.Name, n)
			}
		}
	}
}

func TestSecondsUpIsNeverEarly(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 0, time.Millisecond, 999 * time.Millisecond, time.Second, 90 * time.Minute} {
		due := time.Now().Add(d)
		if at := time.Now().Add(time.Duration(secondsUp(due)) * time.Second); at.Before(due) {
			t.Errorf("%s: %s is before %s", d, at, due)
		}
	}
}

func TestUnpackIsTheInverseOfPack(t *testing.T) {
	j := peer.Job{ID: peer.ID(7), Body: peer.Body(7)}
	if id, err := unpack(pack(j)); err != nil || id != j.ID {
		t.Errorf("%q, %v", id, err)
	}
	for _, s := range []string{"", "short", string(pack(j)[1:])} {
		if id, err := unpack([]byte(s)); err == nil {
			t.Errorf("unpack(%q) = %q", s, id)
		}
	}
}

func TestJobIsUnpackedAsScheduled(t *testing.T) {
	for _, j := range []peer.Job{{ID: peer.ID(7), Body: peer.Body(7)}, {ID: peer.ID(8), Body: peer.Body(8),
		URL: "http://127.0.0.1:81/x?a=\"b\""}} {
		same := func(got peer.Job, err error) {
			t.Helper()
			if err != nil || got.ID != j.ID || got.URL != j.URL || string(got.Body) != string(j.Body) {
				t.Errorf("%+v became %+v, %v", j, got, err)
			}
		}
		same(unpackJob(pack(j)))
		same(job(j.ID, payload(j)), nil)
	}
}

func TestUnorderedIsTheInverseOfOrdered(t *testing.T) {
	seen := map[string]int{}
	for n := range 2 * sequence {
		key := ordered(peer.ID(n))
		if id := unordered(key); id != peer.ID(n) {
			t.Errorf("%s became %s and then %s", peer.ID(n), key, id)
		}
		base, _, _ := strings.Cut(key, "~")
		seen[base]++
	}
	if len(seen) != 2 || seen[peer.ID(0)] != sequence {
		t.Errorf("jobs by business id: %v", seen)
	}
}

// A program that uses package worker as a separate module is not much larger than one that uses asynq. The other figures
// are logged.
func TestSmallestProgramIsAboutAsLargeAsWithAsynq(t *testing.T) {
	const mostMB = 12
	size := map[string]float64{}
	for _, e := range []peer.Entry{notifierEntry(), asynqDefault()} {
		v, err := harness.Quickstart(t.Context(), t.TempDir(), e.Info)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.0f lines, %.0f lines of go.sum, %.0f modules in go.mod, %.1f MB", e.Info.Name, v["lines"], v["sums"], v["modules"], v["mb"])
		if v["lines"] == 0 || v["sums"] == 0 || v["modules"] == 0 {
			t.Errorf("%s: %v", e.Info.Name, v)
		}
		size[e.Info.Name] = v["mb"]
	}
	if size["notifier"] > size["asynq"]+mostMB {
		t.Errorf("%.1f MB, more than %d MB above asynq's %.1f MB", size["notifier"], mostMB, size["asynq"])
	}
}

// deliver schedules jobs 100 ms apart, half of them in a batch where the peer has batches. Each must be handled once, and
// the first ones twice, whose first call is refused. With env.URLs, a call must get all data of its job. Being early is a peer's
// own property: the tables show it.
func deliver(t *testing.T, e peer.Entry, env peer.Env, jobs, refused int) {
	t.Helper()
	if m := harness.Missing(e.Info); m != "" {
		t.Fatalf("%s %s", e.Info.Name, m)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	p := e.New()
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	env.Dir, env.Bin, env.Handlers = scratch(t), t.TempDir(), jobs
	if err := p.Start(ctx, env); err != nil {
		t.Fatal(err)
	}
	batch := make([]peer.Job, jobs)
	var mu sync.Mutex
	calls, left, all := make([]int, jobs), jobs+refused, make(chan struct{})
	err := p.Work(ctx, jobs, func(_ context.Context, j peer.Job) error {
		mu.Lock()
		defer mu.Unlock()
		n, ok := peer.Index(j.ID)
		if !ok || n >= jobs || env.URLs && (j.URL != batch[n].URL || !bytes.Equal(j.Body, batch[n].Body)) {
			t.Errorf("the job %q, %q, %q was not scheduled", j.ID, j.URL, j.Body)
			return nil
		}
		calls[n]++
		if left--; left == 0 {
			close(all)
		}
		if n < refused && calls[n] == 1 {
			return errors.New("500 Internal Server Error")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now().Add(max(e.Info.Lead, 2*time.Second)).Truncate(time.Millisecond)
	mu.Lock()
	for n := range batch {
		batch[n] = peer.Job{ID: peer.ID(n), Due: start.Add(time.Duration(n) * 100 * time.Millisecond), Body: peer.Body(n)}
		if env.URLs {
			batch[n].URL = fmt.Sprintf("http://127.0.0.1:%d/callback", n+1)
		}
	}
	mu.Unlock()
	half := jobs
	if e.Info.Batch > 0 {
		half = jobs / 2
		if err := p.Schedule(ctx, batch[half:]...); err != nil {
			t.Fatal(err)
		}
	}
	for _, j := range batch[:half] {
		if err := p.Schedule(ctx, j); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-all:
	case <-ctx.Done():
		t.Error("not all calls have come")
	}
	if _, err := p.Usage(context.Background()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for n, c := range calls {
		if c != 1+max(0, min(1, refused-n)) {
			t.Errorf("job %d: %d calls, with %d refused jobs", n, c, refused)
		}
	}
}

// scratch is a directory that other users may pass through: PostgreSQL does
// not run as root.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "notifier-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMemoryHeapConforms(t *testing.T) { deliver(t, memoryHeap(), peer.Env{}, 20, 0) }

func TestHeapOrder(t *testing.T) {
	m := &inMemory{wake: make(chan struct{}, 1)}
	now := time.Now()
	for _, d := range []int{-1, -5, -3, 3600} {
		if err := m.Schedule(context.Background(), peer.Job{ID: peer.ID(d + 10),
			Due: now.Add(time.Duration(d) * time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{5, 7, 9} {
		if id, _ := m.next(); id != peer.ID(want) {
			t.Errorf("%s, want %d", id, want)
		}
	}
	if id, wait := m.next(); id != "" || wait < 59*time.Minute {
		t.Errorf("%q, %s: the last is not due for an hour", id, wait)
	}
}
