package intake

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"notifier/internal/keys"
	"notifier/internal/store"
)

// Two routes of a shard that takes writes only alone are sent once together, and then each alone.
func TestRoutesOfAShardSentAloneDoNotMeetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &fakeStore{hold: make(chan struct{}), apart: true, node: func(keys.Partition) string { return "shard 1" }}
		space := keys.Space{Namespace: "n", Shards: 2}
		ofShard1 := func(app string) string {
			for i := 0; ; i++ {
				if k := fmt.Sprintf("%s:m:t:%d", app, i); space.Shard(k) == 1 {
					return k
				}
			}
		}

		s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: space})
		var all sync.WaitGroup
		for _, key := range []string{ofShard1("app1"), ofShard1("app1"), ofShard1("app1"), ofShard1("app3")} { // the first two are sent at once
			all.Go(func() {
				if _, err := s.Schedule(t.Context(), store.Request{Key: key}); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			})
			synctest.Wait()
		}

		close(st.hold)
		st.mu.Lock()
		st.hold = nil
		st.mu.Unlock()
		all.Wait()
		if trips := len(st.trips); trips != 5 {
			t.Errorf("%d round trips; want 2, then 1 of both routes, then 1 of each", trips)
		}
	})
}

// A shard that is sent separately delays no other shard: the other notices of the batch are
// answered, as are later ones, and its own when it can be written.
func TestWhatIsToBeSentApartHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := keys.Space{Namespace: "n", Shards: 2}
		var by [2][]string
		for i := 0; len(by[0]) < 4 || len(by[1]) < 4; i++ {
			k := fmt.Sprintf("app1:m:t:%d", i)
			by[space.Shard(k)] = append(by[space.Shard(k)], k)
		}
		st := &fakeStore{hold: make(chan struct{}), apart: true, away: make(chan struct{})}
		s := NewScheduler(SchedulerOptions{Store: st, Routes: table(t), Space: space})
		var answered [2]atomic.Int32
		var all sync.WaitGroup
		put := func(shard, i int) {
			all.Go(func() {
				if _, err := s.Schedule(t.Context(), store.Request{Key: by[shard][i]}); err != nil {
					t.Errorf("%s: %v", by[shard][i], err)
				}
				answered[shard].Add(1)
			})
			synctest.Wait()
		}
		for i := range 3 { // two trips are under way, and the rest gathers
			put(0, i)
		}
		put(1, 0)
		close(st.hold)
		st.mu.Lock()
		st.hold = nil
		st.mu.Unlock()
		synctest.Wait()
		put(1, 1)
		put(0, 3)
		if a, b := answered[0].Load(), answered[1].Load(); a != 4 || b != 0 {
			t.Errorf("%d of 4 of the other shard were answered, %d of those sent alone", a, b)
		}
		all.Go(func() {
			for i, r := range s.Many(t.Context(), []store.Request{{Key: by[0][0]}, {Key: by[1][2]}, {Key: by[1][3]}}) {
				if r.Err != nil || !r.Created {
					t.Errorf("%d of many: %v", i, r.Err)
				}
			}
		})
		synctest.Wait()
		close(st.away)
		all.Wait()
		if b := answered[1].Load(); b != 2 {
			t.Errorf("%d of 2 sent alone were answered", b)
		}
		st.mu.Lock()
		st.node = nil // many come together once more
		st.mu.Unlock()
		for i, r := range s.Many(t.Context(), []store.Request{{Key: by[0][0]}, {Key: by[1][2]}}) {
			if r.Err != nil || !r.Created {
				t.Errorf("%d of many, together: %v", i, r.Err)
			}
		}
		s.Close(t.Context())
	})
}
