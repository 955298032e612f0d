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

	"notifier/internal/pace"
	"notifier/internal/wire"
)

// MinTakeover and MaxTakeover bound a TAKEOVER that is not zero.
const (
	MinTakeover = time.Second
	MaxTakeover = time.Hour
)

// Redis stores heartbeats and sends messages. *[Store] is one.
type Redis interface {
	Publish(ctx context.Context, b Heartbeat) (Roster, error)
	DeclareDead(ctx context.Context, dead LastHeartbeat, by string) (bool, error)
	Leave(ctx context.Context, id string) error
	Descriptions(ctx context.Context, ids []string) ([]Description, error)
	Send(ctx context.Context, id, text string) error
	Listen(ctx context.Context, id string) (Subscription, error)
}

// Host is the process that takes part in the fleet. Its methods must not block. Run's goroutine
// calls all but Received, one at a time.
type Host interface {
	// Figures returns the figures to publish with the heartbeat, as JSON of at most MaxAbout bytes.
	Figures() []byte
	// Changed is called with each new view. The view has another id after this instance was
	// declared dead.
	Changed(*View)
	// Dead is called once for each instance that was declared dead. Its claims may be reclaimed;
	// their tokens begin with its id and a '-'.
	Dead(id string)
	// Tapped is called after each heartbeat with the open taps, as package tracing names them.
	Tapped(taps []string)
	// Receivers is called after each heartbeat with the version of the paused receivers; empty = none was published.
	Receivers(version string)
	// Received is called with each message that another instance has sent (see [Fleet.Send]). Every
	// client with the right to publish can send such messages.
	Received(from, text string)
}

// noHost is a Host that does nothing.
type noHost struct{}

func (noHost) Figures() []byte         { return nil }
func (noHost) Changed(*View)           {}
func (noHost) Dead(string)             {}
func (noHost) Tapped([]string)         {}
func (noHost) Receivers(string)        {}
func (noHost) Received(string, string) {}

// Options of a [Fleet].
type Options struct {
	Redis Redis
	// About is published to the other instances. New sets its Takeover from the field below.
	About About
	// Takeover is how long the others wait for this instance after its connections have closed. At
	// zero its claims are reclaimed only when their leases end, and it declares no instance dead.
	Takeover time.Duration
	// Clock is updated by each heartbeat. It may be nil.
	Clock *wire.Clock
	// Host may be nil.
	Host   Host
	Logger *zap.Logger
}

// Stats are for metrics.
type Stats struct {
	// Alive includes this instance. It is 0 while the fleet is unknown.
	Alive, Leaving, Unresponsive int
	// Dead counts instances declared dead, Renamed the ids that this instance gave up because it
	// was declared dead, and Failed the failed heartbeats.
	Dead, Renamed, Failed uint64
}

// Fleet is this instance's membership in the fleet. Its methods are safe for concurrent use. A nil
// Fleet has no other instances.
type Fleet struct {
	o          Options
	begun      time.Time
	interval   time.Duration
	view       atomic.Pointer[View]
	unknownID  string       // never published
	confirmed  atomic.Int64 // when the last successful heartbeat was sent, since begun; 0 = none under this id
	leaving    atomic.Bool
	noEvents   atomic.Bool
	wake       chan struct{}
	joined     chan struct{}
	first      sync.Once // closes joined
	subscriber *subscriber

	dead, renamed, failures atomic.Uint64

	// The fields below belong to the goroutine of Run.
	detector       *detector
	since          int64
	about          string
	figures        string
	sincePublished int // heartbeats since the description was published
	reported       map[string]int64
	retry          pace.Loop
}

const (
	// republishEvery is after how many heartbeats the description and figures are published again,
	// in case they were lost.
	republishEvery = 30
	// leaveTimeout bounds the last call of Run. If it fails, the others notice the end later.
	leaveTimeout = time.Second
	// heartbeatTimeout bounds the call of one heartbeat. A late heartbeat is better than one that
	// is cancelled and sent again.
	heartbeatTimeout = 3 * time.Second
	// wakeGap is the shortest time between two heartbeats that messages bring forward.
	wakeGap = 50 * time.Millisecond
	// maxText bounds messages to and from other instances, in bytes.
	maxText = 4 << 10
)

