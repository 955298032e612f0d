package history

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"notifier/internal/alarm"
	"notifier/internal/retry"
	"notifier/internal/store"
	"notifier/internal/tracing"
)

// Queue is what a Shipper needs of Redis.
type Queue interface {
	Hold(ctx context.Context, shard int, who store.Lease, done store.Confirmed) (store.Held, error)
	Endings(ctx context.Context, shard, from, n int) ([]string, error)
	Shed(ctx context.Context, shard, n int) (int, error)
	Memory(ctx context.Context, shard int) (used, most int64, err error)
	Waiting(ctx context.Context) ([]int64, error)
}

// Writer is what a Shipper needs of the database.
type Writer interface {
	Write(ctx context.Context, rows []Row) (Written, error)
	Expire(ctx context.Context, now time.Time) (int64, error)
	BuildIndexes(ctx context.Context) (int, error)
}

// ShipperOptions of a Shipper.
type ShipperOptions struct {
	Queue  Queue
	Writer Writer
	Shards int
	Bodies Bodies
	// Host is the host that the route of a prefix calls, for endings that do not
	// say; nil = none.
	Host func(prefix string) string
	// Most is the bound of the list, all shards together.
	Most int
	// Observer may be nil.
	Observer Observer
	// Tracer makes a span of each batch that is written. Nil: there are none.
	Tracer trace.Tracer
	Logger *zap.Logger
}

// Observer hears what a Shipper does. It must not block.
type Observer interface {
	HistoryRows(n int)
	HistoryFailed(kind string, n int)
}

// The kinds of failures, of which metrics.HistoryFailures is the list.
const (
	FailedDatabase = "database" // it did not take rows; they are kept and written again
	FailedRedis    = "redis"    // the list could not be read or shortened
	FailedRow      = "row"      // a row was written without what the database refused
	FailedEntry    = "entry"    // an entry of the list is no ending, and is dropped
	FailedMemory   = "memory"   // endings were dropped because Redis was short of memory
)

// Shipper brings what has ended from Redis to the database. Every instance runs
// one.
type Shipper struct {
	o      ShipperOptions
	token  string
	shards atomic.Pointer[[]*waits] // by shard
	more   chan struct{}            // there are more of them
	writes chan struct{}            // how many batches are written at a time
	down   atomic.Int64             // until when (Unix ns) the database is left alone
	each   atomic.Int64             // bytes of an entry, as last seen
	told   sometimes
	again  retry.Loop // of the database and of Redis
}

// waits are what a Shipper knows of a shard.
type waits struct {
	wake chan struct{}
	ends atomic.Int64 // what has ended here since the start

	// What watch, which alone uses them, last heard of the memory of the shard's Redis, and
	// when.
	used int64
	at   time.Time
}

// How a Shipper goes about it.
const (
	holdFor    = 10 * time.Second
	watchEvery = 2 * time.Second        // looks for what others have ended
	gather     = 200 * time.Millisecond // waits for more before it writes little
	burst      = 2000                   // endings within gather that are a burst
	mostCalm   = 3 * time.Second        // how long a burst is waited for
	batchRows  = 2000
	batchBytes = 4 << 20
	readRows   = 500 // a command's, so that it holds up nothing in Redis
	readBytes  = 256 << 10
	probeRows  = 16 // the first command of a batch
	leastWait  = 500 * time.Millisecond
	mostWait   = 15 * time.Second
	expireRate = time.Hour
	indexWait  = 10 * time.Second
	indexRetry = time.Minute
	warnEvery  = time.Minute
	freeShare  = 5 // a fifth of maxmemory stays free of endings
	entryBytes = 16
	muchWaits  = 10_000
	parallel   = 2
)

// NewShipper makes a Shipper. Run starts it.
func NewShipper(o ShipperOptions) *Shipper {
	s := &Shipper{o: o, token: rand.Text(), more: make(chan struct{}, 1), writes: make(chan struct{}, parallel)}
	s.again = retry.Loop{Min: leastWait, Max: mostWait, Logger: o.Logger, WarnEvery: warnEvery,
		Recovered: "endings get into the history again",
		Failure:   "endings do not get into the history; they are kept in Redis and it is repeated"}
	s.Grow(max(o.Shards, 1))
	return s
}

// Grow makes room for more shards. It is not called by two at a time.
func (s *Shipper) Grow(shards int) {
	var list []*waits
	if had := s.shards.Load(); had != nil {
		list = slices.Clone(*had)
	}
	for len(list) < shards {
		list = append(list, &waits{wake: make(chan struct{}, 1)})
	}
	s.shards.Store(&list)
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Wake says that n endings were handed over in a shard. It does not block.
func (s *Shipper) Wake(shard, n int) {
	shards := *s.shards.Load()
	if shard < 0 || shard >= len(shards) {
		return
	}
	shards[shard].ends.Add(int64(n))
	select {
	case shards[shard].wake <- struct{}{}:
	default:
	}
}

// Run ships until ctx ends, and returns nil. What is left then stays on its list
// for another instance, or for the next start.
func (s *Shipper) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() {
		for served := 0; ; {
			for shards := *s.shards.Load(); served < len(shards); served++ {
				shard := served
				wg.Go(func() { s.serve(ctx, shard, shards[shard]) })
			}
			select {
			case <-ctx.Done():
				return
			case <-s.more:
			}
		}
	})
	wg.Go(func() { s.expire(ctx) })
	wg.Go(func() { s.index(ctx) })
	s.watch(ctx)
	wg.Wait()
	return nil
}

