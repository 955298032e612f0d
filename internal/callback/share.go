package callback

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/time/rate"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// View is the part of the fleet's view that limits need. *fleet.View implements it.
type View interface {
	// Number changes when the view changes.
	Number() uint64
	// Share and Rate return this instance's part of the limit with that name.
	Share(name string, limit int) int
	Rate(name string, perSecond float64) float64
	// Prefers reports whether this instance is the preferred one for a name. Preferred returns the id of the
	// preferred one; empty = unknown.
	Prefers(name string) bool
	Preferred(name string) string
	// Sharers returns the view reduced to the instances that hold a part of the limit with that name.
	Sharers(name string, limit int) View
	// IsAlive reports whether the instance with that id is alive and takes new work.
	IsAlive(id string) bool
	// TakesWork reports whether this instance takes new work. It does not while it is leaving, nor in a view
	// reduced to other instances.
	TakesWork() bool
}

// alone is the View and Fleet of a single instance.
type alone struct{}

func (alone) Number() uint64                           { return 0 }
func (alone) Share(_ string, limit int) int            { return limit }
func (alone) Rate(_ string, perSecond float64) float64 { return perSecond }
func (alone) Prefers(string) bool                      { return true }
func (alone) Preferred(string) string                  { return "" }
func (alone) Sharers(string, int) View                 { return alone{} }
func (alone) TakesWork() bool                          { return true }
func (alone) IsAlive(string) bool                      { return false }

// Fleet connects limits to the other instances. Its methods must not block.
type Fleet interface {
	// View returns the current view of the instances that have a route with a prefix.
	View(prefix string) View
	// Broadcast sends a message to all other instances, which pass it to [Handler.Receive].
	Broadcast(text string)
	// HandOver passes on a notice that this instance has deferred because another one can deliver it.
	HandOver(Handover)
}

func (alone) View(string) View { return alone{} }

func (alone) Broadcast(string) {}

func (alone) HandOver(Handover) {}

// peers connects the limits of one handler to the other instances.
type peers struct {
	Fleet
	// Shared means that rates and slots hold for all instances together. Otherwise they hold for each
	// instance.
	Shared bool
}

// Handover is a deferred notice that is passed to another instance.
type Handover struct {
	Key   string
	To    string        // the id of that instance
	After time.Duration // when it is due again
}

// deferral is the result of a notice that is deferred, with the instances that could deliver it sooner.
type deferral struct {
	notice.Result
	// among is a view of instances that have a free part of the limit; nil = none is known. name selects one
	// of them; empty = the notice's key does.
	among View
	name  string
	// ids, if not empty, are the instances that can deliver the notice.
	ids []string
}

// to returns the instance to which the notice is handed; empty = none.
func (d *deferral) to(key string) string {
	if n := len(d.ids); n > 0 {
		return d.ids[xxhash.Sum64String(key)%uint64(n)]
	}
	if d.among == nil {
		return ""
	}

	return d.among.Preferred(cmp.Or(d.name, key))
}

// hostName is the name under which the slots of a host are divided.
func (l *limits) hostName(host string) string { return l.prefix + " " + host }

func (l *limits) tryName(h *host) string {
	return l.hostName(h.name) + " " + strconv.Itoa(h.trips)
}

// slots returns how many calls to the host may run here; 0 = unlimited. mine is false if all slots belong to
// other instances, because zero slots would mean no limit.
func (l *limits) slots(h *host) (n int, mine bool) {
	most := l.share(h)
	if most == 0 && l.limitsOf(h.name).slots > 0 {
		return 0, false
	}

	return h.limit(most), true
}

// share returns this instance's part of the slots of a host.
func (l *limits) share(h *host) int {
	x := l.limitsOf(h.name)
	if x.slots == 0 || !l.fleet.Shared {
		return x.slots
	}

	if n := l.holders().Number() + 1; h.view != n || h.divided != x {
		h.view, h.divided, h.share = n, x, l.slotHolders(h.name, x).Share(l.hostName(h.name), x.slots)
	}

	return h.share
}

// hostLimits are the limits of one host on a route.
type hostLimits struct {
	slots int     // the lower number of the route's and the one that an operator has set; 0 = unlimited
	rate  float64 // the one that an operator has set, per second; 0 = none
	// few is the maximum number of instances among which slots and rate are divided; 0 = no maximum. It is the lower of
	// slots and rate, at least 1. The same instances hold both: an instance without a slot could not use its part of the
	// rate.
	few int
}

