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

	"notifier/internal/pace"
	"notifier/internal/store"
	"notifier/internal/tracing"
)

// Queue is the part of Redis that a Shipper needs.
type Queue interface {
	Hold(ctx context.Context, shard int, who Holder, done Confirmed) (Held, error)
	Entries(ctx context.Context, shard, from, n int) ([]string, error)
	Shed(ctx context.Context, shard, n int) (int, error)
	Memory(ctx context.Context, shard int) (used, most int64, err error)
	Lengths(ctx context.Context) ([]int64, error)
	Now(ctx context.Context) (time.Time, error) // by Redis's clock
}

// Writer is the part of the database that a Shipper needs.
type Writer interface {
	Write(ctx context.Context, rows []Row) (Written, error)
	Expire(ctx context.Context, now time.Time) (int64, error)
	BuildIndexes(ctx context.Context) (int, error)
	Recount(ctx context.Context, now time.Time) (int, error)
}

// ShipperOptions of a Shipper.
type ShipperOptions struct {
	Queue  Queue
	Writer Writer
	Shards int
	Bodies Bodies
	// Host returns the host that the route of a prefix calls, for entries without a host; nil = none.
	Host func(prefix string) string
	// Most is the bound of the outboxes, of all shards together.
	Most int
	// Observer may be nil.
	Observer Observer
	// Tracer makes a span of each written batch; nil = no spans.
	Tracer trace.Tracer
	Logger *zap.Logger
}

// Observer counts the work of a Shipper. It must not block.
type Observer interface {
	HistoryRows(n int)
	HistoryFailed(kind string, n int)
}

// The kinds of failures. telemetry.HistoryFailures lists them.
const (
	FailedDatabase = "database" // the database did not accept rows; they are kept and written again
	FailedRedis    = "redis"    // the outbox could not be read or shortened
	FailedRow      = "row"      // a row was written without the columns that the database rejected
	FailedEntry    = "entry"    // an entry of the outbox is invalid and was dropped
	FailedMemory   = "memory"   // entries were dropped because Redis was short of memory
)

// Shipper moves the entries of the outboxes from Redis to the database. Every instance runs one.
type Shipper struct {
	o      ShipperOptions
	token  string
	shards atomic.Pointer[[]*waits] // by shard
	more   chan struct{}            // shards were added
	writes chan struct{}            // bounds the batches written at a time
	down   atomic.Int64             // time (Unix ns) until which the database gets no writes
	each   atomic.Int64             // size of an entry in bytes, as last seen
	told   struct{ behind, dropped sometimes }
	apart  atomic.Pointer[error] // why nothing expires: see Refused
	again  pace.Loop             // failures of the database and of Redis
	// failure is the error of the last write to the database, and nil after a success. waiting is the number of entries in
	// all outboxes, as last counted.
	failure atomic.Pointer[error]
	waiting atomic.Int64
}

// waits is the state of a shard at a Shipper.
type waits struct {
	wake chan struct{}
	ends atomic.Int64 // entries appended by this instance since the start

	// The last answer about the memory of the shard's Redis, and its time. Only watch uses them.
	used int64
	at   time.Time
}

// Intervals and sizes of the Shipper's work.
const (
	holdFor     = 10 * time.Second
	watchEvery  = 2 * time.Second        // interval of checks for entries of other instances
	gather      = 200 * time.Millisecond // delay to collect more entries before a small batch
	burst       = 2000                   // entries within gather that count as a burst
	mostCalm    = 3 * time.Second        // longest wait during a burst
	batchRows   = 2000
	batchBytes  = 4 << 20
	readRows    = 500 // rows per command, so that it does not block Redis
	readBytes   = 256 << 10
	probeRows   = 16 // the first command of a batch
	leastWait   = 500 * time.Millisecond
	mostWait    = 15 * time.Second
	expireRate  = time.Hour
	indexWait   = 10 * time.Second
	indexRetry  = time.Minute
	clocksRetry = time.Minute
	warnEvery   = time.Minute
	freeShare   = 5 // a fifth of maxmemory stays free
	entryBytes  = 16
	muchWaits   = 10_000
	parallel    = 2
)

// NewShipper returns a Shipper. Run starts it.
func NewShipper(o ShipperOptions) *Shipper {
	s := &Shipper{o: o, token: rand.Text(), more: make(chan struct{}, 1), writes: make(chan struct{}, parallel)}
	s.again = pace.Loop{Min: leastWait, Max: mostWait, Logger: o.Logger, WarnEvery: warnEvery,
		Recovered: "writing to the history again",
		Failure:   "cannot write to the history, keeping its entries in Redis, retrying"}
	s.Grow(max(o.Shards, 1))
	return s
}

