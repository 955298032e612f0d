package dispatch

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/notice"
)

const (
	// mostLocal is the longest deferral for a shortage of this machine. The deferrals of a notice double up to it.
	mostLocal = 30 * time.Second
	// shortageEnds is the time without a deferral after which a shortage is over: twice the longest deferral, so that
	// the notices that wait are tried again before.
	shortageEnds = 2 * mostLocal
	// shortageEvery is how often a lasting shortage is logged.
	shortageEvery = time.Minute
)

// Shortage is a shortage of this machine for which attempts are deferred.
type Shortage struct {
	Cause  notice.Shortage
	Since  time.Time
	Detail string // of the last deferral
	Remedy string
}

// remedies are the remedies of shortages.
var remedies = map[notice.Shortage]string{
	notice.ShortDescriptors:  "raise the limit of open files (ulimit -n, LimitNOFILE) or lower NOTIFIER_CONCURRENCY",
	notice.ShortMemory:       "give this machine more memory, or the kernel more for sockets (net.ipv4.tcp_mem)",
	notice.ShortPorts:        "widen net.ipv4.ip_local_port_range, or lower HOST_CONCURRENCY of the route",
	notice.ShortResolver:     "check /etc/resolv.conf, and the network to its name servers",
	notice.ShortCertificates: "make the system's certificates readable, then restart",
	notice.ShortLog:          "check where the log is written to, and that its reader runs",
}

// shortages records the shortages of this machine. It is safe for concurrent use.
type shortages struct {
	logger *zap.Logger
	now    func() time.Time

	mu sync.Mutex
	by map[notice.Shortage]*lasting
}

// lasting is a shortage that lasts, or has ended and was not replaced.
type lasting struct {
	Shortage
	last, logged time.Time
	unlogged     int // deferrals since the last line
}

func newShortages(l *zap.Logger) *shortages {
	return &shortages{logger: l, now: time.Now, by: map[notice.Shortage]*lasting{}}
}

// deferred records a deferral for a shortage, and sets how long it lasts. held is how long shortages have held the
// notice. Each deferral of a notice is about as long as all before it together.
func (s *shortages) deferred(r *notice.Result, held time.Duration) {
	if r.Outcome != notice.OutcomeDeferred || r.Reason != notice.ReasonLocal {
		return
	}

	after := min(max(held, notice.LocalDelay), mostLocal)
	r.After = after - rand.N(after/4) // so that not all return at the same time
	s.note(r.Shortage, r.Response)
}

// note records a deferral, and logs the first one of a cause in each shortageEvery.
func (s *shortages) note(cause notice.Shortage, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	l := s.by[cause]
	if l == nil || now.Sub(l.last) >= shortageEnds {
		l = &lasting{Shortage: Shortage{Cause: cause, Since: now, Remedy: remedies[cause]}}
		s.by[cause] = l
	}

	l.last, l.Detail = now, detail
	if l.unlogged++; now.Sub(l.logged) < shortageEvery {
		return
	}

	s.logger.Error("this machine lacks a resource, deferring notices", zap.String("cause", string(cause)), zap.String("detail", detail),
		zap.Int("deferrals", l.unlogged), zap.Time("since", l.Since), zap.String("remedy", l.Remedy))
	l.logged, l.unlogged = now, 0
}

// Shortages returns the shortages of this machine that last, the oldest first.
func (d *Dispatcher) Shortages() []Shortage {
	s := d.shortages
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Shortage
	for _, l := range s.by {
		if s.now().Sub(l.last) < shortageEnds {
			out = append(out, l.Shortage)
		}
	}

	slices.SortFunc(out, func(a, b Shortage) int { return a.Since.Compare(b.Since) })
	return out
}
