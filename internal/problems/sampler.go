package problems

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/audit"
	"notifier/internal/doctor"
	"notifier/internal/fleet"
	"notifier/internal/receivers"
	"notifier/internal/route"
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

// Spans are the minutes of the charts.
const Spans = 60

// Board is the figures of one moment. It is never changed.
type Board struct {
	At          time.Time
	Fresh       time.Time // when all parts were read; before At if Err is not nil
	Err         error     // why the figures are outdated; nil if they are current
	Counts      []store.Counts
	CountsAt    time.Time
	Missing     []wire.Lost       // nodes missing in Counts
	Recorded    []fleet.Recorded  // prefixes for workers, as old as Counts
	Deaths      []store.DeadGroup // of deathsWithin, as far as they are still dead letters
	Instances   []Instance
	InstancesAt time.Time
	Minutes     map[int64]map[string]fleet.Work // by Unix minute, then prefix
	MinutesAt   time.Time
	Reported    map[string]int64   // by instance, the end of its last minute in Minutes, Unix ms
	Forecast    map[string][]int64 // by prefix, from ForecastAt on
	ForecastAt  time.Time
	Hidden      []wire.Lost // nodes missing in Forecast
	Whole       bool        // Forecast was read, unless its interval had not passed yet
	Health      []receivers.RouteHealth
	HealthAt    time.Time
	HealthErr   error                   // why Health is outdated
	Changed     map[string]audit.Change // by the name of the route, the last change of its settings
	ChangedAt   time.Time
	heldBoard
	Ready    fleet.Readiness
	Answered time.Duration // the latency of reading the heartbeats
}

// Instance is an instance with its metrics.
type Instance struct {
	fleet.Instance
	Self    bool
	Figures fleet.Figures
	Tells   bool // its metrics can be read
}

// Sampler makes boards.
type Sampler struct {
	engine   Engine
	health   Health // may be nil
	prefixes int    // of routes
	now      func() time.Time

	taking sync.Mutex // one sample at a time
	last   string     // ID of the last entry of the minutes

	changed atomic.Bool // this instance has changed counts since

	// Examiner runs the checks of doctor.
	Examiner Examiner

	mu       sync.Mutex
	board    *Board
	watchers map[chan *Board]string // the name of the live page
	wake     chan struct{}
}

// SamplerOptions are the parameters of New.
type SamplerOptions struct {
	Engine Engine
	Routes *route.Table
	// Health is the health of receivers. Nil means that it is unknown.
	Health Health
	// Examine runs the checks of doctor. Nil means no checks.
	Examine func(context.Context) (*doctor.Report, error)
	// Now is Redis's clock.
	Now func() time.Time
}

// NewSampler returns a Sampler. It reads nothing until it is asked.
func NewSampler(o SamplerOptions) *Sampler {
	return &Sampler{engine: o.Engine, health: o.Health, prefixes: len(o.Routes.All()), now: o.Now, watchers: map[chan *Board]string{},
		wake:     make(chan struct{}, 1),
		Examiner: Examiner{examine: o.Examine, now: o.Now, asked: make(chan struct{}, 1), first: make(chan struct{})}}
}

// Changed makes the next board count again, because this instance has changed counts.
func (s *Sampler) Changed() { s.changed.Store(true) }

// Healthy reports whether the health of receivers is known at all.
func (s *Sampler) Healthy() bool { return s.health != nil }

// Run samples, and runs the checks of doctor, while a dashboard is open or asks for them, until ctx ends.
func (s *Sampler) Run(ctx context.Context) {
	var examining sync.WaitGroup
	defer examining.Wait()
	examining.Go(func() { s.examineOften(ctx) })
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
			s.publish(s.Read(ctx, s.shows("now")))
		}
	}
}

// watched reports whether a dashboard is open.
func (s *Sampler) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers) > 0
}

// shows reports whether a live page is open.
func (s *Sampler) shows(page string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.watchers {
		if p == page {
			return true
		}
	}

	return false
}

func (s *Sampler) publish(b *Board) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		select {
		case w <- b:
		default: // the stream is still busy, and gets the next board
		}
	}
}

