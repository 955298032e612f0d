package ui

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/health"
	"notifier/internal/stats"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// The sampler reads the figures of dashboards once for all dashboards of this instance, and only while one
// is open. The intervals below limit its commands per second.
const (
	// sampleEvery is the interval of heartbeats and metrics: 4 commands.
	sampleEvery = 2 * time.Second
	// A count of one route and shard takes 7 commands. The budgets limit the commands per second of counts
	// and forecasts.
	countCommands, countBudget  = 7, 7
	forecastBudget              = 3
	countLeast, countMost       = sampleEvery, 30 * time.Second
	forecastLeast, forecastMost = 10 * time.Second, 5 * time.Minute
	minutesEvery                = 5 * time.Second
	// The health of a route is one command, of up to 250 KB. The budgets limit the commands and receivers
	// per second.
	healthBudget, receiverBudget = 3, 200
	healthLeast, healthMost      = sampleEvery, 30 * time.Second
	// sampleTimeout is how long a page waits for new figures.
	sampleTimeout = 2 * time.Second
)

// turnTime is how long an instance takes at most to start a new minute after the end of the last one.
const turnTime = time.Second

// spans are the minutes of the charts.
const spans = 60

// board is the figures of one moment. It is never changed.
type board struct {
	At          time.Time
	Fresh       time.Time // when all parts were read; before At if Err is not nil
	Err         error     // why the figures are outdated; nil if they are current
	Counts      []store.Counts
	CountsAt    time.Time
	Missing     []wire.Lost       // nodes missing in Counts
	Deaths      []store.DeadGroup // of deathsWithin, as far as they are still dead letters
	Instances   []seenInstance
	InstancesAt time.Time
	Minutes     map[int64]map[string]stats.Work // by Unix minute, then prefix
	MinutesAt   time.Time
	Reported    map[string]int64   // by instance, the end of its last minute in Minutes, Unix ms
	Forecast    map[string][]int64 // by prefix, from ForecastAt on
	ForecastAt  time.Time
	Hidden      []wire.Lost // nodes missing in Forecast
	Whole       bool        // Forecast was read, unless its interval had not passed yet
	Health      []health.Route
	HealthAt    time.Time
	HealthErr   error // why Health is outdated
	heldBoard
	Ready    stats.Readiness
	Answered time.Duration // the latency of reading the heartbeats
}

// seenInstance is an instance with its metrics.
type seenInstance struct {
	fleet.Instance
	Self    bool
	Figures fleet.Figures
	Tells   bool // its metrics can be read
}

// sampler makes boards.
type sampler struct {
	engine   Engine
	health   Physician // may be nil
	prefixes int       // of routes
	now      func() time.Time

	taking sync.Mutex // one sample at a time
	last   string     // ID of the last entry of the minutes

	changed atomic.Bool // this instance has changed counts since

	mu       sync.Mutex
	board    *board
	watchers map[chan *board]string // the name of the live page
	wake     chan struct{}
}

func newSampler(o Options, now func() time.Time) *sampler {
	return &sampler{engine: o.Engine, health: o.Health, prefixes: len(o.Routes.All()), now: now, watchers: map[chan *board]string{},
		wake: make(chan struct{}, 1)}
}

// run samples while a dashboard is open, until ctx ends.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.wake: // the first dashboard need not wait
		}
		if s.watched() {
			s.publish(s.read(ctx, s.shows("now")))
		}
	}
}

// watched reports whether a dashboard is open.
func (s *sampler) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers) > 0
}

// shows reports whether a live page is open.
func (s *sampler) shows(page string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.watchers {
		if p == page {
			return true
		}
	}

	return false
}

func (s *sampler) publish(b *board) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		select {
		case w <- b:
		default: // the stream is still busy, and gets the next board
		}
	}
}

// watch returns a channel of new boards for a live page until leave is called.
func (s *sampler) watch(page string) (boards <-chan *board, leave func()) {
	w := make(chan *board, 1)
	s.mu.Lock()
	s.watchers[w] = page
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}

	return w, func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
	}
}