// watch wakes the shards in which something waits, whoever has ended it.
func (s *Shipper) watch(ctx context.Context) {
	near := false // to the bound of memory
	for alarm.Wait(ctx, watchAfter(near)) {
		near = false
		waiting, err := s.o.Queue.Waiting(ctx)
		if err != nil {
			s.failed(ctx, FailedRedis, 1)
			continue
		}
		total := int64(0)
		for shard, n := range waiting {
			if total += n; n > 0 {
				s.Wake(shard, 0)
			}
			if n > 0 && (s.again.Failing() || n > muchWaits) {
				near = s.relieve(ctx, shard, time.Now()) || near
			}
		}
		if most := int64(s.o.Most); total > most/2 {
			s.told.warn(s.o.Logger, "the history's database is behind: Redis holds more than half of what NOTIFIER_HISTORY_BACKLOG lets it; "+
				"beyond it the oldest endings get no row",
				zap.Int64("waiting", total), zap.Int64("bound", most))
		}
	}
}

// watchAfter is how long it is until the next look. Near the bound of memory Redis may
// be full before long.
func watchAfter(near bool) time.Duration {
	if near {
		return gather
	}
	return watchEvery + mathrand.N(watchEvery/4)
}

func (s *Shipper) serve(ctx context.Context, shard int, l *waits) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		if left := time.Until(time.Unix(0, s.down.Load())); left > 0 {
			if !alarm.Wait(ctx, left) {
				return
			}
		}
		if !l.calm(ctx) {
			return
		}
		if err := s.Ship(ctx, shard); err != nil && ctx.Err() == nil {
			s.Wake(shard, 0) // it is tried again
		}
	}
}

// calm waits for more to write at once, and while so much ends here that it would
// take processor time from deliveries; it returns false if ctx ends.
func (l *waits) calm(ctx context.Context) bool {
	for until := time.Now().Add(mostCalm); ; {
		before := l.ends.Load()
		if !alarm.Wait(ctx, gather) {
			return false
		}
		if l.ends.Load()-before < burst || time.Now().After(until) {
			return true
		}
	}
}

// Ship brings what waits in a shard, until nothing is left or another holds it.
func (s *Shipper) Ship(ctx context.Context, shard int) error {
	var done store.Confirmed
	for ctx.Err() == nil {
		held, err := s.o.Queue.Hold(ctx, shard, store.Lease{Token: s.token, For: holdFor}, done)
		if err != nil {
			s.failed(ctx, FailedRedis, 1)
			s.back(ctx, err)
			return err
		}
		if !held.Ours || held.Left == 0 {
			return nil
		}
		texts, err := s.read(ctx, shard)
		if err != nil {
			s.failed(ctx, FailedRedis, 1)
			s.back(ctx, err)
			return err
		}
		if len(texts) == 0 {
			return nil
		}
		if err := s.write(ctx, texts); err != nil {
			s.failed(ctx, FailedDatabase, 1)
			s.back(ctx, err)
			// Another may reach the database although this one does not.
			_, _ = s.o.Queue.Hold(context.WithoutCancel(ctx), shard, store.Lease{Token: s.token}, store.Confirmed{})
			return err
		}
		s.again.Succeed()
		done = store.Confirmed{N: len(texts), Last: texts[len(texts)-1]}
	}
	if done.N > 0 { // the database has it: it need not be written again after a stop
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = s.o.Queue.Hold(last, shard, store.Lease{Token: s.token}, done)
	}
	return nil
}

// read reads a batch from the beginning of a shard's list, in commands that each
// ask for little.
func (s *Shipper) read(ctx context.Context, shard int) ([]string, error) {
	var all []string
	size := 0
	for n := probeRows; len(all) < batchRows && size < batchBytes; {
		part, err := s.o.Queue.Endings(ctx, shard, len(all), min(n, batchRows-len(all)))
		if err != nil {
			return nil, err
		}
		for _, text := range part {
			size += len(text) + entryBytes
		}
		all = append(all, part...)
		if len(part) < n {
			break
		}
		n = max(1, min(readRows, readBytes*len(all)/size))
	}
	if len(all) > 0 {
		s.each.Store(int64(size / len(all)))
	}
	return all, nil
}

