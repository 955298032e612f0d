package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/pace"
	"notifier/internal/store"
)

var errDown = errors.New("redis is down")

const testGrace = 50 * time.Millisecond

type pending struct {
	key   string
	at    time.Time // by its clock
	bare  bool
	stuck bool // its timer does not expire: an instance wrote over it
}

// sim is a Redis with a different clock, and the dispatch behind it. Each claim is recorded with
// its start delay.
type sim struct {
	t      *testing.T
	mu     sync.Mutex
	offset time.Duration // its clock minus ours
	trip   time.Duration // one way
	down   error
	room   int
	deaf   bool     // events are lost
	off    bool     // events are known not to come
	dead   bool     // no subscription
	groups []string // that were touched together
	group  int
	rank   int             // how many other instances come first
	owner  string          // of all; empty = each has a separate one
	leftBy map[string]bool // instances that left touched notices unclaimed
	over   int             // times that it was said that those who come first do nothing

	ends    []time.Time // when notices expire
	asked   int         // inspections that asked for that
	expires int         // calls of Expire
	stuck   bool        // Expire changes nothing

	list    []pending
	looks   int
	touches map[string]int
	hinted  []string // by HintFirst
	most    int      // keys of one touch
	late    map[string]time.Duration
	inLook  func() // called when a look was answered, before the answer arrives
}

func newSim(t *testing.T) *sim {
	return &sim{t: t, trip: 100 * time.Microsecond, room: 64, touches: map[string]int{}, late: map[string]time.Duration{},
		leftBy: map[string]bool{}}
}

func (s *sim) now() time.Time { return time.Now().Add(s.offset) }

func (s *sim) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// add schedules a notice that is due in d.
func (s *sim) add(key string, d time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.now().Add(d).Truncate(time.Millisecond)
	s.list = append(s.list, pending{key: key, at: at})
	slices.SortStableFunc(s.list, func(a, b pending) int { return a.at.Compare(b.at) })
	return at
}

// claim claims the notices that pick selects. The caller holds mu.
func (s *sim) claim(pick func(p pending) bool) {
	s.list = slices.DeleteFunc(s.list, func(p pending) bool {
		if s.room == 0 || !pick(p) {
			return false
		}
		if p.at.After(s.now()) {
			s.t.Errorf("%s was claimed %s early", p.key, p.at.Sub(s.now()))
		}
		s.late[p.key] = s.now().Sub(p.at)
		return true
	})
}

func (s *sim) Inspect(_ context.Context, l store.Look, _ bool) (store.View, error) {
	time.Sleep(s.trip)
	defer time.Sleep(s.trip)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if l.Expiring {
		s.asked++
	}
	if s.down != nil {
		return store.View{}, s.down
	}
	v := store.View{Now: s.now()}
	for _, p := range s.list {
		beyond := p.at.After(v.Now.Add(l.Ahead))
		switch {
		case !p.at.After(v.Now.Add(-l.Grace)):
			v.Overdue++
		case len(v.Near) < l.Limit:
			v.Near = append(v.Near, store.Timer{Key: p.key, At: p.at, NoTimer: p.bare})
		}
		if beyond {
			break
		}
	}
	if l.Expiring && len(s.ends) > 0 {
		v.Expires = slices.MinFunc(s.ends, time.Time.Compare)
	}
	v.Cut = len(v.Near) >= l.Limit
	if v.Cut && !v.Near[l.Limit-1].At.After(v.Now) {
		v.Gap = true
		for _, p := range s.list {
			if p.at.After(v.Now) && !p.at.After(v.Now.Add(l.Ahead)) && len(v.Near) < l.Limit+64 {
				v.Near = append(v.Near, store.Timer{Key: p.key, At: p.at, NoTimer: p.bare})
			}
		}
	}
	if s.inLook != nil {
		f := s.inLook
		s.inLook = nil
		s.mu.Unlock()
		f()
		s.mu.Lock()
	}
	return v, nil
}

