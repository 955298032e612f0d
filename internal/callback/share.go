package callback

import (
	"cmp"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/time/rate"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// View is what limits need to know of the other instances. *fleet.View is one.
type View interface {
	// Number changes with what the others say.
	Number() uint64
	// Share and Rate are this instance's part of a limit of that name.
	Share(name string, limit int) int
	Rate(name string, perSecond float64) float64
	// Prefers reports whether this instance is the one to try a thing, and
	// Preferred which one is; empty = not known.
	Prefers(name string) bool
	Preferred(name string) string
	// Among is the view with only those that hold a part of a limit of that name.
	Among(name string, limit int) View
	// Lives reports whether the instance of an id takes new work.
	Lives(id string) bool
	// Takes reports whether this instance takes new work: it does not where it is
	// leaving, nor in a view with only others.
	Takes() bool
}

// alone is the View of an instance that knows of no other.
type alone struct{}

func (alone) Number() uint64                           { return 0 }
func (alone) Share(_ string, limit int) int            { return limit }
func (alone) Rate(_ string, perSecond float64) float64 { return perSecond }
func (alone) Prefers(string) bool                      { return true }
func (alone) Preferred(string) string                  { return "" }
func (alone) Among(string, int) View                   { return alone{} }
func (alone) Takes() bool                              { return true }
func (alone) Lives(string) bool                        { return false }

// Fleet is how limits reach the other instances. Its methods must not block.
type Fleet interface {
	// View is the fleet as it is known now.
	View() View
	// Tell sends a message to all others, who give it to [Handler.Heard].
	Tell(text string)
	// Hand takes a notice that this instance has postponed because another one holds the
	// limit.
	Hand(Handed)
}

// View implements Fleet.
func (alone) View() View { return alone{} }

// Tell implements Fleet.
func (alone) Tell(string) {}

// Hand implements Fleet.
func (alone) Hand(Handed) {}

// peers are the other instances.
type peers struct {
	Fleet
	// Shared: rates and slots are of all instances together; otherwise of each.
	Shared bool
}

// Handed is a notice for another instance.
type Handed struct {
	Key   string
	To    string        // the other's id
	After time.Duration // when it is due again
}

// deferral defers a notice.
type deferral struct {
	notice.Result
	// among are those that have what this one lacks; nil = none is known to. Which
	// of them, goes by the name; empty = by the notice.
	among View
	name  string
	// ids are those of the instances that can deliver it.
	ids []string
}

// to is the instance that a notice is handed to; empty = none.
func (d *deferral) to(key string) string {
	if n := len(d.ids); n > 0 {
		return d.ids[xxhash.Sum64String(key)%uint64(n)]
	}
	if d.among == nil {
		return ""
	}
	return d.among.Preferred(cmp.Or(d.name, key))
}

// hostName is what the slots of a host are shared out under, and tryName the one
// try at a time of a host whose breaker is open. Who tries changes from one try
// to the next: the one that is chosen may itself be what fails.
func (l *limits) hostName(host string) string { return l.prefix + " " + host }

func (l *limits) tryName(h *host) string {
	return l.hostName(h.name) + " " + strconv.Itoa(h.trips)
}

// slots is how many calls to the host may be under way from here, 0 = unlimited.
// It is false if all are other instances': a limit of none at all is not one of
// zero slots.
func (l *limits) slots(h *host) (n int, mine bool) {
	most := l.share(h)
	if most == 0 && l.max > 0 {
		return 0, false
	}
	return h.limit(most), true
}

// share is this instance's part of the slots of a host.
func (l *limits) share(h *host) int {
	if l.max == 0 || !l.fleet.Shared {
		return l.max
	}
	v := l.holders()
	if n := v.Number() + 1; h.view != n {
		h.view, h.share = n, v.Share(l.hostName(h.name), l.max)
	}
	return h.share
}

// holders are the instances that can work on the route at all.
func (l *limits) holders() View {
	v := l.fleet.View()
	if !l.fleet.Shared || l.few == 0 {
		return v
	}
	if l.among == nil || l.among.Number() != v.Number() {
		l.among = v.Among(l.prefix, l.few)
	}
	return l.among
}

// slotHolders are those of them that have slots of a host.
func (l *limits) slotHolders(host string) View {
	v := l.holders()
	if l.max == 0 || !l.fleet.Shared {
		return v
	}
	return v.Among(l.hostName(host), l.max)
}

// Few is among how many instances, at most, the work on a route is shared out,
// since its limits have no parts for more; 0 = all. They are those that
// View.Among has of the route's prefix.
func (h *Handler) Few(r *route.Route) int {
	if k := r.Target.Kind; !h.opts.Shared || k != route.KindFixed && k != route.KindNotice {
		return 0
	}
	few := 0
	if r.Rate > 0 {
		few = max(1, int(r.Rate))
	}
	if r.Target.Kind == route.KindFixed && r.HostConcurrency > 0 && (few == 0 || r.HostConcurrency < few) {
		few = r.HostConcurrency
	}
	return few
}

// Slots is how many attempts of a route may be under way here: none where its
// limits have no part for this instance, and no more than it has of the slots of
// its one host, if it has but one. What the host has no slot for is not claimed
// then, and is on time when one is free, here or elsewhere.
func (h *Handler) Slots(r *route.Route) int {
	n, few := r.Slots(), h.Few(r)
	if few == 0 {
		return n
	}
	v := h.opts.Fleet.View().Among(r.Prefix, few)
	if !v.Takes() {
		return 0
	}
	if r.Target.Kind != route.KindFixed || r.HostConcurrency == 0 {
		return n
	}
	s, err := h.state(r)
	if err != nil {
		return n
	}
	part := v.Share(s.limits.hostName(s.fixed.port), r.HostConcurrency)
	if r.Concurrency > 0 {
		part = min(part, r.Concurrency)
	}
	return part
}

// waitingFor is how long a host counts as waiting after a notice was put off
// because all its slots were taken: about the time between two scrapes.
const waitingFor = 15 * time.Second

// Waiting is how many hosts of a route wait for their slots, here or at other
// instances.
func (h *Handler) Waiting(r *route.Route) int {
	v, ok := h.states.Load(r)
	if !ok {
		return 0
	}
	l := v.(*routeState).limits
	l.mu.Lock()
	defer l.mu.Unlock()
	n, since := 0, l.now().Add(-waitingFor)
	for _, x := range l.hosts.byName {
		if x.waited.After(since) {
			n++
		}
	}
	return n
}

// pacer is a route's rate. Calls begin at even distances, each alone: any number
// of instances together then begin at most one more each than the rate in a second.
type pacer struct {
	whole   float64 // of the route, a second; 0 = unlimited
	limiter *rate.Limiter
	name    string // of the rate
	view    uint64
	part    float64 // this instance's
	// maxWait is how long a call waits here for its turn; what would wait longer
	// is put off. It evens out how many come to each instance.
	maxWait time.Duration
	// turn is when the next notice that was put off may come back: they are lined
	// up at the rate itself.
	turn time.Time
}

// Of a route's slots that part may wait for their turn, and for that part of its
// timeout at most.
const (
	waitingSlots   = 2
	waitingTimeout = 10
)

func newPacer(r *route.Route) *pacer {
	perSecond := r.Rate
	p := &pacer{name: r.Prefix, whole: perSecond, part: perSecond, maxWait: minAfter}
	if r.Timeout > 0 {
		p.maxWait = min(p.maxWait, r.Timeout/waitingTimeout)
	}
	if perSecond > 0 {
		p.limiter = rate.NewLimiter(rate.Limit(perSecond), 1)
		if slots := r.Slots(); slots > 0 {
			p.maxWait = min(p.maxWait, time.Duration(float64(slots)/waitingSlots/perSecond*float64(time.Second)))
		}
	}
	return p
}

// take takes a turn: how long it is to be waited for. If there is none soon, after
// is when the notice may come back; it is 0 if the whole rate is other instances'.
func (p *pacer) take(now time.Time, v View, shared bool) (wait, after time.Duration, ok bool) {
	if p.limiter == nil {
		return 0, 0, true
	}
	if shared {
		if n := v.Number() + 1; p.view != n {
			p.view, p.part = n, v.Rate(p.name, p.whole)
			if p.part > 0 { // 0 would be none ever, and stays where it was
				p.limiter.SetLimitAt(now, rate.Limit(p.part))
			}
		}
	}
	if p.part == 0 {
		return 0, 0, false
	}
	r := p.limiter.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait <= p.maxWait {
		return wait, 0, true
	}
	r.CancelAt(now)
	return 0, p.nextTurn(now, wait), false
}

// nextTurn is when a notice refused for the rate may come back; those that wait
// here are before it.
func (p *pacer) nextTurn(now time.Time, wait time.Duration) time.Duration {
	step := time.Duration(float64(time.Second) / p.part)
	if begin := now.Add(wait - step); p.turn.Before(begin) {
		p.turn = begin
	}
	p.turn = p.turn.Add(step)
	after := p.turn.Sub(now)
	if after > maxTurn {
		p.turn = now.Add(maxTurn)
		after = maxTurn/2 + rand.N(maxTurn/2)
	}
	return max(after, minAfter)
}
