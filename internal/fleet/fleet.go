package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/alarm"
	"notifier/internal/retry"
)

// Bounds of a TAKEOVER that is not zero.
const (
	MinTakeover = time.Second
	MaxTakeover = time.Hour
)

// Redis is what a fleet needs of Redis. *[Store] is one.
type Redis interface {
	Beat(ctx context.Context, b Beat) (Roll, error)
	CountOut(ctx context.Context, gone Sign, by string) (bool, error)
	Leave(ctx context.Context, id string) error
	Told(ctx context.Context, ids []string) ([]Told, error)
	Tell(ctx context.Context, id, text string) error
	Listen(ctx context.Context, id string) (Line, error)
}

// Host is the process that is an instance of the fleet. Its methods must not block. All but
// Heard are called by the goroutine of Run, one at a time.
type Host interface {
	// Figures makes the figures that stand beside the sign of life, as JSON of at most
	// MaxAbout bytes.
	Figures() []byte
	// Changed takes each new view. Its id is another one after this instance was counted
	// out.
	Changed(*View)
	// Gone is called once for each instance that is gone: its claims may be reclaimed. Their
	// tokens begin with its id and a '-'.
	Gone(id string)
	// Heard takes what others tell: see Tell. Anyone who may publish to this Redis can send
	// it.
	Heard(from, text string)
}

// silent is a Host that does nothing.
type silent struct{}

func (silent) Figures() []byte      { return nil }
func (silent) Changed(*View)        {}
func (silent) Gone(string)          {}
func (silent) Heard(string, string) {}

// Options of a Fleet.
type Options struct {
	Redis Redis
	// About is what is told to the others. Takeover is set from the field below.
	About About
	// Takeover is how long this instance is waited for once its connections are
	// gone; zero = its claims are never taken over before their lease, and it
	// counts nobody out.
	Takeover time.Duration
	// Host may be nil.
	Host   Host
	Logger *zap.Logger
}

// Stats are for metrics.
type Stats struct {
	// Living includes this instance; it is 0 while the fleet is unknown.
	Living, Leaving, Silent int
	// Gone, Renamed and Failed count: instances that were heard to be gone, own
	// ids that were counted out, and signs of life that failed.
	Gone, Renamed, Failed uint64
}

// Fleet is one instance's part in the fleet. Its methods are safe for
// concurrent use; on a nil Fleet they answer as one that knows nobody.
type Fleet struct {
	o            Options
	begun        time.Time
	beat         time.Duration
	view         atomic.Pointer[View]
	aside        string       // never told to anybody
	confirmed    atomic.Int64 // since begun: when the last sign of life that arrived was sent; 0 = none under this id
	leaves       atomic.Bool
	noEvents     atomic.Bool
	ahead        atomic.Int64 // ns that the clock here is ahead of Redis's
	wake         chan struct{}
	joined       chan struct{}
	first        sync.Once // closes joined
	subscription *subscription

	gone, renamed, failures atomic.Uint64

	// Below: of the goroutine of Run alone.
	judge     *judge
	since     int64
	about     string
	figures   string
	sent      int // beats since what is told was sent
	announced map[string]int64
	retry     retry.Loop
}

const (
	// tellEvery is after how many beats all that is told is told again, in case
	// it was lost.
	tellEvery = 30
	// leaveTimeout is how long the farewell may take: others learn of it
	// anyhow, only later.
	leaveTimeout = time.Second
	// signTimeout is how long a sign of life may take. A late one is better
	// than one that is given up and begun anew.
	signTimeout = 3 * time.Second
	// wakeGap keeps messages from making beats as fast as they come.
	wakeGap = 50 * time.Millisecond
	// longestText bounds what Tell sends and Heard hears, in bytes.
	longestText = 4 << 10
)