func (s *sim) TouchGroups(ctx context.Context, prefix string, list []store.TouchGroup) (left int, err error) {
	for _, g := range list {
		s.do(func() { s.groups = append(s.groups, fmt.Sprint(prefix, " ", g.For, " ", g.Keys)) })
		got, err := s.Touch(ctx, g.Keys)
		if err != nil {
			return 0, err
		}
		left += got.Left
	}
	return left, nil
}

func (s *sim) Touch(_ context.Context, ks []string) (store.Touched, error) {
	time.Sleep(s.trip)
	defer time.Sleep(s.trip)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return store.Touched{}, s.down
	}
	s.most = max(s.most, len(ks))
	left := 0
	for _, k := range ks {
		s.touches[k]++
		if i := slices.IndexFunc(s.list, func(p pending) bool { return p.key == k }); i >= 0 && (s.list[i].stuck || s.list[i].at.After(s.now())) {
			left++
		} else if !s.deaf {
			s.claim(func(p pending) bool { return p.key == k })
		}
	}
	return store.Touched{Left: left}, nil
}

func (s *sim) Sweep(keys.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	grace := testGrace
	if s.off {
		grace = 0
	}
	s.claim(func(p pending) bool { return !p.at.After(s.now().Add(-grace)) || p.bare && !p.at.After(s.now()) })
}

func (s *sim) SweepDue(keys.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claim(func(p pending) bool { return !p.at.After(s.now()) })
}

func (s *sim) HintFirst(p keys.Partition, ks []string) {
	s.do(func() { s.hinted = append(s.hinted, ks...) })
	s.SweepDue(p)
}

// Expire removes what has expired, after a while as dispatch does.
func (s *sim) Expire(keys.Partition) {
	s.do(func() { s.expires++ })
	time.AfterFunc(s.trip, func() {
		s.do(func() {
			if s.stuck {
				return
			}
			s.ends = slices.DeleteFunc(s.ends, func(at time.Time) bool {
				if at.After(s.now()) {
					return false
				}
				s.late[fmt.Sprint("expiry ", len(s.late))] = s.now().Sub(at)
				return true
			})
		})
	})
}

func (s *sim) Room(keys.Partition) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room
}

func (s *sim) is(b *bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *b
}

// Subscribed implements Events.
func (s *sim) Subscribed() bool                { return !s.is(&s.dead) }
func (s *sim) Flowing(int) bool                { return !s.is(&s.off) }
func (*sim) Touched(context.Context, []string) {}

// Rank implements Assignment.
func (s *sim) Rank(keys.Partition) (rank int) {
	s.do(func() { rank = s.rank })
	return rank
}

func (*sim) Alive() int { return 1 }

func (s *sim) Group(keys.Partition) (group int) {
	s.do(func() { group = s.group })
	return group
}

func (s *sim) Owner(_ keys.Partition, key string) (id string) {
	s.do(func() { id = cmp.Or(s.owner, "who gets "+key) })
	return id
}

// NotClaimedBy implements Peers.
func (s *sim) NotClaimedBy(id string)  { s.do(func() { s.leftBy[id] = true }) }
func (s *sim) NotSwept(keys.Partition) { s.do(func() { s.over++ }) }

// worst returns the greatest start delay and the number of claims.
func (s *sim) worst() (d time.Duration, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.late {
		d = max(d, l)
	}
	return d, len(s.late)
}

// counted returns the number of inspections during f.
func (s *sim) counted(d time.Duration) int {
	s.mu.Lock()
	before := s.looks
	s.mu.Unlock()
	time.Sleep(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks - before
}

// within runs f next to a Sweeper, in virtual time.
func within(t *testing.T, f func(t *testing.T, s *sim, w *Sweeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t)
		w := NewSweeper(SweeperOptions{Store: s, Dispatch: s, Partition: keys.Partition{Prefix: "a"}, Grace: testGrace, Events: s, Assignment: s,
			Peers: s,
			Alarm: pace.Portable, Logger: zap.NewNop()})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(time.Second)
		f(t, s, w)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
