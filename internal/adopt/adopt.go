package adopt

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Store is what adoption needs of Redis.
type Store interface {
	Peek(ctx context.Context, prefix string, shard int, ks []string, maxBody int64) (now time.Time, seen []store.Seen, looked int, err error)
	Adopt(ctx context.Context, prefix string, shard int, list []store.Adoption) ([]bool, error)
	Unknown(ctx context.Context, prefix string, shard int, ks []string, late time.Duration) (none, old []string, err error)
	Schedule(ctx context.Context, prefix string, shard int, reqs []store.Request) ([]store.Reply, error)
	Timers(ctx context.Context, masters func(context.Context, func(context.Context, *redis.Client) error) error, pattern string, n int64,
		f func(ctx context.Context, ks []string) error) error
}

// Options of an Adopter.
type Options struct {
	Store  Store
	Routes *route.Table
	Space  keys.Space
	// Masters calls f for each master of a cluster; nil outside a cluster.
	Masters func(ctx context.Context, f func(ctx context.Context, c *redis.Client) error) error
	// MaxBody is the longest payload that is kept.
	MaxBody int64
	// Adopted counts new notices of a route.
	Adopted func(route string, n int)
	// Lost counts, among those, notices whose body was lost.
	Lost func(route string, n int)
	// Every is how often all keys are looked at without a reason; zero = 1 m. It
	// is less often where a look takes long: see share.
	Every time.Duration
	// Events tells whether events are known to come; where they are known not
	// to, keys are looked at each second. Nil means that they come.
	Events func() bool
	Logger *zap.Logger
}

// Adopter follows plain timers. Event and Scan may be called from anywhere and
// never block; one goroutine runs Run.
type Adopter struct {
	o        Options
	prefixes []string // that cover all routes that adopt

	wake chan struct{}
	mu   sync.Mutex
	heap map[string]told // keys to look at
	scan bool
	lost int // expired keys there was no room for
}

// The bounds of what is kept in memory and of one call. Expired keys have room
// of their own: what is dropped there is found by no scan.
const (
	room        = 1 << 16
	roomExpired = 1 << 18
	batch       = 48 // so that no call holds Redis up for longer than about half a millisecond
	scanBatch   = 500
	confirm     = 250 * time.Millisecond
	callLimit   = 5 * time.Second
	blind       = time.Second // between looks where no events come
	// late is how long after its notice has ended a timer's event may still
	// come. Timers are touched when their notices are claimed, so it is seconds.
	late = 5 * time.Minute
)

// share bounds what looks without a reason cost: a fiftieth of the time. Events
// are lost on occasions that are known and looked after at once; this is for those
// that are not.
const share = 50

// New makes an Adopter. Without a route that adopts it does nothing.
func New(o Options) *Adopter {
	if o.Every == 0 {
		o.Every = time.Minute
	}
	if o.Events == nil {
		o.Events = func() bool { return true }
	}
	a := &Adopter{o: o, wake: make(chan struct{}, 1), heap: map[string]told{}}
	for _, r := range o.Routes.All() {
		if r.Adopt && !slices.ContainsFunc(o.Routes.All(), func(b *route.Route) bool { return b.Adopt && keys.HasPrefix(r.Prefix, b.Prefix) }) {
			a.prefixes = append(a.prefixes, r.Prefix)
		}
	}
	return a
}

// Event takes a keyspace event of a key of a route that adopts.
func (a *Adopter) Event(_ *route.Route, key, event string) {
	if t, ok := hear(event); ok {
		a.tell(key, t)
	}
}

// Stale takes keys whose expired events led to no claim. Where the notice is
// pending for later, its owner has shortened the timer's life and it was over
// before anybody looked: the notice is due now.
func (a *Adopter) Stale(r *route.Route, keys []string) {
	if !r.Adopt {
		return
	}
	for _, k := range keys {
		a.tell(k, told{event: true, expired: true})
	}
}

func (a *Adopter) tell(key string, t told) {
	a.mu.Lock()
	switch known, there := a.heap[key]; {
	case there:
		a.heap[key] = known.and(t)
	case len(a.heap) < room || t.expired && len(a.heap) < roomExpired:
		a.heap[key] = t
	case t.expired:
		a.lost++
	default:
		a.scan = true
	}
	a.mu.Unlock()
	a.rouse()
}

// Scan asks for a look at all keys: events may have been missed.
func (a *Adopter) Scan() {
	a.mu.Lock()
	a.scan = true
	a.mu.Unlock()
	a.rouse()
}