// New makes a Fleet that knows nobody until Run.
func New(o Options) (*Fleet, error) {
	if o.Takeover != 0 && (o.Takeover < MinTakeover || o.Takeover > MaxTakeover) {
		return nil, fmt.Errorf("a takeover of %s; want %s to %s, or none", o.Takeover, MinTakeover, MaxTakeover)
	}
	if o.Host == nil {
		o.Host = silent{}
	}
	o.About.Takeover = o.Takeover.Milliseconds()
	about, err := json.Marshal(o.About)
	if err != nil {
		return nil, fmt.Errorf("what is told to the fleet: %w", err)
	}
	if len(about) > MaxAbout {
		o.About.Routes, o.About.Keys, o.About.Signing = nil, nil, nil
		about, _ = json.Marshal(o.About)
	}
	f := &Fleet{
		o: o, begun: time.Now(), beat: beatOf(o.Takeover), wake: make(chan struct{}, 1), joined: make(chan struct{}),
		judge: newJudge(o.Takeover), about: string(about), announced: map[string]int64{}, sent: tellEvery,
	}
	f.retry = retry.Loop{Min: shortestWait, Max: f.beat, Logger: o.Logger, Recovered: "the fleet is known again",
		Failure: "no sign of life arrives: this instance works as if alone, and keeps its part of the limits"}
	f.subscription = newSubscription(f)
	id := newID()
	f.aside = newID()
	f.view.Store(&View{id: id, self: hashOf(id)})
	return f, nil
}

// ID is this instance's id. It changes when the instance was counted out.
func (f *Fleet) ID() string { return f.View().ID() }

// ClaimID is what claims are made under. It is [Fleet.ID], or, while this
// instance may have been counted out, one that nobody knows: claims under that
// are taken over by nobody, and come back with their lease.
func (f *Fleet) ClaimID() string {
	if f != nil && !f.trusted() {
		return f.aside
	}
	return f.ID()
}

// View is the fleet as it is known now.
func (f *Fleet) View() *View {
	if f == nil {
		return nil
	}
	return f.view.Load()
}

// Joined is closed when the first sign of life has arrived, and View knows who else
// lives.
func (f *Fleet) Joined() <-chan struct{} { return f.joined }

// Stats tells of the fleet now.
func (f *Fleet) Stats() Stats {
	if f == nil {
		return Stats{}
	}
	v := f.view.Load()
	s := Stats{Gone: f.gone.Load(), Renamed: f.renamed.Load(), Failed: f.failures.Load()}
	if v.known {
		s.Leaving, s.Silent = v.leaving, v.silent
		s.Living = len(v.others)
		if v.out {
			s.Leaving++
		} else {
			s.Living++
		}
	}
	return s
}

// MayStart reports whether a handler may start for a claim with that token. It
// may not if the claim was made under an id that was counted out, or if this
// one may have been since its last sign of life. Such a claim is to be given
// back; the settle of one that was taken over is refused by its token.
func (f *Fleet) MayStart(token string) bool {
	if f == nil || under(token, f.aside) {
		return true
	}
	// Trust first: a rename in between changes the id before it makes what is
	// under way trusted again.
	if !f.trusted() {
		return false
	}
	return under(token, f.view.Load().id)
}

// under reports whether a token was made under an id.
func under(token, id string) bool {
	return len(token) > len(id) && token[:len(id)] == id && token[len(id)] == '-'
}

// trusted reports whether nobody can have counted this instance out.
func (f *Fleet) trusted() bool {
	confirmed := f.confirmed.Load()
	return f.o.Takeover == 0 || confirmed == 0 || time.Since(f.begun)-time.Duration(confirmed) < f.o.Takeover
}

// ClockAhead is how far this machine's clock was ahead of Redis's at the last sign
// of life, good to half a round trip and a millisecond.
func (f *Fleet) ClockAhead() time.Duration {
	if f == nil {
		return 0
	}
	return time.Duration(f.ahead.Load())
}

// Retire says that this instance takes no new work: it is preferred for nothing
// from the next beat on, which comes at once, and keeps its part of limits on
// what is under way until Run ends.
func (f *Fleet) Retire() {
	if f != nil {
		f.leaves.Store(true)
		f.soon()
	}
}

// SetEvents says whether expired events arrive at this instance. One at which they do not is
// preferred for nothing as long as they arrive at another, from the next beat on, which
// comes at once.
func (f *Fleet) SetEvents(ok bool) {
	if f != nil && f.noEvents.Swap(!ok) == ok {
		f.soon()
	}
}

// Tell sends a message to the instance of that id, or to all others if it is
// empty. It may be lost.
func (f *Fleet) Tell(ctx context.Context, id, text string) error {
	if f == nil {
		return nil
	}
	if len(text) > longestText {
		return fmt.Errorf("a message of %d bytes to the fleet; at most %d", len(text), longestText)
	}
	return f.o.Redis.Tell(ctx, id, "tell "+f.ID()+" "+text)
}