// New returns a Fleet. It has no other instances until Run.
func New(o Options) (*Fleet, error) {
	if o.Takeover != 0 && (o.Takeover < MinTakeover || o.Takeover > MaxTakeover) {
		return nil, fmt.Errorf("takeover is %s, want %s to %s, or 0 for none", o.Takeover, MinTakeover, MaxTakeover)
	}

	if o.Host == nil {
		o.Host = noHost{}
	}

	if o.Clock == nil {
		o.Clock = &wire.Clock{}
	}

	o.About.Takeover = o.Takeover.Milliseconds()
	about, err := json.Marshal(o.About)
	if err != nil {
		return nil, fmt.Errorf("encode the instance's description: %w", err)
	}

	if len(about) > MaxAbout {
		o.About.Prefixes, o.About.Routes, o.About.Keys, o.About.Signing = nil, nil, nil, nil
		about, _ = json.Marshal(o.About)
	}

	f := &Fleet{
		o: o, begun: time.Now(), interval: intervalOf(o.Takeover), wake: make(chan struct{}, 1), joined: make(chan struct{}),
		detector: newDetector(o.Takeover), about: string(about), reported: map[string]int64{}, sincePublished: republishEvery,
	}

	f.retry = pace.Loop{Min: minWait, Max: f.interval, Logger: o.Logger, Recovered: "heartbeats succeed again",
		Failure: "heartbeats fail, working without the fleet, keeping this instance's part of the limits"}
	f.subscriber = newSubscriber(f)
	id := newID()
	f.unknownID = newID()
	f.view.Store(&View{id: id, self: hashOf(id)})
	return f, nil
}

// ID returns this instance's id. It changes when the instance was declared dead.
func (f *Fleet) ID() string { return f.View().ID() }

// ClaimID returns the id under which this instance claims notices. It is [Fleet.ID], or a second id while other
// instances may have declared this one dead. Claims under the first id may then be reclaimed at any time, those under
// the second only when their time limits, the leases, expire.
func (f *Fleet) ClaimID() string {
	if f != nil && !f.trusted() {
		return f.unknownID
	}

	return f.ID()
}

// View returns the current view of the fleet.
func (f *Fleet) View() *View {
	if f == nil {
		return nil
	}

	return f.view.Load()
}

// Joined returns a channel that is closed after the first heartbeat, when View contains the other
// instances.
func (f *Fleet) Joined() <-chan struct{} { return f.joined }

// Stats returns the current figures for metrics.
func (f *Fleet) Stats() Stats {
	if f == nil {
		return Stats{}
	}

	v := f.view.Load()
	s := Stats{Dead: f.dead.Load(), Renamed: f.renamed.Load(), Failed: f.failures.Load()}
	if v.known {
		s.Leaving, s.Unresponsive = v.leaving, v.unresponsive
		s.Alive = len(v.others)
		if v.retired {
			s.Leaving++
		} else {
			s.Alive++
		}
	}

	return s
}

// Retire makes this instance leave. It takes no new work from the next heartbeat on, which is sent
// at once, and keeps its part of limits for its attempts in flight until Run ends.
func (f *Fleet) Retire() {
	if f != nil {
		f.leaving.Store(true)
		f.soon()
	}
}

// SetEvents records whether expired events arrive at this instance. A change is published at once
// by a heartbeat. If events arrive at other instances only, those are preferred for all notices.
func (f *Fleet) SetEvents(ok bool) {
	if f != nil && f.noEvents.Swap(!ok) == ok {
		f.soon()
	}
}

// Send publishes a message to the instance with an id, or to all others if id is empty. Messages
// may be lost.
func (f *Fleet) Send(ctx context.Context, id, text string) error {
	if f == nil {
		return nil
	}

	if len(text) > maxText {
		return fmt.Errorf("message to the fleet has %d bytes, at most %d are allowed", len(text), maxText)
	}

	return f.o.Redis.Send(ctx, id, "tell "+f.ID()+" "+text)
}

// Run publishes heartbeats until ctx ends, and then leaves the fleet. It returns nil.
func (f *Fleet) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	lctx, cancel := context.WithCancel(ctx)
	wg.Go(func() { f.subscriber.run(lctx) })
	defer wg.Wait()
	defer cancel()
	defer f.leave(ctx)
	// The first heartbeat waits briefly for the subscription. Otherwise an instance that dies right
	// after it could not be declared dead.
	f.pause(ctx, wakeGap)
	for ctx.Err() == nil {
		wait := f.pass(ctx)
		began := time.Now()
		if !f.pause(ctx, wait) {
			continue
		}

		// Many messages may arrive together.
		if left := wakeGap - time.Since(began); left > 0 {
			pace.Wait(ctx, left)
		}
	}

	return nil
}