// Watch returns a channel of new boards for a live page until leave is called.
func (s *Sampler) Watch(page string) (boards <-chan *Board, leave func()) {
	w := make(chan *Board, 1)
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
func (s *Sampler) latest() *Board {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.board
}

// Current returns a board that is at most one sample old, if Redis answers. Its forecast may be older.
func (s *Sampler) Current(ctx context.Context) *Board { return s.Read(ctx, false) }

// Read is Current, with the forecast if whole is true.
func (s *Sampler) Read(ctx context.Context, whole bool) *Board {
	if b := s.latest(); s.suffices(b, whole) {
		return b
	}

	return s.sample(ctx, whole)
}

// suffices reports whether a board need not be read again yet.
func (s *Sampler) suffices(b *Board, whole bool) bool {
	return b != nil && s.now().Sub(b.At) < sampleEvery/2 && (b.Whole || !whole) && !s.changed.Load()
}

// sample reads a board. Parts that cannot be read keep their old values. Only the page Now shows the forecast: without
// whole, its budget is for the health of receivers.
func (s *Sampler) sample(ctx context.Context, whole bool) *Board {
	s.taking.Lock()
	defer s.taking.Unlock()
	before, now := s.latest(), s.now()
	if s.suffices(before, whole) {
		return before // another request has just read it
	}

	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	b := &Board{Minutes: map[int64]map[string]fleet.Work{}}
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
	steps.Go(func() {
		s.receivers(ctx, b, now, whole)
		s.changes(ctx, b, now)
	})
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

func (s *Sampler) instances(ctx context.Context, b *Board) error {
	began := time.Now()
	list, err := s.engine.Instances(ctx)
	if err != nil {
		return err
	}

	b.Answered, b.InstancesAt = time.Since(began), s.now()
	b.Instances = make([]Instance, len(list))
	for i, x := range list {
		f, ok := x.ReadFigures()
		b.Instances[i] = Instance{x, x.ID == s.engine.Self(), f, ok}
	}

	return nil
}

// receivers reads the health of receivers.
func (s *Sampler) receivers(ctx context.Context, b *Board, now time.Time, whole bool) {
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

// changesEvery is the interval of reading the changes of settings: one command.
const changesEvery = 10 * time.Second

// changes reads when the settings of routes were changed. A failed read keeps the last ones: an explanation is missing, no figure.
func (s *Sampler) changes(ctx context.Context, b *Board, now time.Time) {
	if !b.ChangedAt.IsZero() && now.Sub(b.ChangedAt) < changesEvery {
		return
	}

	if list, err := s.engine.RouteChanges(ctx); err == nil {
		b.Changed, b.ChangedAt = list, now
	}
}

// minutes adds the minutes that have ended since the last sample.
func (s *Sampler) minutes(ctx context.Context, b *Board, now time.Time) error {
	oldest := now.Add(-(Spans + 5) * time.Minute)
	if now.Sub(b.MinutesAt) < minutesEvery && now.Second() > 5 && now.Unix()/60 == b.MinutesAt.Unix()/60 {
		return nil // a minute is read until all instances have reported it
	}

	minutes, reported := map[int64]map[string]fleet.Work{}, map[string]int64{}
	maps.Copy(minutes, b.Minutes)
	maps.Copy(reported, b.Reported)
	maps.DeleteFunc(minutes, func(m int64, _ map[string]fleet.Work) bool { return m < oldest.Unix()/60 })
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
func addWork(routes, more map[string]fleet.Work) map[string]fleet.Work {
	sums := map[string]fleet.Work{}
	maps.Copy(sums, routes)
	for prefix, w := range more {
		sum := fleet.Work{}
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

func (s *Sampler) counts(ctx context.Context, b *Board, now time.Time) error {
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
	recorded, err := s.engine.Recorded(ctx)
	if err == nil {
		b.Recorded = recorded
	}

	return cmp.Or(err, s.deaths(ctx, b))
}

// deathsWithin is how far back the first page looks for deaths.
const deathsWithin = time.Hour

// deaths reads the causes of recent deaths, one command for each shard, unless the counts say that there is no dead letter.
func (s *Sampler) deaths(ctx context.Context, b *Board) error {
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

func (s *Sampler) forecast(ctx context.Context, b *Board, now time.Time) error {
	n := 0
	for _, c := range b.Counts {
		if c.Pending > 0 {
			n += s.engine.Shards() * store.ForecastCommands(b.Forecast[c.Prefix], Spans)
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

		list, missing, err := s.engine.Forecast(ctx, c.Prefix, time.Minute, Spans)
		if err != nil {
			return err
		}

		hidden = wire.Together(hidden, missing)
		forecast[c.Prefix] = list
	}

	b.Forecast, b.ForecastAt, b.Hidden = forecast, now, hidden
	return nil
}
