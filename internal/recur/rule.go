package recur

import (
	"fmt"
	"sync"
	"time"

	"notifier/internal/notice"
)

// MinEvery is the shortest interval.
const MinEvery = time.Second

// Spec describes the ticks of a recurrence: Cron with an optional Zone, or Every with an optional Anchor.
type Spec struct {
	Cron string
	// Zone is an IANA name such as Asia/Shanghai. Empty means UTC.
	Zone  string
	Every time.Duration
	// Anchor is a tick; the others are multiples of Every before and after it. Zero means 1970-01-01T00:00:00Z.
	Anchor time.Time
}

// Rule computes ticks. It is safe for concurrent use.
type Rule struct {
	cron   *cron // nil for an interval
	zone   *time.Location
	every  time.Duration
	anchor time.Time
}

// Parse validates a spec. Its errors wrap [notice.ErrInvalid], and begin with the name of the field as in the API.
func Parse(s Spec) (*Rule, error) {
	switch {
	case s.Cron == "" && s.Every == 0:
		return nil, invalid("cron is missing, and so is every; want cron such as 0 2 * * *, or every such as 15m")
	case s.Cron != "" && s.Every != 0:
		return nil, invalid("cron is given, and so is every; want one of them")
	case s.Cron == "":
		return parseEvery(s)
	case !s.Anchor.IsZero():
		return nil, invalid("anchor is only for every; leave it out, or use from for the first tick of a cron expression")
	}

	zone, err := loadZone(s.Zone)
	if err != nil {
		return nil, err
	}

	c, err := parseCron(s.Cron)
	if err != nil {
		return nil, err
	}

	return &Rule{cron: c, zone: zone}, nil
}

// cache has the rules of cron expressions by expression and zone, so that the steps of a definition do not parse it again.
type cache struct {
	mu sync.Mutex
	by map[[2]string]*Rule
}

// rules are those of the definitions of this process.
var rules cache

// maxCached is how many rules a cache keeps. Then it begins anew.
const maxCached = 10_000

// parse is [Parse] with the cache.
func (c *cache) parse(s Spec) (*Rule, error) {
	if s.Cron == "" || s.Every != 0 || !s.Anchor.IsZero() {
		return Parse(s)
	}

	key := [2]string{s.Cron, s.Zone}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.by[key]; r != nil {
		return r, nil
	}

	r, err := Parse(s)
	if err != nil {
		return nil, err
	}

	if c.by == nil || len(c.by) >= maxCached {
		c.by = map[[2]string]*Rule{}
	}

	c.by[key] = r
	return r, nil
}

func parseEvery(s Spec) (*Rule, error) {
	switch {
	case s.Zone != "":
		return nil, invalid("zone is only for cron; leave it out: every is elapsed time, the same in all zones")
	case s.Every < MinEvery || s.Every > notice.MaxHorizon:
		return nil, invalid("every %s is not from %s to %s", s.Every, notice.Short(MinEvery), notice.Short(notice.MaxHorizon))
	case s.Every%time.Millisecond != 0:
		return nil, invalid("every %s has a fraction of a millisecond; want whole milliseconds", s.Every)
	case !s.Anchor.IsZero() && (s.Anchor.Year() < 1970 || s.Anchor.Year() >= 2200):
		return nil, invalid("anchor %s is not from 1970 to 2199", notice.Stamp(s.Anchor))
	case s.Anchor.IsZero():
		s.Anchor = time.Unix(0, 0)
	}
	return &Rule{every: s.Every, anchor: s.Anchor.Truncate(time.Millisecond).UTC()}, nil
}

// Next returns the first tick after a time, in UTC. It is zero if the rule has no tick within 41 years.
func (r *Rule) Next(after time.Time) time.Time {
	if r.cron != nil {
		return r.cron.next(after, r.zone)
	}

	every, at, anchor := r.every.Milliseconds(), after.UnixMilli(), r.anchor.UnixMilli()
	since := (at - anchor) % every
	if since < 0 {
		since += every
	}

	return time.UnixMilli(at - since + every).UTC()
}

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{notice.ErrInvalid}, a...)...)
}