// soon brings the next heartbeat forward.
func (f *Fleet) soon() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// pause waits for d, the end of ctx, or soon. It reports whether soon ended the wait.
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
		f.o.Logger.Warn("cannot record that this instance leaves, the others wait until it is unresponsive", zap.Error(err))
	}
}

// pass publishes one heartbeat and evaluates the roster. It returns how long to wait for the next.
func (f *Fleet) pass(ctx context.Context) time.Duration {
	id, subscription := f.ID(), f.subscriber.number()
	b := Heartbeat{ID: id, Leaving: f.leaving.Load(), NoEvents: f.noEvents.Load(), Since: f.since, Ask: f.detector.suspects()}
	f.addDescription(&b)

	from := time.Now()
	sent := from.Sub(f.begun)
	bctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	r, err := f.o.Redis.Publish(bctx, b)
	cancel()
	if err != nil {
		return f.failed(ctx, err)
	}

	f.learnClock(r.Now, from)
	if r.Ended || !r.Known && !f.trusted() {
		f.rename(ctx, id, !r.Ended)
		return 0
	}

	f.succeeded(b, sent)
	if !r.Known && b.About == "" {
		// The description was lost with the previous heartbeat.
		f.sincePublished = republishEvery
		f.soon()
	}

	f.subscriber.check(subscription, r.Connections)
	return f.nextHeartbeat(f.evaluate(ctx, id, subscription, r))
}

// evaluate updates the view from a roster, and declares instances dead. subscription is the number
// of the subscription when the heartbeat was sent.
func (f *Fleet) evaluate(ctx context.Context, id string, subscription uint64, r Roster) findings {
	v := f.detector.read(id, subscription, r)
	f.since = r.Now
	f.describePeers(ctx)
	f.updateView(id)
	f.o.Host.Tapped(r.Taps)
	f.o.Host.Receivers(r.Receivers)
	f.first.Do(func() { close(f.joined) }) // after the view, which the waiting goroutines read

	for _, d := range r.Departures {
		f.reportDeparture(d, r.Now)
	}

	for _, s := range v.dead {
		f.declareDead(ctx, id, s, r.Now)
	}

	return v
}

// declareDead marks an instance as dead in Redis and removes it from the view.
func (f *Fleet) declareDead(ctx context.Context, id string, s LastHeartbeat, now int64) {
	marked, err := f.o.Redis.DeclareDead(ctx, s, id)
	if err != nil {
		if ctx.Err() == nil { // an instance that ends leaves it to the others
			f.o.Logger.Warn("cannot declare an unresponsive instance dead, retrying", zap.String("id", s.ID), zap.Error(err))
		}
		return
	}

	if !marked {
		return
	}

	f.o.Logger.Warn("instance is dead, it published no heartbeat and has no connection", zap.String("id", s.ID),
		zap.String("label", f.detector.members[s.ID].label))
	delete(f.detector.members, s.ID)
	f.updateView(id)
	f.reportDeparture(Departure{ID: s.ID, Dead: true}, now)
}

// nextHeartbeat returns how long to wait for the next heartbeat. Messages wake all instances at the
// same time, so the interval is random by a tenth: the scripts are then spread over time.
func (f *Fleet) nextHeartbeat(v findings) time.Duration {
	wait := f.interval - f.interval/10 + rand.N(f.interval/5)
	if v.next > 0 && v.next < wait {
		return v.next + time.Millisecond
	}

	return wait
}

// addDescription adds the description and figures to a heartbeat if they have changed or were
// published long ago.
func (f *Fleet) addDescription(b *Heartbeat) {
	figures := f.o.Host.Figures()
	if len(figures) > MaxAbout {
		figures = nil
	}

	if f.sincePublished >= republishEvery {
		b.About, b.Figures = f.about, string(figures)
	} else if !bytes.Equal(figures, []byte(f.figures)) {
		b.Figures = string(figures)
	}
}

// succeeded records a successful heartbeat that was sent at the time sent.
func (f *Fleet) succeeded(b Heartbeat, sent time.Duration) {
	f.confirmed.Store(max(1, int64(sent)))
	if b.About != "" {
		f.sincePublished = 0
	}

	f.sincePublished++
	if b.Figures != "" {
		f.figures = b.Figures
	}

	f.retry.Succeed()
}

