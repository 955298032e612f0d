package harness

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/bench/peer"
)

func entryNamed(name string) peer.Entry { return peer.Entry{Info: peer.Info{Name: name}} }

func TestPlanOrdersCells(t *testing.T) {
	a, b := entryNamed("a"), entryNamed("b")
	skips, only := entryNamed("b"), entryNamed("b")
	skips.Info.Skip = map[string]string{"bytes": "it does not say"}
	only.Info.Cases = []string{"idle"}
	for _, x := range []struct {
		what    string
		size    Size
		entries []peer.Entry
		cases   []string
		want    []string
		peers   int
	}{
		{"repeats alternate; b skips a case", Size{Repeats: 2, Once: []string{"idle"}}, []peer.Entry{a, skips},
			[]string{"late-10", "bytes", "idle"},
			[]string{"late-10 a", "late-10 b", "late-10 b", "late-10 a", "bytes a", "bytes a", "idle a", "idle b"}, 2},
		{"b has no such case", Size{Repeats: 1}, []peer.Entry{a, skips}, []string{"bytes"}, []string{"bytes a"}, 1},
		{"b has one case", Size{Repeats: 1}, []peer.Entry{a, only}, []string{"bytes", "idle"}, []string{"bytes a", "idle a", "idle b"}, 2},
		{"b is repeated often", Size{Repeats: 3, Often: []string{"b"}}, []peer.Entry{a, b}, []string{"schedule"},
			[]string{"schedule a", "schedule b", "schedule b", "schedule b"}, 2},
	} {
		p, err := makePlan(Options{Size: x.size, Entries: x.entries, Cases: x.cases, Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range p.cells {
			got = append(got, c.Case+" "+c.Peer)
		}
		if !slices.Equal(got, x.want) || len(p.entries) != x.peers {
			t.Errorf("%s: order %q of %d peers\nwant  %q", x.what, got, len(p.entries), x.want)
		}
	}
}

func TestPlanRefusesUnknownNames(t *testing.T) {
	o := Options{Size: Size{Repeats: 1}, Entries: []peer.Entry{entryNamed("a")}, Log: io.Discard}
	for _, c := range []struct{ peers, cases []string }{{[]string{"zz"}, nil}, {nil, []string{"zz"}}} {
		o.Peers, o.Cases = c.peers, c.cases
		if _, err := makePlan(o); err == nil || !strings.Contains(err.Error(), `"zz"`) {
			t.Errorf("%v: error %v does not name zz", c, err)
		}
	}
}

func TestSizesNameRealCases(t *testing.T) {
	for name, s := range Sizes() {
		if s.Name != name || s.Repeats < 1 {
			t.Errorf("size %s is named %q and has %d repeats", name, s.Name, s.Repeats)
		}
		names := append(slices.Clone(s.Cases), s.Once...)
		for n := range s.Only {
			names = append(names, n)
		}
		for _, n := range names {
			if !slices.ContainsFunc(Cases(s), func(c Case) bool { return c.matches(n) }) {
				t.Errorf("size %s speaks of case %s, which there is not", name, n)
			}
		}
	}
	if _, err := SizeNamed("huge"); err == nil || !strings.Contains(err.Error(), "huge") {
		t.Errorf("size huge: %v", err)
	}
}

func TestMissingNamesThePackage(t *testing.T) {
	got := Missing(peer.Info{Needs: []peer.Need{{Program: "no-such-program-here", Package: "its-package"}, {Program: "sh",
		Package: "dash"}}})
	if !strings.Contains(got, "no-such-program-here") || !strings.Contains(got, "its-package") || strings.Contains(got, "dash") {
		t.Errorf("%q", got)
	}
	if got := Missing(peer.Info{}); got != "" {
		t.Errorf("a peer without needs lacks %q", got)
	}
}

// collector is a peer that stores its jobs.
type collector struct {
	peer.Peer
	mu      sync.Mutex
	jobs    []peer.Job
	batches []int
	fail    error
}

func (c *collector) Schedule(_ context.Context, jobs ...peer.Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs, c.batches = append(c.jobs, jobs...), append(c.batches, len(jobs))
	return c.fail
}

func TestFillGivesEachJobOnceAndFarAhead(t *testing.T) {
	for _, batch := range []int{0, 100} {
		c := &collector{}
		if _, err := fillAt(context.Background(), c, peer.Info{Batch: batch}, fillFrom, 1050); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, j := range c.jobs {
			if time.Until(j.Due) < 23*time.Hour || j.Due.Nanosecond()%1e6 != 0 {
				t.Fatalf("due %s is not a whole ms a day ahead", j.Due)
			}
			if len(j.Body) != peer.BodyLen {
				t.Fatalf("a body of %d bytes", len(j.Body))
			}
			seen[j.ID] = true
		}
		if len(c.jobs) != 1050 || len(seen) != 1050 {
			t.Errorf("batch %d: %d jobs, %d different", batch, len(c.jobs), len(seen))
		}
		if batch > 0 && (len(c.batches) != 11 || slices.Max(c.batches) != 100) {
			t.Errorf("batches %v", c.batches)
		}
	}
}

func TestScheduleStopsAtTheFirstError(t *testing.T) {
	c := &collector{fail: errors.New("full")}
	if _, err := fillAt(context.Background(), c, peer.Info{}, fillFrom, 100_000); !errors.Is(err, c.fail) {
		t.Errorf("error %v, want the peer's", err)
	}
	if len(c.jobs) > singleCallers {
		t.Errorf("%d jobs were scheduled after the first error", len(c.jobs))
	}
	if _, _, err := produce(context.Background(), c, time.Hour, 0); !errors.Is(err, c.fail) {
		t.Errorf("error %v, want the peer's", err)
	}
}

func TestRandomDueStaysInTheWindow(t *testing.T) {
	start := at(0).Add(300 * time.Microsecond)
	for _, d := range randomDue(start, time.Second, 1000) {
		if d.Before(at(0)) || !d.Before(at(1000)) || d.Nanosecond()%1e6 != 0 {
			t.Fatalf("%s is not a whole ms of the window", d)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 3_000_000: "3,000,000"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %s, want %s", n, got, want)
		}
	}
}

// A case that fails stops its receivers and workers too, the last one first.
func TestFailedCaseEndsWhatItStarted(t *testing.T) {
	var ended []int
	failure := errors.New("full")
	b := &Bench{ends: new([]func() error)}
	v, err := b.run(t.Context(), Case{Run: func(context.Context, *Bench) Values {
		for n := range 2 {
			b.cleanup(func() error { ended = append(ended, n); return nil })
		}
		check(failure)
		return Values{}
	}})
	if !errors.Is(err, failure) || v != nil || !slices.Equal(ended, []int{1, 0}) {
		t.Errorf("%v, %v; %v ended", v, err, ended)
	}
}