// Run gives signs of life until ctx ends, then leaves. It returns nil then.
func (f *Fleet) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	lctx, cancel := context.WithCancel(ctx)
	wg.Go(func() { f.subscription.run(lctx) })
	defer wg.Wait()
	defer cancel()
	defer f.leave(ctx)
	// The first sign waits a moment for the subscription, so that whoever dies
	// right after it can be counted out.
	f.pause(ctx, wakeGap)
	for ctx.Err() == nil {
		wait := f.pass(ctx)
		began := time.Now()
		if !f.pause(ctx, wait) {
			continue
		}
		// Woken: many messages may come at once.
		if left := wakeGap - time.Since(began); left > 0 {
			alarm.Wait(ctx, left)
		}
	}
	return nil
}

// soon brings the next beat forward.
func (f *Fleet) soon() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// pause waits; it reports whether it was woken.
func (f *Fleet) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-f.wake:
		return true
	}
	return false
}

func (f *Fleet) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := f.o.Redis.Leave(ctx, f.ID()); err != nil {
		f.o.Logger.Warn("the fleet was not told that this instance leaves; it is waited for", zap.Error(err))
	}
}

// pass gives one sign of life and takes what it brings. It returns how long to
// wait for the next.
func (f *Fleet) pass(ctx context.Context) time.Duration {
	id, line := f.ID(), f.subscription.number()
	b := Beat{ID: id, Leaving: f.leaves.Load(), NoEvents: f.noEvents.Load(), Since: f.since, Ask: f.judge.suspects()}
	f.tell(&b)
	sent := time.Since(f.begun)
	bctx, cancel := context.WithTimeout(ctx, signTimeout)
	r, err := f.o.Redis.Beat(bctx, b)
	cancel()
	if err != nil {
		return f.failed(ctx, err)
	}
	trip := time.Since(f.begun) - sent
	f.ahead.Store(int64(time.Now().Add(-trip / 2).Sub(time.UnixMilli(r.Now))))
	if r.Ended || !r.Known && !f.trusted() {
		f.rename(ctx, id, !r.Ended)
		return 0
	}
	f.worked(b, sent)
	if !r.Known && b.About == "" {
		// What was told is lost with the sign before.
		f.sent = tellEvery
		f.soon()
	}
	f.subscription.check(line, r.Connections)
	v := f.judge.read(id, line, r)
	f.since = r.Now
	f.introduce(ctx)
	f.publish(id)
	f.first.Do(func() { close(f.joined) }) // whoever waits for it looks at the view then
	for _, d := range r.Departures {
		f.announce(d, r.Now)
	}
	for _, s := range v.gone {
		out, err := f.o.Redis.CountOut(ctx, s, id)
		switch {
		case err != nil:
			f.o.Logger.Warn("a silent instance could not be counted out", zap.String("id", s.ID), zap.Error(err))
		case out:
			f.o.Logger.Warn("an instance gave no sign of life and has no connection: it is gone", zap.String("id", s.ID),
				zap.String("label", f.judge.members[s.ID].label))
			delete(f.judge.members, s.ID)
			f.publish(id)
			f.announce(Departure{ID: s.ID, Gone: true}, r.Now)
		}
	}
	// Messages reach all at once, and would keep them in step: spread, they take
	// turns at Redis.
	wait := f.beat - f.beat/10 + rand.N(f.beat/5)
	if v.next > 0 && v.next < wait {
		return v.next + time.Millisecond
	}
	return wait
}

// tell adds to a beat what is told, if it is new or has not been told for long.
func (f *Fleet) tell(b *Beat) {
	figures := f.o.Host.Figures()
	if len(figures) > MaxAbout {
		figures = nil
	}
	if f.sent >= tellEvery {
		b.About, b.Figures = f.about, string(figures)
	} else if !bytes.Equal(figures, []byte(f.figures)) {
		b.Figures = string(figures)
	}
}

// worked notes a sign of life that has arrived.
func (f *Fleet) worked(b Beat, sent time.Duration) {
	f.confirmed.Store(max(1, int64(sent)))
	if b.About != "" {
		f.sent = 0
	}
	f.sent++
	if b.Figures != "" {
		f.figures = b.Figures
	}
	f.retry.Succeed()
}