func (l *limits) limitsOf(host string) hostLimits {
	rate, own := l.own(l.prefix, host)
	x := hostLimits{slots: l.max, rate: rate}
	if own > 0 && (l.max == 0 || own < l.max) {
		x.slots = own
	}

	x.few = x.slots
	if rate > 0 && (x.few == 0 || int(rate) < x.few) {
		x.few = max(1, int(rate))
	}

	return x
}

// holders returns the instances that have a part of the route's limits.
func (l *limits) holders() View {
	v := l.fleet.View(l.prefix)
	if !l.fleet.Shared || l.maxSharers == 0 {
		return v
	}

	if l.sharers == nil || l.sharers.Number() != v.Number() {
		l.sharers = v.Sharers(l.prefix, l.maxSharers)
	}

	return l.sharers
}

// slotHolders returns those of the holders that have a part of a host's slots and rate.
func (l *limits) slotHolders(host string, x hostLimits) View {
	v := l.holders()
	if x.few == 0 || !l.fleet.Shared {
		return v
	}

	return v.Sharers(l.hostName(host), x.few)
}

// MaxInstances returns the maximum number of instances that share the work on a route, because its limits cannot be
// divided among more; 0 = no maximum. The instances are those that View.Sharers returns for the route's prefix.
func (h *Handler) MaxInstances(r *route.Route) int {
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

// Slots returns the maximum number of attempts of a route that may run at the same time at this instance. It is 0 if
// the limits of the route are so low that only other instances get a part of them.
func (h *Handler) Slots(r *route.Route) int {
	n, few := r.Slots(), h.MaxInstances(r)
	if few == 0 {
		return n
	}

	v := h.opts.Fleet.View(r.Prefix).Sharers(r.Prefix, few)
	if !v.TakesWork() {
		return 0
	}
	if r.Target.Kind != route.KindFixed || r.HostConcurrency == 0 {
		return n
	}

	s, err := h.state(r)
	if err != nil {
		return n
	}

	// A notice above the host's limit stays unclaimed, so that the first instance with a free slot can claim it.
	part := v.Share(s.limits.hostName(s.fixed.port), r.HostConcurrency)
	if r.Concurrency > 0 {
		part = min(part, r.Concurrency)
	}

	return part
}

// waitingFor is how long a host counts as waiting after a notice was deferred because all its slots were
// taken: about the time between two scrapes of the metrics.
const waitingFor = 15 * time.Second

// Waiting returns how many hosts of a route have notices that wait for a slot, here or at other instances.
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

// pacer applies a route's rate. Calls start at even distances, one at a time. So any number of instances
// together start at most one call each above the rate in a second.
type pacer struct {
	whole   float64 // of the route per second; 0 = unlimited
	limiter *rate.Limiter
	name    string // of the rate
	few     int    // the maximum number of instances that share it; 0 = no maximum
	view    uint64
	part    float64 // of this instance
	// maxWait is the longest wait for a turn within the slot. A call that would wait longer is deferred. It
	// evens out the calls of the instances.
	maxWait time.Duration
	timeout time.Duration // of the route
	slots   int           // of the route
	// turns are when the next deferred notice of each class may return: deferred notices are lined up at the rate.
	turns  [notice.Classes]time.Time
	asked  [notice.Classes]time.Time // when a call of each class last asked for a turn
	starts int                       // see notice.Next
}

// At most 1/waitingSlots of a route's slots may wait for a turn, for at most 1/waitingTimeout of its timeout. A class counts as waiting for
// classAsks after a call of it has asked. While several wait, only calls of the next one may wait that long, and others for 1/waitingOthers
// of it: so the next one finds a turn.
const (
	waitingSlots   = 2
	waitingTimeout = 10
	waitingOthers  = 2
	classAsks      = time.Second
)

func newPacer(r *route.Route) *pacer { return newRatePacer(r.Prefix, r.Rate, r.Timeout, r.Slots()) }

// newRatePacer returns the pacer of a rate with that name. timeout and slots are those of the route.
func newRatePacer(name string, perSecond float64, timeout time.Duration, slots int) *pacer {
	p := &pacer{name: name, whole: perSecond, part: perSecond, maxWait: minAfter, timeout: timeout, slots: slots}
	if timeout > 0 {
		p.maxWait = min(p.maxWait, timeout/waitingTimeout)
	}

	if perSecond > 0 {
		p.limiter = rate.NewLimiter(rate.Limit(perSecond), 1)
		if slots > 0 {
			p.maxWait = min(p.maxWait, time.Duration(float64(slots)/waitingSlots/perSecond*float64(time.Second)))
		}
	}

	return p
}

// share updates this instance's part of the rate.
func (p *pacer) share(now time.Time, v View) {
	n := v.Number() + 1
	if p.view == n {
		return
	}

	p.view, p.part = n, v.Rate(p.name, p.whole)
	if p.part > 0 { // a rate of 0 would refuse every notice, so the old one stays
		p.limiter.SetLimitAt(now, rate.Limit(p.part))
	}
}

// take reserves a turn for a call of a class and returns the wait until it. If no turn is near, after is when the notice may
// return; zero if the whole rate belongs to other instances.
func (p *pacer) take(now time.Time, c notice.Class) (wait, after time.Duration, ok bool) {
	if p.limiter == nil {
		return 0, 0, true
	}

	if p.part == 0 {
		return 0, 0, false
	}

	most := p.maxWait
	p.asked[c] = now
	if c != notice.Next(p.starts, func(o notice.Class) bool { return now.Sub(p.asked[o]) < classAsks }) {
		most /= waitingOthers
	}

	r := p.limiter.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait <= most {
		p.starts++
		return wait, 0, true
	}

	r.CancelAt(now)
	return 0, p.nextTurn(now, wait, c), false
}

// nextTurn returns when a notice that was refused for the rate may return: after all of its class that wait at this instance.
func (p *pacer) nextTurn(now time.Time, wait time.Duration, c notice.Class) time.Duration {
	step, turn := time.Duration(float64(time.Second)/p.part), &p.turns[c]
	if begin := now.Add(wait - step); turn.Before(begin) {
		*turn = begin
	}

	*turn = turn.Add(step)
	after := turn.Sub(now)
	if after > maxTurn {
		*turn = now.Add(maxTurn)
		after = maxTurn/2 + rand.N(maxTurn/2)
	}

	return max(after, minAfter)
}

// noLimits is an Options.HostLimits without limits.
func noLimits(string, string) (float64, int) { return 0, 0 }

// pace returns how long a call of a class to a host must wait for its turn at the host's rate and the route's, or a deferral.
func (l *limits) pace(h *host, now time.Time, c notice.Class) (wait time.Duration, refused *deferral) {
	x := l.limitsOf(h.name)
	switch {
	case x.rate <= 0:
		h.paced = nil
	case h.paced == nil || h.paced.whole != x.rate || h.paced.few != x.few:
		h.paced = newRatePacer(l.hostName(h.name), x.rate, l.pacer.timeout, l.pacer.slots)
		h.paced.few = x.few
	}

	if h.paced != nil {
		if wait, refused = l.turn(turn{h.paced, "the host's rate", l.slotHolders(h.name, x)}, now, c); refused != nil {
			return 0, refused
		}
	}

	next, refused := l.turn(turn{l.pacer, "the route's rate", l.holders()}, now, c)
	return max(wait, next), refused
}

// turn is a turn to reserve at one rate with a name, which is divided among the instances of a view.
type turn struct {
	*pacer
	name string
	of   View
}

// turn reserves a turn for a call of a class.
func (l *limits) turn(x turn, now time.Time, c notice.Class) (wait time.Duration, refused *deferral) {
	if x.limiter != nil && l.fleet.Shared {
		x.share(now, x.of)
	}

	wait, after, ok := x.take(now, c)
	switch {
	case ok:
		return wait, nil
	case after == 0:
		return 0, &deferral{notice.DeferredResult(notice.ReasonRate, minAfter,
			fmt.Sprintf("%s of %g/s belongs to other instances", x.name, x.whole)),
			x.of, "", nil}
	}

	return 0, put(notice.DeferredResult(notice.ReasonRate, after, fmt.Sprintf("%s of %g/s is used up", x.name, x.whole)))
}