// failed records a heartbeat without a successful reply. It returns how long to wait for the next.
func (f *Fleet) failed(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}

	f.failures.Add(1)
	f.detector.failed()
	f.sincePublished = republishEvery
	// Retry soon at first: the others may be waiting for this heartbeat, as after a failover.
	since := time.Since(f.begun) - time.Duration(f.confirmed.Load())
	if left := missedUnresponsive*f.interval - since; left > 0 {
		return min(f.retry.Next(), left)
	}

	if v := f.view.Load(); v.known {
		alone := *v
		alone.known = false
		f.put(&alone)
	}

	return f.retry.Fail(err)
}

// rename takes a new id after the old one was declared dead, or may have been (lost).
func (f *Fleet) rename(ctx context.Context, before string, lost bool) {
	after := newID()
	old := f.view.Load()
	v := *old
	v.id, v.self, v.known = after, hashOf(after), false
	f.put(&v)
	f.confirmed.Store(0) // after the id, so that no claim under the old one is trusted in between
	f.renamed.Add(1)
	f.detector.failed()
	f.sincePublished = republishEvery
	why := "declared dead after its TAKEOVER without heartbeat and connection"
	if lost {
		why = "its last heartbeat is no longer in Redis, so it may have been declared dead"
		if err := f.o.Redis.Leave(ctx, before); err != nil {
			f.o.Logger.Debug("cannot remove the old id, it stays until it is unresponsive", zap.Error(err))
		}
	}

	f.o.Logger.Warn("instance continues under a new id, starting no handler for its earlier claims", zap.String("reason", why),
		zap.String("before", before), zap.String("after", after))
	f.subscriber.renew()
}

// describePeers reads the descriptions of instances that have none yet.
func (f *Fleet) describePeers(ctx context.Context) {
	ids := f.detector.undescribed()
	if len(ids) == 0 {
		return
	}

	tctx, cancel := context.WithTimeout(ctx, f.interval)
	defer cancel()
	list, err := f.o.Redis.Descriptions(tctx, ids)
	if err != nil {
		f.o.Logger.Debug("cannot read the descriptions of new instances, retrying", zap.Error(err))
		return
	}

	for i, t := range list {
		if t.About == "" {
			continue // published again within republishEvery heartbeats
		}

		a := decode(t.About)
		f.detector.describe(ids[i], a)
		if !f.detector.members[ids[i]].unresponsive {
			f.o.Logger.Info("instance is alive", zap.String("id", ids[i]), zap.String("label", a.Label), zap.String("version", a.Version))
		}
	}
}

// reportDeparture logs once that an instance has ended, and calls the host if it is dead.
func (f *Fleet) reportDeparture(d Departure, now int64) {
	const remember = 2 * time.Minute
	for id, at := range f.reported {
		if now-at > remember.Milliseconds() {
			delete(f.reported, id)
		}
	}

	if _, done := f.reported[d.ID]; done || !validID(d.ID) {
		return
	}

	f.reported[d.ID] = now
	if !d.Dead {
		f.o.Logger.Info("instance has left", zap.String("id", d.ID))
		return
	}

	f.dead.Add(1)
	if f.o.Takeover > 0 {
		f.o.Host.Dead(d.ID)
	}
}

// updateView stores the view that follows from the members, if it has changed.
func (f *Fleet) updateView(id string) {
	v := &View{id: id, self: hashOf(id), known: true, retired: f.leaving.Load(), selfWithoutEvents: f.noEvents.Load(),
		ids: map[uint64]string{}}
	for name, m := range f.detector.members {
		switch {
		case m.unresponsive:
			v.unresponsive++
		case m.heartbeat.Leaving:
			v.leaving++
			v.holders = append(v.holders, hashOf(name))
			v.lacking(hashOf(name), m, &f.o.About)
		default:
			v.add(name, m, &f.o.About)
		}
	}

	v.choose()
	v.reduce()
	if !same(v, f.view.Load()) {
		f.put(v)
	}
}

func (f *Fleet) put(v *View) {
	v.number = f.view.Load().number + 1
	f.view.Store(v)
	f.o.Host.Changed(v)
}

// received handles a message of the fleet's channels. "joined", "left" and "gone" only bring the
// next heartbeat forward: the roster decides.
func (f *Fleet) received(message string) {
	word, rest, _ := strings.Cut(message, " ")
	switch word {
	case "joined", "left", "gone":
		if rest != f.ID() {
			f.soon()
		}
	case "tell":
		from, text, ok := strings.Cut(rest, " ")
		if ok && validID(from) && from != f.ID() && len(text) <= maxText {
			f.o.Host.Received(from, text)
		}
	}
}
