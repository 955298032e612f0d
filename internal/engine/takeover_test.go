package engine

import (
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// The instance that is preferred for a shard may be dead too, or have no slots. So another
// one takes over the claims of a dead instance a second later.
func TestTakeOverByAnInstanceThatIsNotPreferred(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	claimByTheDead(t, srv, "app1:m:t:1")
	slow := testRoute("orders", "app1")
	slow.Timeout = 2 * time.Minute // no lease ends before the test does
	var both [2]*world
	var sinks [2]*sink
	for i := range both {
		sinks[i] = newSink(16)
		both[i] = start(t, srv, sinks[i], nil, slow)
	}
	preferred := func(w *world) bool { return w.assignment.Reclaims(keys.Partition{Prefix: "app1"}) }
	eventually(t, "one of two is preferred", func() bool {
		return both[0].Fleet().View().Alive() == 2 && both[1].Fleet().View().Alive() == 2 && preferred(both[0]) != preferred(both[1])
	})
	other := 0
	if preferred(both[0]) {
		other = 1
	}

	both[other].takeOver("dead")
	sinks[other].await(t, 1)
}

// claimByTheDead schedules a notice, and claims it for the instance "dead".
func claimByTheDead(t *testing.T, srv *testkit.Redis, key string) {
	t.Helper()
	s := store.New(store.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Prefixes: []string{"app1"}})
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := keys.Partition{Prefix: "app1"}
	if _, err := s.Schedule(t.Context(), p, []store.Request{{Key: key}}); err != nil {
		t.Fatal(err)
	}
	c, err := s.ClaimKeys(t.Context(), p, store.Lease{Token: "dead-1", For: 2 * time.Minute}, []string{key})
	if err != nil || len(c.Won) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
}

// sweeps counts the calls of a claimer's Sweep.
type sweeps struct{ all, due int }

func (s *sweeps) Sweep(keys.Partition)               { s.all++ }
func (s *sweeps) SweepDue(keys.Partition)            { s.due++ }
func (s *sweeps) HintFirst(keys.Partition, []string) {}
func (s *sweeps) Expire(keys.Partition)              {}
func (s *sweeps) Room(keys.Partition) int            { return 1 }

// eventful reports whether shards have events.
type eventful bool

func (e eventful) HasEvents(int) bool { return bool(e) }

// No events lead to the notices of an old shard, so waiting for the grace would only delay them.
func TestOldShardIsSweptWithoutTheGrace(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		asked := &sweeps{}
		claimer{asked, eventful(!old)}.Sweep(keys.Partition{})
		if want := (sweeps{all: 1}); !old && *asked != want {
			t.Errorf("a shard in use: %+v, want %+v", *asked, want)
		}
		if want := (sweeps{due: 1}); old && *asked != want {
			t.Errorf("an old shard: %+v, want %+v", *asked, want)
		}
	}
}
