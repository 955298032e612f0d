package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Redis with timers whose notices are never claimed.
type fake struct {
	timers  []store.Timer
	touched chan string
}

func (f *fake) Inspect(_ context.Context, l store.Look, _ bool) (store.View, error) {
	v := store.View{Now: time.Now()}
	for _, t := range f.timers {
		later := t.At.After(v.Now.Add(l.Ahead))
		if later && len(v.Near) > 0 && v.Near[len(v.Near)-1].At.After(v.Now) {
			break
		}
		v.Near = append(v.Near, t)
		if later {
			break
		}
	}
	return v, nil
}

func (f *fake) Touch(_ context.Context, ks []string) (store.Touched, error) {
	for _, k := range ks {
		f.touched <- k
	}
	return store.Touched{}, nil
}

func (*fake) TouchGroups(context.Context, string, []store.TouchGroup) (int, error) { return 0, nil }
func (*fake) Sweep(keys.Partition)                                                 {}
func (*fake) SweepDue(keys.Partition)                                              {}
func (*fake) HintFirst(keys.Partition, []string)                                   {}
func (*fake) Expire(keys.Partition)                                                {}
func (*fake) Room(keys.Partition) int                                              { return 64 }
func (*fake) Due(_ keys.Partition, ks []string, _ string) []string                 { return ks }

// flowing are events that arrive.
type flowing struct{}

func (flowing) Subscribed() bool                  { return true }
func (flowing) Flowing(int) bool                  { return true }
func (flowing) Touched(context.Context, []string) {}

func (f *fake) keys() (ks []string) {
	for _, t := range f.timers {
		ks = append(ks, t.Key)
	}
	return ks
}

// Each timer is touched at its due time, while the notices of earlier ones still wait for their
// claims. The grace of this test is so long that waiting for a claim would take forever.
func TestTouchesContinueBeforeClaims(t *testing.T) {
	f := &fake{touched: make(chan string, 64)}
	at := time.Now().Add(20 * time.Millisecond)
	for i, gap := range []time.Duration{0, 1, 3, 30, 4, 20, 20, 2, 40} {
		at = at.Add(gap * time.Millisecond)
		f.timers = append(f.timers, store.Timer{Key: string(rune('a' + i)), At: at})
	}
	s := NewSweeper(SweeperOptions{Store: f, Dispatch: f, Partition: keys.Partition{Prefix: "app1"}, Grace: time.Hour,
		Events: flowing{}, Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	var got []string
	for len(got) < len(f.timers) {
		got = append(got, testkit.Next(t, fmt.Sprintf("more than %v are touched", got), f.touched))
	}
	if !slices.Equal(got, f.keys()) {
		t.Errorf("touched %v, want %v", got, f.keys())
	}
}