func (s *Shipper) write(ctx context.Context, texts []string) error {
	select {
	case s.writes <- struct{}{}:
		defer func() { <-s.writes }()
	case <-ctx.Done():
		return ctx.Err()
	}
	rows := make([]Row, 0, len(texts))
	for _, text := range texts {
		e, err := store.ReadEnded(text)
		if err != nil {
			s.failed(ctx, FailedEntry, 1)
			s.o.Logger.Error("an entry of the list of endings cannot be read, and is dropped", zap.Error(err))
			continue
		}
		if e.Host == "" && s.o.Host != nil {
			e.Host = s.o.Host(e.Route)
		}
		rows = append(rows, rowOf(e, s.o.Bodies))
	}
	under, span := tracing.Step(ctx, s.o.Tracer, "history write", tracing.DBOperation.String("INSERT"), tracing.DBBatch.Int(len(rows)))
	w, err := s.o.Writer.Write(under, rows)
	tracing.End(span, err, FailedDatabase)
	if err != nil {
		return err
	}
	if w.Bare > 0 {
		s.failed(ctx, FailedRow, w.Bare)
		s.o.Logger.Error("rows were written without what the history's database refused of them", zap.Int("rows", w.Bare))
	}
	if s.o.Observer != nil && w.Rows > 0 {
		s.o.Observer.HistoryRows(w.Rows)
	}
	return nil
}

// back leaves the database alone for a while, longer each time.
func (s *Shipper) back(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	wait := s.again.Fail(err)
	if errors.Is(err, ErrNewer) || errors.Is(err, ErrForeign) {
		wait = mostWait
	}
	s.down.Store(time.Now().Add(wait).UnixNano())
}

// relieve drops the oldest endings of a shard that the database does not take
// while its Redis has less than a fifth of its memory left; near reports whether that may
// be so before the next look.
func (s *Shipper) relieve(ctx context.Context, shard int, now time.Time) (near bool) {
	// One at a time, or each would drop as much.
	held, err := s.o.Queue.Hold(ctx, shard, store.Lease{Token: s.token, For: holdFor}, store.Confirmed{})
	if err != nil || !held.Ours {
		return false
	}
	used, most, err := s.o.Queue.Memory(ctx, shard)
	if err != nil || most <= 0 {
		return false
	}
	near = (*s.shards.Load())[shard].fills(used, most-most/freeShare, now)
	over := used - (most - most/freeShare)
	if over <= 0 {
		return near
	}
	n, err := s.o.Queue.Shed(ctx, shard, int(over/cmp.Or(s.each.Load(), 500))+1)
	if err != nil {
		s.failed(ctx, FailedRedis, 1)
	}
	if n > 0 {
		s.failed(ctx, FailedMemory, n)
		s.told.warn(s.o.Logger, "Redis has less than a fifth of its maxmemory left and the history's database takes nothing: "+
			"the oldest endings are dropped and get no row", zap.Int("dropped", n))
	}
	return true
}

// fills reports whether Redis, which uses so much of its memory now, may have passed the
// bound before it is asked again: if it goes on as since it was asked last, or has an
// eighth left to it. It may too where nobody has asked of late.
func (l *waits) fills(used, bound int64, now time.Time) bool {
	had, since := l.used, now.Sub(l.at)
	l.used, l.at = used, now
	if since > 2*watchEvery {
		return true
	}
	grown := float64(used-had) / since.Seconds() * (2 * watchEvery).Seconds()
	return float64(used)+max(grown, float64(bound)/8) > float64(bound)
}

func (s *Shipper) expire(ctx context.Context) {
	for alarm.Wait(ctx, mathrand.N(time.Minute)) {
		gone, err := s.o.Writer.Expire(ctx, time.Now())
		switch {
		case err != nil && ctx.Err() == nil:
			s.o.Logger.Debug("history older than its retention could not be dropped; it is repeated", zap.Error(err))
		case gone > 0:
			s.o.Logger.Info("dropped history older than its retention", zap.Int64("partitions_or_rows", gone))
		}
		if !alarm.Wait(ctx, expireRate) {
			return
		}
	}
}

// index builds what indexes the history lacks, once: a new partition has them all.
func (s *Shipper) index(ctx context.Context) {
	for alarm.Wait(ctx, mathrand.N(indexWait)) {
		built, err := s.o.Writer.BuildIndexes(ctx)
		if built > 0 {
			s.o.Logger.Info("built indexes by webhook-id", zap.Int("partitions", built))
		}
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			s.o.Logger.Debug("cannot build indexes of the history, retrying", zap.Error(err))
		}
		if !alarm.Wait(ctx, indexRetry) {
			return
		}
	}
}

func (s *Shipper) failed(ctx context.Context, kind string, n int) {
	if s.o.Observer != nil && ctx.Err() == nil {
		s.o.Observer.HistoryFailed(kind, n)
	}
}

// sometimes writes the same warning once in a while.
type sometimes struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (s *sometimes) warn(l *zap.Logger, text string, fields ...zap.Field) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]time.Time{}
	}
	if time.Since(s.last[text]) < warnEvery {
		return
	}
	s.last[text] = time.Now()
	l.Warn(text, fields...)
}