// failed notes a sign of life that did not arrive, as far as is known.
func (f *Fleet) failed(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	f.failures.Add(1)
	f.judge.failed()
	f.sent = tellEvery
	// At first soon: others may wait for this sign, as after a failover.
	since := time.Since(f.begun) - time.Duration(f.confirmed.Load())
	if left := beatsSilent*f.beat - since; left > 0 {
		return min(f.retry.Next(), left)
	}
	if v := f.view.Load(); v.known {
		alone := *v
		alone.known = false
		f.put(&alone)
	}
	return f.retry.Fail(err)
}

// rename takes a new id after the old one was counted out, or may have been.
func (f *Fleet) rename(ctx context.Context, before string, lost bool) {
	after := newID()
	old := f.view.Load()
	v := *old
	v.id, v.self, v.known = after, hashOf(after), false
	f.put(&v)
	f.confirmed.Store(0) // after the id: a claim under the old one must not be trusted meanwhile
	f.renamed.Add(1)
	f.judge.failed()
	f.sent = tellEvery
	why := "this instance was counted out: it gave no sign of life and had no connection to Redis for its takeover"
	if lost {
		why = "this instance may have been counted out: its last sign of life is not in Redis any more"
		if err := f.o.Redis.Leave(ctx, before); err != nil {
			f.o.Logger.Debug("the old id stays until it is silent", zap.Error(err))
		}
	}
	f.o.Logger.Warn(why+"; it goes on under a new id, and starts no handler for what it claimed before",
		zap.String("before", before), zap.String("after", after))
	f.subscription.renew()
}

// introduce learns what members tell of themselves that are not known yet.
func (f *Fleet) introduce(ctx context.Context) {
	ids := f.judge.unknown()
	if len(ids) == 0 {
		return
	}
	tctx, cancel := context.WithTimeout(ctx, f.beat)
	defer cancel()
	list, err := f.o.Redis.Told(tctx, ids)
	if err != nil {
		f.o.Logger.Debug("what instances tell could not be read", zap.Error(err))
		return
	}
	for i, t := range list {
		if t.About == "" {
			continue // lost; it is told again within tellEvery beats
		}
		a := decode(t.About)
		f.judge.describe(ids[i], a)
		if !f.judge.members[ids[i]].silent {
			f.o.Logger.Info("an instance lives", zap.String("id", ids[i]), zap.String("label", a.Label), zap.String("version", a.Version))
		}
	}
}

// announce tells once of an instance that is gone.
func (f *Fleet) announce(d Departure, now int64) {
	const remember = 2 * time.Minute
	for id, at := range f.announced {
		if now-at > remember.Milliseconds() {
			delete(f.announced, id)
		}
	}
	if _, done := f.announced[d.ID]; done || !validID(d.ID) {
		return
	}
	f.announced[d.ID] = now
	if !d.Gone {
		f.o.Logger.Info("an instance has left", zap.String("id", d.ID))
		return
	}
	f.gone.Add(1)
	if f.o.Takeover > 0 {
		f.o.Host.Gone(d.ID)
	}
}

// publish makes the view that follows from the members, if it is another.
func (f *Fleet) publish(id string) {
	v := &View{id: id, self: hashOf(id), known: true, out: f.leaves.Load(), selfDeaf: f.noEvents.Load(), ids: map[uint64]string{}}
	for name, m := range f.judge.members {
		switch {
		case m.silent:
			v.silent++
		case m.sign.Leaving:
			v.leaving++
			v.holders = append(v.holders, hashOf(name))
		default:
			v.ids[hashOf(name)] = name
			v.others = append(v.others, hashOf(name))
			if m.sign.NoEvents {
				v.deaf = append(v.deaf, hashOf(name))
			}
			for route, digest := range f.o.About.Routes {
				if m.described && m.routes[route] != digest {
					if v.uneven == nil {
						v.uneven = map[string]bool{}
					}
					v.uneven[route] = true
				}
			}
			v.holders = append(v.holders, hashOf(name))
		}
	}
	v.choose()
	if !same(v, f.view.Load()) {
		f.put(v)
	}
}

func (f *Fleet) put(v *View) {
	v.number = f.view.Load().number + 1
	f.view.Store(v)
	f.o.Host.Changed(v)
}

// heard takes a message of the fleet's channels: a reason to look, never a
// truth of its own.
func (f *Fleet) heard(text string) {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "joined", "left", "gone":
		if rest != f.ID() {
			f.soon()
		}
	case "tell":
		from, said, ok := strings.Cut(rest, " ")
		if ok && validID(from) && from != f.ID() && len(said) <= longestText {
			f.o.Host.Heard(from, said)
		}
	}
}