// Grow adds shards. It must not be called concurrently.
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

// Wake reports that n entries were appended to a shard's outbox. It does not block.
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

// Run ships entries until ctx ends, and returns nil. The remaining entries stay in their outboxes for another
// instance, or for the next start.
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
	wg.Go(func() { s.recount(ctx) })
	s.watch(ctx)
	wg.Wait()
	return nil
}

// watch wakes the shards whose outboxes hold entries, of any instance.
func (s *Shipper) watch(ctx context.Context) {
	near := false // near the bound of the memory
	for pace.Wait(ctx, watchAfter(near)) {
		near = false
		waiting, err := s.o.Queue.Lengths(ctx)
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

		s.waiting.Store(total)
		if most := int64(s.o.Most); total > most/2 && s.told.behind.due() {
			s.o.Logger.Warn("the history is behind, more than half of NOTIFIER_HISTORY_BACKLOG is used", zap.Int64("waiting", total),
				zap.Int64("bound", most))
		}
	}
}

// Unwritten returns the error of the last write to the database if entries wait for it, and their number.
func (s *Shipper) Unwritten() (waiting int64, err error) {
	waiting = s.waiting.Load()
	if failure := s.failure.Load(); failure != nil && waiting > 0 {
		err = *failure
	}

	return waiting, err
}

// watchAfter returns the time until the next check. Near the bound of the memory, Redis may soon be full.
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
			if !pace.Wait(ctx, left) {
				return
			}
		}

		if !l.calm(ctx) {
			return
		}

		if err := s.Ship(ctx, shard); err != nil && ctx.Err() == nil {
			s.Wake(shard, 0) // retry
		}
	}
}

// calm waits to collect more entries, and during a burst, when writing would take processor time from
// deliveries. It returns false if ctx ends.
func (l *waits) calm(ctx context.Context) bool {
	for until := time.Now().Add(mostCalm); ; {
		before := l.ends.Load()
		if !pace.Wait(ctx, gather) {
			return false
		}
		if l.ends.Load()-before < burst || time.Now().After(until) {
			return true
		}
	}
}

// Ship writes the entries of a shard until its outbox is empty or another Shipper holds it.
func (s *Shipper) Ship(ctx context.Context, shard int) error {
	var done Confirmed
	for ctx.Err() == nil {
		held, err := s.o.Queue.Hold(ctx, shard, Holder{Token: s.token, For: holdFor}, done)
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

		if err := s.write(ctx, shard, texts); err != nil {
			if ctx.Err() == nil {
				s.failure.Store(&err)
			}

			s.failed(ctx, failedPart(err), 1)
			s.back(ctx, err)
			// Another instance may reach the database although this one does not.
			_, _ = s.o.Queue.Hold(context.WithoutCancel(ctx), shard, Holder{Token: s.token}, Confirmed{})
			return err
		}

		s.again.Succeed()
		s.failure.Store(nil)
		done = Confirmed{N: len(texts), Last: texts[len(texts)-1]}
	}

	if done.N > 0 { // the rows are committed: a stop must not cause a second write
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = s.o.Queue.Hold(last, shard, Holder{Token: s.token}, done)
	}

	return nil
}