// latest returns the last board; nil = none was read yet.
func (s *sampler) latest() *board {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.board
}

// current returns a board that is at most one sample old, if Redis answers. Its forecast may be older.
func (s *sampler) current(ctx context.Context) *board { return s.read(ctx, false) }

// read is current, with the forecast if whole is true.
func (s *sampler) read(ctx context.Context, whole bool) *board {
	if b := s.latest(); s.suffices(b, whole) {
		return b
	}

	return s.sample(ctx, whole)
}

// suffices reports whether a board need not be read again yet.
func (s *sampler) suffices(b *board, whole bool) bool {
	return b != nil && s.now().Sub(b.At) < sampleEvery/2 && (b.Whole || !whole) && !s.changed.Load()
}

// sample reads a board. Parts that cannot be read keep their old values. Only the page Now shows the forecast: without
// whole, its budget is for the health of receivers.
func (s *sampler) sample(ctx context.Context, whole bool) *board {
	s.taking.Lock()
	defer s.taking.Unlock()
	before, now := s.latest(), s.now()
	if s.suffices(before, whole) {
		return before // another request has just read it
	}

	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	b := &board{Minutes: map[int64]map[string]stats.Work{}}
	if before != nil {
		*b = *before
	}

	changed := s.changed.Load() // counts clears it
	// At the same time: in a cluster each part asks other nodes, and need not wait for the nodes of
	// another part.
	var steps sync.WaitGroup
	var signs, minutes, figures error
	steps.Go(func() { signs = s.instances(ctx, b) })
	steps.Go(func() { minutes = s.minutes(ctx, b, now) })
	steps.Go(func() {
		if figures = s.counts(ctx, b, now); figures == nil && whole {
			figures = s.forecast(ctx, b, now)
		}
	})
	steps.Go(func() { s.receivers(ctx, b, now, whole) })
	steps.Go(func() {
		s.holds(ctx, b, now, changed)
		s.redirects(ctx, b, now, changed)
	})
	steps.Go(func() { b.Ready = s.engine.Ready(ctx) })
	steps.Wait()
	// Without counts all figures are old; heartbeats may be old alone.
	b.Err = cmp.Or(figures, signs, minutes)
	b.At, b.Whole = s.now(), whole
	if b.Err == nil {
		b.Fresh = b.At
	}

	s.mu.Lock()
	s.board = b
	s.mu.Unlock()
	return b
}

func (s *sampler) instances(ctx context.Context, b *board) error {
	began := time.Now()
	list, err := s.engine.Instances(ctx)
	if err != nil {
		return err
	}

	b.Answered, b.InstancesAt = time.Since(began), s.now()
	b.Instances = make([]seenInstance, len(list))
	for i, x := range list {
		f, ok := x.ReadFigures()
		b.Instances[i] = seenInstance{x, x.ID == s.engine.Self(), f, ok}
	}

	return nil
}

// receivers reads the health of receivers.
func (s *sampler) receivers(ctx context.Context, b *board, now time.Time, whole bool) {
	known, budget := 0, healthBudget
	if !whole {
		budget += forecastBudget
	}

	for i := range b.Health {
		known += len(b.Health[i].Receivers)
	}

	every := max(pace(s.prefixes, budget, healthLeast, healthMost), pace(known, receiverBudget, healthLeast, healthMost))
	if s.health == nil || b.HealthErr == nil && !b.HealthAt.IsZero() && now.Sub(b.HealthAt) < every-sampleEvery/2 {
		return
	}

	list, err := s.health.Health(ctx)
	if b.HealthErr = err; err == nil {
		b.Health, b.HealthAt = list, now
	}
}

