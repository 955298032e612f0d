package move

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// scheduleMany schedules notices that are due in an hour, numbered from one on.
func scheduleMany(t *testing.T, s Redis, from, n int) {
	t.Helper()
	by := map[keys.Partition][]store.Request{}
	for i := from; i < from+n; i++ {
		r := store.Request{Key: fmt.Sprintf("app1:a:b:%d", i), Delay: time.Hour, Content: notice.Content{Body: []byte("1")}}
		p := s.Space().Partition(prefix, r.Key)
		by[p] = append(by[p], r)
	}
	for p, list := range by {
		if _, err := s.Store.Schedule(t.Context(), p, list); err != nil {
			t.Fatal(err)
		}
	}
}

// Both sides refuse calls between two steps: the one that closes the old side and the one that opens
// the new one. The number of steps between them does not depend on how many notices move, only on
// how many were scheduled since the last pass. A step is a few calls of scripts, so 40 of them take
// less than a second.
func TestBothSidesRefuseForFewSteps(t *testing.T) {
	t.Parallel()
	const most, perStep = 40, 3 // 1,000 notices a second at 3 ms a step
	for _, n := range []int{500, 4000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			a, b, old, _ := two(t, 3)
			scheduleMany(t, old, 0, n)

			next, closed, opened, refused := n, false, false, 0
			m := newMigrator(migration(t, a, b))
			m.hook = hook(func(name string, do func() error) error {
				switch {
				case name == string(store.SideLeft):
					closed = true
				case name == string(store.SideOpened):
					opened = true
				case closed && !opened:
					refused++
				case name == "export" && !closed:
					scheduleMany(t, old, next, perStep)
					next += perStep
				}
				return do()
			})
			done, err := m.migrate(t.Context())
			if err != nil || done.Moved != next || !done.Open {
				t.Fatalf("%+v, %v, want %d moved", done, err, next)
			}
			t.Logf("%d notices: both sides refused for %d of the steps, %d ms", next, refused, done.RefusedMS)
			if refused == 0 || refused > most {
				t.Errorf("both sides refused for %d steps, want 1 to %d", refused, most)
			}
		})
	}
}
