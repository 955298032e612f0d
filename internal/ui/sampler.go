package ui

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/api"
	"notifier/internal/fleet"
	"notifier/internal/health"
	"notifier/internal/metrics"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// The sampler asks for what dashboards show: once for all that are open at this
// instance, and not at all while none is. Its costs in commands a second are
// bounded by how often each part is asked for.
const (
	// sampleEvery is how often signs of life and figures are read: 4 commands.
	sampleEvery = 2 * time.Second
	// A count of one route and shard takes 7 commands, and a forecast up to 62: they
	// are asked for as seldom as it takes to stay below so many commands a second.
	countCommands, countBudget       = 7, 7
	forecastCommands, forecastBudget = 62, 3
	countLeast, countMost            = sampleEvery, 30 * time.Second
	forecastLeast, forecastMost      = 30 * time.Second, 5 * time.Minute
	minutesEvery                     = 5 * time.Second
	// The health of a route is one command, of up to 100 KB: so many commands and receivers a
	// second are read at most.
	healthBudget, receiverBudget = 3, 200
	healthLeast, healthMost      = sampleEvery, 30 * time.Second
	// sampleTimeout is how long a page waits for figures that are new.
	sampleTimeout = 2 * time.Second
)

// span of the charts: an hour, by minutes.
const spans = 60

// board is all that is known at one moment. It is never changed once it is made.
type board struct {
	At         time.Time
	Fresh      time.Time // when all of it was read; before At if Err is not nil
	Err        error     // why what follows is not of this moment; nil = it is
	Counts     []store.Counts
	CountsAt   time.Time
	Missing    []wire.Lost // nodes that Counts are without
	Instances  []seenInstance
	Minutes    map[int64]map[string]metrics.Work // by Unix minute, then prefix
	MinutesAt  time.Time
	Forecast   map[string][]int64 // by prefix, from ForecastAt on
	ForecastAt time.Time
	Hidden     []wire.Lost // nodes that Forecast is without
	Health     []health.Route
	HealthAt   time.Time
	HealthErr  error // why Health is not of HealthAt
	Ready      api.Readiness
	Answered   time.Duration // how long Redis took for the signs of life
}

// seenInstance is an instance with its figures.
type seenInstance struct {
	fleet.Instance
	Self    bool
	Figures fleet.Figures
	Tells   bool // it told figures that can be read
}

// sampler makes boards.
type sampler struct {
	engine   Engine
	health   Physician // may be nil
	prefixes int       // of routes
	now      func() time.Time

	taking sync.Mutex // one sample at a time
	last   string     // the entry of the minutes that was read last

	changed atomic.Bool // what is counted was changed from here since

	mu       sync.Mutex
	board    *board
	watchers map[chan *board]bool
	wake     chan struct{}
}

func newSampler(o Options, now func() time.Time) *sampler {
	return &sampler{engine: o.Engine, health: o.Health, prefixes: len(o.Routes.All()), now: now, watchers: map[chan *board]bool{}, wake: make(chan struct{}, 1)}
}

// run samples while somebody watches, until ctx ends.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.wake: // the first of them need not wait
		}
		if s.watched() {
			s.publish(s.current(ctx))
		}
	}
}

// watched reports whether somebody watches.
func (s *sampler) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers) > 0
}

func (s *sampler) publish(b *board) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		select {
		case w <- b:
		default: // it is busy with the one before, and gets the next
		}
	}
}

