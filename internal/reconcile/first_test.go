package reconcile

import (
	"slices"
	"testing"

	"notifier/internal/keys"
	"notifier/internal/store"
)

// cramped is a claimer with room for two notices.
type cramped struct{ *fake }

func (cramped) Room(keys.Partition) int { return 2 }

// Where there is no room for all due notices, the timers of first attempts are touched, and the first attempts that are left are hinted.
func TestFirstAttemptsAreTouchedFirst(t *testing.T) {
	s := NewSweeper(SweeperOptions{Dispatch: cramped{&fake{}}})
	timer := func(key string, repeated, none bool) store.Timer {
		return store.Timer{Key: key, Repeated: repeated, NoTimer: none}
	}
	for _, c := range []struct {
		due          []store.Timer
		names, first []string
	}{
		{[]store.Timer{timer("r1", true, false), timer("a", false, false)}, []string{"a", "r1"}, nil},
		{[]store.Timer{timer("r1", true, false), timer("r2", true, false), timer("a", false, false)}, []string{"a", "r1"}, nil},
		{[]store.Timer{timer("r1", true, false), timer("a", false, false), timer("b", false, true), timer("c", false, false),
			timer("d", false, false)}, []string{"a", "c"}, []string{"d"}},
	} {
		if names, first := s.touchable(c.due); !slices.Equal(names, c.names) || !slices.Equal(first, c.first) {
			t.Errorf("%v: touched %v, hinted %v; want %v and %v", c.due, names, first, c.names, c.first)
		}
	}
}
