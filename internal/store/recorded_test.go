package store

import (
	"context"
	"errors"
	"slices"
	"testing"

	"notifier/internal/keys"
)

// recordings is a Watcher that stores the recorded prefixes.
type recordings struct {
	unwatched
	last []string
}

func (r *recordings) RecordedChanged(prefixes []string) { r.last = prefixes }

func TestRecordWithTheHighestNumberIsValid(t *testing.T) {
	members := []string{"app1", "app1=1:worker", "app2=2:", "app2=1:worker", "app3=1:", "app3=1:worker", "app4=0:worker", "a b=1:worker",
		"app5=1:other"}
	for p, want := range map[string]string{"app1": "worker", "app2": "", "app3": "worker", "app4": "", "a b": "", "app5": ""} {
		if got := recordsOf(members)[p].target; got != want {
			t.Errorf("%s is recorded for %q, want %q", p, got, want)
		}
	}
}

// An instance that does not know a record is refused by the guard, learns it, and then takes nothing from under the prefix.
func TestRecordedPrefixIsTakenByWorkersOnly(t *testing.T) {
	heard := &recordings{}
	service, srv := openLayout(t, LayoutOptions{Prefixes: []string{"app1"}, Watcher: heard})
	ctx := t.Context()
	if err := service.Learn(ctx); err != nil {
		t.Fatal(err)
	}

	worker := overLayout(t, srv.Client(), srv.Namespace(), LayoutOptions{Prefixes: []string{"app1"}, Handles: []string{"app1"}})
	if err := worker.Learn(ctx); err != nil {
		t.Fatal(err)
	}

	take := func(s *Layout) error {
		p := keys.Partition{Prefix: "app1"}
		_, err := s.Take(ctx, claimScript, 2, Taking{p.Prefix, []string{s.space.Shadow(p), s.space.Records(p)},
			[]any{s.space.ClaimPrefix(0), "t", 1000, 1 << 20, "", "app1:a:b:1"}})
		return err
	}
	if err := take(service); !errors.Is(err, ErrForWorkers) {
		t.Errorf("%v, want ErrForWorkers", err)
	}
	if err := take(worker); err != nil {
		t.Error(err)
	}
	if !slices.Equal(heard.last, []string{"app1"}) || !slices.Equal(service.Prefixes(), []string{"app1"}) {
		t.Errorf("the watcher heard %q, and the prefixes are %q", heard.last, service.Prefixes())
	}

	// An instance learns of a release with its next call that is sent, such as the janitor's.
	third := overLayout(t, srv.Client(), srv.Namespace(), LayoutOptions{})
	if err := third.Release(ctx, "app1"); err != nil {
		t.Fatal(err)
	}
	if err := service.Known(ctx); err != nil {
		t.Fatal(err)
	}
	if err := take(service); err != nil || len(heard.last) != 0 {
		t.Errorf("%v, the watcher heard %q: want none", err, heard.last)
	}
	if err := third.Release(context.Background(), "app1"); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("%v, want ErrNotRecorded", err)
	}

	// The worker records the prefix again when it learns the release.
	if err := take(worker); err != nil {
		t.Error(err)
	}
	if err := take(service); !errors.Is(err, ErrForWorkers) {
		t.Errorf("%v after the worker has recorded the prefix again, want ErrForWorkers", err)
	}
}