// minutes adds the minutes that have ended since the last sample.
func (s *sampler) minutes(ctx context.Context, b *board, now time.Time) error {
	oldest := now.Add(-(spans + 5) * time.Minute)
	if now.Sub(b.MinutesAt) < minutesEvery && now.Second() > 5 && now.Unix()/60 == b.MinutesAt.Unix()/60 {
		return nil // a minute is read until all instances have reported it
	}

	minutes, reported := map[int64]map[string]stats.Work{}, map[string]int64{}
	maps.Copy(minutes, b.Minutes)
	maps.Copy(reported, b.Reported)
	maps.DeleteFunc(minutes, func(m int64, _ map[string]stats.Work) bool { return m < oldest.Unix()/60 })
	maps.DeleteFunc(reported, func(_ string, at int64) bool { return at < oldest.UnixMilli() })

	for {
		list, last, err := s.engine.Minutes(ctx, s.last, oldest)
		if err != nil {
			return err
		}

		for _, m := range list {
			reported[m.Instance] = max(reported[m.Instance], m.At)
			at := time.UnixMilli(m.At).Add(-time.Second).Unix() / 60
			minutes[at] = addWork(minutes[at], m.Routes)
		}

		b.Minutes, b.MinutesAt, b.Reported = minutes, now, reported
		if s.last = last; len(list) == 0 {
			return nil
		}
	}
}

// addWork returns the sums by prefix. It changes neither map, because pages may read them.
func addWork(routes, more map[string]stats.Work) map[string]stats.Work {
	sums := map[string]stats.Work{}
	maps.Copy(sums, routes)
	for prefix, w := range more {
		sum := stats.Work{}
		sum.Add(sums[prefix])
		sum.Add(w)
		sums[prefix] = sum
	}

	return sums
}

// pace returns the interval of a number of commands within a budget per second.
func pace(commands, budget int, least, most time.Duration) time.Duration {
	return min(max(time.Duration(commands)*time.Second/time.Duration(budget), least), most)
}

func (s *sampler) counts(ctx context.Context, b *board, now time.Time) error {
	n := max(len(b.Counts), s.prefixes) * s.engine.Shards()
	if !s.changed.Swap(false) && !b.CountsAt.IsZero() && now.Sub(b.CountsAt) < pace(n*countCommands, countBudget, countLeast,
		countMost)-sampleEvery/2 {
		return nil
	}

	began := s.now() // the first count is that old at the end
	list, missing, err := s.engine.Counts(ctx)
	if err != nil {
		return err
	}

	b.Counts, b.CountsAt, b.Missing = list, began, missing
	return s.deaths(ctx, b)
}

// deathsWithin is how far back the first page looks for deaths.
const deathsWithin = time.Hour

// deaths reads the causes of recent deaths, one command for each shard, unless the counts say that there is no dead letter.
func (s *sampler) deaths(ctx context.Context, b *board) error {
	if !slices.ContainsFunc(b.Counts, func(c store.Counts) bool { return c.Dead > 0 }) {
		b.Deaths = nil
		return nil
	}

	got, err := s.engine.DeadCauses(ctx, s.now().Add(-deathsWithin))
	if err == nil {
		b.Deaths = got.Groups
	}

	return err
}

func (s *sampler) forecast(ctx context.Context, b *board, now time.Time) error {
	n := 0
	for _, c := range b.Counts {
		if c.Pending > 0 {
			n += s.engine.Shards() * store.ForecastCommands(b.Forecast[c.Prefix], spans)
		}
	}

	back := len(b.Hidden) > 0 && len(b.Missing) == 0
	if now.Sub(b.ForecastAt) < pace(n, forecastBudget, forecastLeast, forecastMost) && !back {
		return nil
	}

	forecast, hidden := map[string][]int64{}, []wire.Lost(nil)
	for _, c := range b.Counts {
		if c.Pending == 0 {
			continue
		}

		list, missing, err := s.engine.Forecast(ctx, c.Prefix, time.Minute, spans)
		if err != nil {
			return err
		}

		hidden = wire.Together(hidden, missing)
		forecast[c.Prefix] = list
	}

	b.Forecast, b.ForecastAt, b.Hidden = forecast, now, hidden
	return nil
}