// read reads a batch from the beginning of a shard's outbox, in several small commands.
func (s *Shipper) read(ctx context.Context, shard int) ([]string, error) {
	var all []string
	size := 0
	for n := probeRows; len(all) < batchRows && size < batchBytes; {
		part, err := s.o.Queue.Entries(ctx, shard, len(all), min(n, batchRows-len(all)))
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

func (s *Shipper) write(ctx context.Context, shard int, texts []string) error {
	select {
	case s.writes <- struct{}{}:
		defer func() { <-s.writes }()
	case <-ctx.Done():
		return ctx.Err()
	}

	rows := make([]Row, 0, len(texts))
	for _, text := range texts {
		e, err := store.ReadEntry(text)
		if err != nil {
			s.failed(ctx, FailedEntry, 1)
			s.o.Logger.Error("an entry of the outbox is invalid, dropping it", zap.Error(err))
			continue
		}

		if e.Host == "" && s.o.Host != nil {
			e.Host = s.o.Host(e.Route)
		}

		r := rowOf(e, s.o.Bodies)
		r.Shard = shard
		rows = append(rows, r)
	}

	under, span := tracing.Step(ctx, s.o.Tracer, "history write", tracing.DBOperation.String("INSERT"), tracing.DBBatch.Int(len(rows)))
	w, err := s.o.Writer.Write(under, rows)
	tracing.End(span, err, failedPart(err))
	if err != nil {
		return err
	}

	if w.Bare > 0 {
		s.failed(ctx, FailedRow, w.Bare)
		s.o.Logger.Error("the history database rejected some columns, stored the rows without them", zap.Int("rows", w.Bare))
	}

	if s.o.Observer != nil && w.Rows > 0 {
		s.o.Observer.HistoryRows(w.Rows)
	}

	return nil
}

// failedPart returns the kind of a failed write.
func failedPart(err error) string {
	if errors.Is(err, ErrNoKeys) {
		return FailedRedis
	}
	return FailedDatabase
}

// back suspends writes to the database, longer after each failure.
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

// relieve drops the oldest entries of a shard that the database does not accept, while its Redis has less
// than a fifth of its memory left. near reports whether that may happen before the next check.
func (s *Shipper) relieve(ctx context.Context, shard int, now time.Time) (near bool) {
	// One at a time, or each would drop the same amount.
	held, err := s.o.Queue.Hold(ctx, shard, Holder{Token: s.token, For: holdFor}, Confirmed{})
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
		if s.told.dropped.due() {
			s.o.Logger.Warn("Redis has less than a fifth of its maxmemory left and the history database accepts no rows, dropped the oldest entries",
				zap.Int("dropped", n))
		}
	}

	return true
}

// fills reports whether Redis may exceed the bound before the next check: it does so at the growth since the
// last check, or it has an eighth left. It may also if the last check is too old.
func (l *waits) fills(used, bound int64, now time.Time) bool {
	had, since := l.used, now.Sub(l.at)
	l.used, l.at = used, now
	if since > 2*watchEvery {
		return true
	}

	grown := float64(used-had) / since.Seconds() * (2 * watchEvery).Seconds()
	return float64(used)+max(grown, float64(bound)/8) > float64(bound)
}

// expire deletes old entries every hour. While the clocks differ, it tries every minute.
func (s *Shipper) expire(ctx context.Context) {
	for wait := mathrand.N(time.Minute); pace.Wait(ctx, wait); {
		wait = expireRate
		if errors.Is(s.expireOnce(ctx), ErrClocks) {
			wait = clocksRetry
		}
	}
}

func (s *Shipper) expireOnce(ctx context.Context) error {
	now, err := s.o.Queue.Now(ctx)
	var gone int64
	if err == nil {
		gone, err = s.o.Writer.Expire(ctx, now)
	}

	switch refused := s.apart.Load(); {
	case errors.Is(err, ErrClocks):
		if s.apart.Store(&err); refused == nil {
			s.o.Logger.Error("the clocks of Redis and of the history's database differ, deleting no old entries until they agree, retrying",
				zap.Error(err))
		}
	case err != nil && ctx.Err() == nil:
		s.o.Logger.Debug("cannot delete history older than its retention, retrying", zap.Error(err))
	case err == nil:
		if s.apart.Store(nil); refused != nil {
			s.o.Logger.Info("the clocks of Redis and of the history's database agree again")
		}
	}

	if gone > 0 {
		s.o.Logger.Info("dropped history older than its retention", zap.Int64("partitions_or_rows", gone))
	}

	return err
}

// Refused returns an error that wraps ErrClocks while old entries are kept because of wrong clocks.
func (s *Shipper) Refused() error {
	if s == nil || s.apart.Load() == nil {
		return nil
	}
	return *s.apart.Load()
}

// index builds missing indexes once. New partitions have all of them.
func (s *Shipper) index(ctx context.Context) {
	for pace.Wait(ctx, mathrand.N(indexWait)) {
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

		if !pace.Wait(ctx, indexRetry) {
			return
		}
	}
}

func (s *Shipper) failed(ctx context.Context, kind string, n int) {
	if s.o.Observer != nil && ctx.Err() == nil {
		s.o.Observer.HistoryFailed(kind, n)
	}
}

// sometimes limits a warning to one per interval.
type sometimes struct {
	mu   sync.Mutex
	last time.Time
}

// due reports whether to log the warning now.
func (s *sometimes) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if time.Since(s.last) < warnEvery {
		return false
	}

	s.last = time.Now()
	return true
}