func (a *Adopter) rouse() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run adopts until ctx ends, and returns nil.
func (a *Adopter) Run(ctx context.Context) error {
	if len(a.prefixes) == 0 {
		<-ctx.Done()
		return nil
	}
	failures := 0
	next := time.Now().Add(a.o.Every)
	for ctx.Err() == nil {
		err := a.drain(ctx)
		if err == nil && a.wanted(&next) {
			from := time.Now()
			if err = a.look(ctx); err != nil {
				a.Scan()
			}
			if later := time.Now().Add(share * time.Since(from)); later.After(next) {
				next = later
			}
		}
		if err != nil && ctx.Err() == nil {
			if failures++; failures == 1 {
				a.o.Logger.Warn("adoption failed; it is repeated", zap.Error(err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(min(20*time.Millisecond<<min(failures, 6), time.Second)):
			}
			continue
		}
		failures = 0
		select {
		case <-ctx.Done():
		case <-a.wake:
		case <-time.After(time.Until(next)):
		}
	}
	return nil
}

// wanted tells whether a scan was asked for or has its turn. The turns of
// instances are kept apart.
func (a *Adopter) wanted(next *time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.scan && time.Now().Before(*next) {
		return false
	}
	a.scan = false
	every := a.o.Every
	if !a.o.Events() {
		every = min(every, blind)
	}
	*next = time.Now().Add(every + rand.N(every/4+1))
	return true
}

// drain looks at the keys that events named, until none is left.
func (a *Adopter) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		a.mu.Lock()
		some := a.heap
		a.heap = map[string]told{}
		lost := a.lost
		a.lost = 0
		a.mu.Unlock()
		if lost > 0 {
			a.o.Logger.Error("expired timers came faster than they could be looked at; those that were not adopted before are not delivered",
				zap.Int("timers", lost))
		}
		if len(some) == 0 {
			return nil
		}
		if err := a.handle(ctx, some); err != nil {
			a.mu.Lock()
			for k, t := range some {
				a.heap[k] = a.heap[k].and(t)
			}
			a.mu.Unlock()
			return err
		}
	}
	return nil
}

