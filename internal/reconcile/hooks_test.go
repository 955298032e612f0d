package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// fakeDeaths is an outbox of hooks in memory, and the scheduler of its notices.
type fakeDeaths struct {
	shards [][]string
	failed map[string]error // by key
	stored []string         // keys
	begun  []string         // calls
	none   *store.DeadCount // the count, if no dead letter is left
}

func (f *fakeDeaths) Deaths(_ context.Context, shard, from, n int) ([]string, error) {
	list := f.shards[shard]
	return slices.Clone(list[min(from, len(list)):min(from+n, len(list))]), nil
}

func (f *fakeDeaths) ForgetDeaths(_ context.Context, shard int, texts []string) error {
	for _, text := range texts {
		f.begun = append(f.begun, "forget "+text)
		if i := slices.Index(f.shards[shard], text); i >= 0 {
			f.shards[shard] = slices.Delete(f.shards[shard], i, i+1)
		}
	}
	return nil
}

func (f *fakeDeaths) DeadCauses(context.Context, []string, time.Time) (store.DeadCount, error) {
	if f.none != nil {
		return *f.none, nil
	}
	return store.DeadCount{Groups: []store.DeadGroup{{Cause: notice.Cause{Reason: notice.ReasonStatus5xx, Status: 500}, Count: 30},
		{Cause: notice.Cause{Reason: notice.ReasonStatus5xx, Status: 503}, Count: 7},
		{Cause: notice.Cause{Reason: notice.ReasonGone}, Count: 1}}}, nil
}

func (f *fakeDeaths) Many(_ context.Context, reqs []store.Request) []store.Reply {
	out := make([]store.Reply, len(reqs))
	for i, r := range reqs {
		f.begun = append(f.begun, "schedule "+r.Key)
		if out[i].Err = f.failed[r.Key]; out[i].Err == nil {
			f.stored = append(f.stored, r.Key)
		}
	}
	return out
}

func newTestHooks(t *testing.T, f *fakeDeaths) *Hooks {
	t.Helper()
	hook := &route.Route{Name: "alarms", Prefix: "ops"}
	table, err := route.NewTable([]*route.Route{{Name: "orders", Prefix: "app1", OnDead: hook}, hook})
	if err != nil {
		t.Fatal(err)
	}
	return NewHooks(HooksOptions{Store: f, Schedule: f, Routes: table,
		Space: keys.Space{Namespace: "n", Shards: len(f.shards)}, Logger: zaptest.NewLogger(t)})
}

func TestHooksRemoveOnlyScheduledDeaths(t *testing.T) {
	boom := errors.New("boom")
	f := &fakeDeaths{shards: [][]string{{"5 a-1 ops {}", "6 b-1 ops {}", "7 c-1 other {}", "8 d-1 ops {}", "not an entry"}, {"9 e-1 ops {}"}},
		failed: map[string]error{"ops:dead:dead:b-1-6": boom, "ops:dead:dead:d-1-8": wire.ErrMoved}}
	h := newTestHooks(t, f)
	if err := h.pass(t.Context(), true); !errors.Is(err, boom) {
		t.Errorf("err %v, want boom", err)
	}
	if want := []string{"6 b-1 ops {}", "7 c-1 other {}", "8 d-1 ops {}", "not an entry"}; !slices.Equal(f.shards[0], want) {
		t.Errorf("the outbox has %q, want %q", f.shards[0], want)
	}
	if len(f.shards[1]) > 0 {
		t.Errorf("the other shard has %q, want none", f.shards[1])
	}
	if want := []string{"ops:dead:dead:a-1-5", "ops:dead:dead:e-1-9"}; !slices.Equal(f.stored, want) {
		t.Errorf("scheduled %q, want %q", f.stored, want)
	}
	if s, r := slices.Index(f.begun, "schedule ops:dead:dead:a-1-5"), slices.Index(f.begun, "forget 5 a-1 ops {}"); s < 0 || r < s {
		t.Errorf("calls %q, want the notice scheduled before its entry is removed", f.begun)
	}
}

// Entries that this instance cannot schedule do not hold up those behind them.
func TestHooksSkipDeathsOfOtherHooks(t *testing.T) {
	f := &fakeDeaths{shards: [][]string{nil}}
	for i := range 3 * hooksBatch {
		hook := "other"
		if i%3 == 2 || i > 2*hooksBatch {
			hook = "ops"
		}
		f.shards[0] = append(f.shards[0], fmt.Sprintf("%d a-1 %s {}", i+1, hook))
	}
	want := 0 // left
	for _, text := range f.shards[0] {
		if strings.Contains(text, " other ") {
			want++
		}
	}
	h := newTestHooks(t, f)
	if err := h.pass(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if left := len(f.shards[0]); left != want || len(f.stored) != 3*hooksBatch-want {
		t.Errorf("%d entries are left and %d scheduled, want %d and %d", left, len(f.stored), want, 3*hooksBatch-want)
	}
}