// watch yields new boards until leave is called.
func (s *sampler) watch() (boards <-chan *board, leave func()) {
	w := make(chan *board, 1)
	s.mu.Lock()
	s.watchers[w] = true
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

// current is a board that is no older than a sample, if one can be had.
func (s *sampler) current(ctx context.Context) *board {
	s.mu.Lock()
	b := s.board
	s.mu.Unlock()
	if b != nil && s.now().Sub(b.At) < sampleEvery/2 && !s.changed.Load() {
		return b
	}
	return s.sample(ctx)
}

// sample makes a board. What cannot be had is as it was before.
func (s *sampler) sample(ctx context.Context) *board {
	s.taking.Lock()
	defer s.taking.Unlock()
	s.mu.Lock()
	before := s.board
	s.mu.Unlock()
	now := s.now()
	if before != nil && now.Sub(before.At) < sampleEvery/2 && !s.changed.Load() {
		return before // somebody else has just made it
	}
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	b := &board{Minutes: map[int64]map[string]metrics.Work{}}
	if before != nil {
		*b = *before
	}
	// At the same time: in a cluster each asks other nodes, and need not wait for those
	// that another waits for.
	var steps sync.WaitGroup
	var signs, minutes, figures error
	steps.Go(func() { signs = s.instances(ctx, b) })
	steps.Go(func() { minutes = s.minutes(ctx, b, now) })
	steps.Go(func() {
		if figures = s.counts(ctx, b, now); figures == nil {
			figures = s.forecast(ctx, b, now)
		}
	})
	steps.Go(func() { s.receivers(ctx, b, now) })
	steps.Go(func() { b.Ready = s.engine.Ready(ctx) })
	steps.Wait()
	// Without figures all is old; who lives may be so alone.
	b.Err = cmp.Or(figures, signs, minutes)
	b.At = s.now()
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
	b.Answered = time.Since(began)
	b.Instances = make([]seenInstance, len(list))
	for i, x := range list {
		f, ok := x.ReadFigures()
		b.Instances[i] = seenInstance{x, x.ID == s.engine.Self(), f, ok}
	}
	return nil
}

// receivers reads the health of receivers.
func (s *sampler) receivers(ctx context.Context, b *board, now time.Time) {
	known := 0
	for i := range b.Health {
		known += len(b.Health[i].Receivers)
	}
	every := max(pace(s.prefixes, healthBudget, healthLeast, healthMost), pace(known, receiverBudget, healthLeast, healthMost))
	if s.health == nil || b.HealthErr == nil && !b.HealthAt.IsZero() && now.Sub(b.HealthAt) < every-sampleEvery/2 {
		return
	}
	list, err := s.health.Health(ctx)
	if b.HealthErr = err; err == nil {
		b.Health, b.HealthAt = list, now
	}
}

// minutes adds those that have ended since the last sample.
func (s *sampler) minutes(ctx context.Context, b *board, now time.Time) error {
	oldest := now.Add(-(spans + 5) * time.Minute)
	if now.Sub(b.MinutesAt) < minutesEvery && now.Second() > 5 && now.Unix()/60 == b.MinutesAt.Unix()/60 {
		return nil // the minute that has just ended is asked for until all have told of it
	}
	minutes := map[int64]map[string]metrics.Work{}
	for m, routes := range b.Minutes {
		if m >= oldest.Unix()/60 {
			minutes[m] = routes
		}
	}
	for {
		list, last, err := s.engine.Minutes(ctx, s.last, oldest)
		if err != nil {
			return err
		}
		for _, m := range list {
			at := time.UnixMilli(m.At).Add(-time.Second).Unix() / 60
			routes := maps.Clone(minutes[at])
			if routes == nil {
				routes = map[string]metrics.Work{}
			}
			for prefix, w := range m.Routes {
				sum := metrics.Work{}
				sum.Add(routes[prefix])
				sum.Add(w)
				routes[prefix] = sum
			}
			minutes[at] = routes
		}
		b.Minutes, b.MinutesAt = minutes, now
		if s.last = last; len(list) == 0 {
			return nil
		}
	}
}

// pace is how often something that takes so many commands may be asked for.
func pace(commands, budget int, least, most time.Duration) time.Duration {
	return min(max(time.Duration(commands)*time.Second/time.Duration(budget), least), most)
}

func (s *sampler) counts(ctx context.Context, b *board, now time.Time) error {
	n := max(len(b.Counts), s.prefixes) * s.engine.Shards()
	if !s.changed.Swap(false) && !b.CountsAt.IsZero() && now.Sub(b.CountsAt) < pace(n*countCommands, countBudget, countLeast, countMost)-sampleEvery/2 {
		return nil
	}
	list, missing, err := s.engine.Counts(ctx)
	if err == nil {
		b.Counts, b.CountsAt, b.Missing = list, s.now(), missing
	}
	return err
}

func (s *sampler) forecast(ctx context.Context, b *board, now time.Time) error {
	n := 0
	for _, c := range b.Counts {
		if c.Pending > 0 {
			n += s.engine.Shards()
		}
	}
	back := len(b.Hidden) > 0 && len(b.Missing) == 0
	if now.Sub(b.ForecastAt) < pace(n*forecastCommands, forecastBudget, forecastLeast, forecastMost) && !back {
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