// look scans all keys, and meanwhile what events name.
func (a *Adopter) look(ctx context.Context) error {
	for _, p := range a.prefixes {
		err := a.o.Store.Timers(ctx, a.o.Masters, p+":*", scanBatch, func(ctx context.Context, ks []string) error {
			some := make(map[string]told, len(ks))
			for _, k := range ks {
				some[k] = told{}
			}
			if err := a.handle(ctx, some); err != nil {
				return err
			}
			return a.drain(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// place is a route and shard.
type place struct {
	route *route.Route
	shard int
}

// handle looks at keys, route by route.
func (a *Adopter) handle(ctx context.Context, some map[string]told) error {
	by := map[place][]string{}
	for k := range some {
		if !keys.Valid(k) {
			continue
		}
		if r := a.o.Routes.Match(k); r != nil && r.Adopt {
			p := place{r, a.o.Space.Shard(k)}
			by[p] = append(by[p], k)
		}
	}
	for p, ks := range by {
		for part := range slices.Chunk(ks, batch) {
			if err := a.part(ctx, p, part, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// part looks at some keys of one place and does what is to be done. What
// changes while it is looked at is looked at again; what changes all the time
// sends events all the time.
func (a *Adopter) part(ctx context.Context, p place, ks []string, what map[string]told) error {
	tries := 3
	var todo, expired []string
	for _, k := range ks {
		t := what[k]
		if t.expired {
			expired = append(expired, k)
		}
		if t.event || !t.expired {
			todo = append(todo, k)
		}
	}
	for len(todo) > 0 && tries > 0 {
		tries--
		again, err := a.once(ctx, p, todo, what)
		if err != nil {
			return err
		}
		todo = again
	}
	return a.missed(ctx, p, expired)
}

// once looks at each key one time, and returns those that have changed
// meanwhile.
func (a *Adopter) once(ctx context.Context, p place, ks []string, what map[string]told) (again []string, err error) {
	for len(ks) > 0 {
		list, looked, err := a.peek(ctx, p, ks, what)
		if err != nil {
			return nil, err
		}
		ks = ks[min(max(looked, 1), len(ks)):]
		if a.o.Masters != nil {
			if list, err = a.sure(ctx, p, list, what); err != nil {
				return nil, err
			}
		}
		if len(list) == 0 {
			continue
		}
		cctx, cancel := context.WithTimeout(ctx, callLimit)
		done, err := a.o.Store.Adopt(cctx, p.route.Prefix, p.shard, list)
		cancel()
		if err != nil {
			return nil, err
		}
		n, lost := 0, 0
		for i := range list {
			switch {
			case !done[i]:
				again = append(again, list[i].Key)
			case list[i].Op == store.OpAdopt:
				n++
				if list[i].Content.Lost {
					lost++
				}
			}
		}
		a.count(p, n, lost)
	}
	return again, nil
}

func (a *Adopter) peek(ctx context.Context, p place, ks []string, what map[string]told) ([]store.Adoption, int, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	now, seen, looked, err := a.o.Store.Peek(ctx, p.route.Prefix, p.shard, ks, a.o.MaxBody)
	if err != nil {
		return nil, 0, err
	}
	var list []store.Adoption
	for i := range seen {
		s := &seen[i]
		op := decide(s, what[s.Key], now, a.o.Masters != nil)
		if op == "" {
			continue
		}
		x := store.Adoption{Seen: *s, Op: op}
		if op == store.OpAdopt {
			x.Content = notice.Content{Body: s.Value, Lost: s.Value == nil}
			if err := x.Content.Check(); err != nil {
				a.o.Logger.Error("a timer cannot be adopted", zap.String("key", s.Key), zap.Error(err))
				continue
			}
			if x.Content.Lost {
				a.o.Logger.Error("a timer's payload is longer than NOTIFIER_MAX_BODY; its notice has no body", zap.String("key", s.Key),
					zap.Int64("bytes", s.Length), zap.Int64("limit", a.o.MaxBody))
			}
		}
		list = append(list, x)
	}
	return list, looked, nil
}

// sure looks a second time at what would be cancelled, because in a cluster a
// timer may be about to be set.
func (a *Adopter) sure(ctx context.Context, p place, list []store.Adoption, what map[string]told) ([]store.Adoption, error) {
	var doubtful []string
	rest := list[:0:0]
	for _, x := range list {
		if x.Op == store.OpCancel {
			doubtful = append(doubtful, x.Key)
		} else {
			rest = append(rest, x)
		}
	}
	if len(doubtful) == 0 {
		return list, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(confirm):
	}
	second, _, err := a.peek(ctx, p, doubtful, what)
	return append(rest, second...), err
}

// missed makes notices of timers that have expired and were never adopted.
func (a *Adopter) missed(ctx context.Context, p place, expired []string) error {
	if len(expired) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	unknown, old, err := a.o.Store.Unknown(ctx, p.route.Prefix, p.shard, expired, late)
	if err != nil {
		return err
	}
	if len(old) > 0 && a.o.Masters == nil {
		if err := a.again(ctx, p, old); err != nil {
			return err
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	// Keep: whatever has become known meanwhile stays as it is.
	reqs := make([]store.Request, len(unknown))
	for i, k := range unknown {
		reqs[i] = store.Request{Key: k, OnDuplicate: store.Keep, Content: notice.Content{Lost: true}}
	}
	replies, err := a.o.Store.Schedule(ctx, p.route.Prefix, p.shard, reqs)
	if err != nil {
		return err
	}
	n := 0
	for i := range replies {
		if replies[i].Created {
			n++
		}
	}
	a.noBody(p, n, unknown[0])
	return nil
}

// again makes notices of timers that have expired, were never adopted, and bear
// the name of a notice that ended long ago. In a cluster, where a cancelled
// notice's own timer may have been left over, they are not told apart.
func (a *Adopter) again(ctx context.Context, p place, old []string) error {
	now, seen, _, err := a.o.Store.Peek(ctx, p.route.Prefix, p.shard, old, a.o.MaxBody)
	if err != nil {
		return err
	}
	var list []store.Adoption
	for _, s := range seen {
		// One that is there by now has events of its own.
		if s.Length == store.NoTimer && s.Notice != nil && !s.SettledAt.IsZero() && now.Sub(s.SettledAt) >= late {
			s.Expire = now.UnixMilli() - 1
			list = append(list, store.Adoption{Seen: s, Op: store.OpAdopt, Content: notice.Content{Lost: true}})
		}
	}
	if len(list) == 0 {
		return nil
	}
	done, err := a.o.Store.Adopt(ctx, p.route.Prefix, p.shard, list)
	if err != nil {
		return err
	}
	n := 0
	for _, ok := range done {
		if ok {
			n++
		}
	}
	a.noBody(p, n, list[0].Key)
	return nil
}

func (a *Adopter) noBody(p place, n int, one string) {
	a.count(p, n, n)
	if n > 0 {
		a.o.Logger.Warn("timers expired before they could be adopted; their notices are delivered without a body",
			zap.String("route", p.route.Name), zap.Int("notices", n), zap.String("one_of_them", one))
	}
}

func (a *Adopter) count(p place, adopted, lost int) {
	if adopted > 0 {
		a.o.Adopted(p.route.Name, adopted)
	}
	if lost > 0 {
		a.o.Lost(p.route.Name, lost)
	}
}
