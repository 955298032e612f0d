package app

import (
	"math"
	"sync/atomic"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// tally counts, for the API's statistics, what this instance did with each
// route since it began.
type tally struct{ by map[string]*counts }

// counts of one route. Lateness is kept in buckets that grow by a quarter from
// 100 µs on, so a quantile is right to within 25 %.
type counts struct {
	outcomes [4]atomic.Int64
	lateness [buckets]atomic.Int64
}

const (
	buckets = 96
	floor   = 100 * time.Microsecond
	growth  = 1.25
)

func newTally(t *route.Table) *tally {
	y := &tally{by: map[string]*counts{}}
	for _, r := range t.All() {
		y.by[r.Name] = &counts{}
	}
	return y
}

func (t *tally) attempt(name string, o notice.Outcome) {
	c := t.by[name]
	if c == nil {
		return
	}
	for i, x := range notice.Outcomes {
		if x == o {
			c.outcomes[i].Add(1)
		}
	}
}

func (t *tally) late(name string, d time.Duration) {
	c := t.by[name]
	if c == nil {
		return
	}
	i := 0
	if d > floor {
		i = min(int(math.Ceil(math.Log(float64(d)/float64(floor))/math.Log(growth))), buckets-1)
	}
	c.lateness[i].Add(1)
}

// quantile is the upper bound of the bucket in which the share q of all
// attempts was at most so late; 0 without attempts.
func (c *counts) quantile(q float64) time.Duration {
	var total int64
	for i := range c.lateness {
		total += c.lateness[i].Load()
	}
	if total == 0 {
		return 0
	}
	rank, seen := int64(math.Ceil(q*float64(total))), int64(0)
	for i := range c.lateness {
		if seen += c.lateness[i].Load(); seen >= rank {
			return time.Duration(float64(floor) * math.Pow(growth, float64(i)))
		}
	}
	return time.Duration(float64(floor) * math.Pow(growth, buckets-1))
}

// observer tells what dispatch does to the metrics and the tally.
type observer struct {
	m Metrics
	t *tally
}

func (o observer) Claims(source, result string, n int) {
	if n > 0 {
		o.m.Claim(source, result, n)
	}
}

func (o observer) Attempt(name string, out notice.Outcome, r notice.Reason) {
	o.m.Attempt(name, out, r)
	o.t.attempt(name, out)
}

func (o observer) Lateness(name, source string, d time.Duration) {
	o.m.Lateness(name, source, d)
	o.t.late(name, d)
}

func (o observer) HandlerTime(name string, d time.Duration) { o.m.Handler(name, d) }
func (o observer) Unsettled(name string, n int)             { o.m.Unsettled(name, n) }

// none counts nothing.
type none struct{}

func (none) Scheduled(string, int)                         {}
func (none) Attempt(string, notice.Outcome, notice.Reason) {}
func (none) Claim(string, string, int)                     {}
func (none) Lateness(string, string, time.Duration)        {}
func (none) Handler(string, time.Duration)                 {}
func (none) Event(string)                                  {}
func (none) Subscription()                                 {}
func (none) RedisError(string)                             {}
func (none) Unsettled(string, int)                         {}
