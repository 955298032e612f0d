package jobs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"notifier/internal/history"
	"notifier/internal/keys"
)

// shelf is a Journal of replays that never end.
type shelf struct {
	Journal
	mu   sync.Mutex
	list []history.Replay // not driven
	took map[string]int   // by client
}

func (s *shelf) TakeReplay(_ context.Context, _ string, _ time.Duration, except []string) (history.Replay, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	i := slices.IndexFunc(s.list, func(r history.Replay) bool { return !slices.Contains(except, r.Client) })
	if i < 0 {
		return history.Replay{}, false, nil
	}

	r := s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	s.took[r.Client]++
	return r, true, nil
}

func (s *shelf) LeaveReplay(context.Context, string, string) error { return nil }

func (s *shelf) ReplayItems(ctx context.Context, _ string, _ int64, _ int) ([]history.ReplayItem, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// sender is a Sender of a Redis that no migration has filled.
type sender struct{ Sender }

func (sender) CameSince(time.Time) bool { return false }

// Slow replays of one client leave room for those of another.
func TestReplaysOfAClientDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{took: map[string]int{}}
		about := history.ReplayAbout{Rate: 1, Shards: 1}
		for i := range 3 * atOnce {
			s.list = append(s.list, history.Replay{ID: fmt.Sprint(i), Client: "a", ReplayAbout: about})
		}
		s.list = append(s.list, history.Replay{ID: "last", Client: "b", ReplayAbout: about})
		d := NewReplayer(ReplayerOptions{Journal: s, Sender: sender{}, Space: keys.Space{Namespace: "notifier", Shards: 1}, Logger: zap.NewNop()})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		synctest.Wait()
		s.mu.Lock()
		if s.took["a"] != atOnce || s.took["b"] != 1 {
			t.Errorf("driven: %v", s.took)
		}
		s.mu.Unlock()
		stop()
		if err := <-ended; err != nil || len(d.driving) != 0 {
			t.Errorf("%v, %v", err, d.driving)
		}
	})
}
