package listener

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

const (
	// eventsToTrust is how many probes in a row must arrive before events that had stopped count as
	// flowing.
	eventsToTrust = 10
	// probeWait is the least time that a probe's event may take. Events that are only late, because
	// this machine is busy, have not stopped.
	probeWait = 250 * time.Millisecond
	// maxSampled is how many keys of one touch are considered as samples.
	maxSampled = 8
	// probeTTL is how long a probe's key lives.
	probeTTL = time.Millisecond
)

// flow observes whether this instance receives the events that one Redis node sends when keys expire. It waits for the
// events of some keys that have expired, the samples. If one is missing, flow writes a probe: a key that expires at
// once. If the probe's event is missing too, flow concludes that events do not arrive.
type flow struct {
	l *Listener
	c redis.Cmdable

	sample atomic.Pointer[sample] // nil = the next touched timer becomes the sample
	probe  atomic.Pointer[string] // the key whose event must arrive; nil = none
	heard  chan struct{}          // receives when the probe's event has arrived
	soon   chan struct{}          // receives when a probe is to be sent at once
	serial atomic.Uint64

	noConfig atomic.Bool // CONFIG is refused

	// The Listener's mutex guards these.
	arrives bool   // the last observation: events arrive
	refused bool   // the user may not subscribe to the channels
	suspect bool   // a probe is due
	config  cause  // reason to expect no events, from CONFIG
	logged  string // the reason logged last, since events of all nodes arrived
	blind   bool   // the events for adoption may not be sent
}

// cause is why the events of a node do not arrive, and what an operator can do.
type cause struct {
	why, remedy string
	err         error
}

const (
	remedyLost = "none: another subscription opens by itself; if it ends again and again, see the log of Redis"
	remedyUser = "give the user the rights that `notifier doctor --acl` prints"
)

// remedyOf returns the remedy for a refused command.
func remedyOf(err error) string {
	switch {
	case redis.IsPermissionError(err):
		return remedyUser
	case redis.IsOOMError(err):
		return wire.RemedyFull + ": Redis is full"
	}

	return "repair the cause in the error"
}

// sample is a timer (a key that expires when a notice is due) that this instance is about to read. At the latest when
// an expired key is read, Redis deletes it and sends its event.
type sample struct {
	key string
	at  time.Time
}

func (l *Listener) newFlow(c redis.Cmdable) *flow {
	f := &flow{l: l, c: c, heard: make(chan struct{}, 1), soon: make(chan struct{}, 1)}

	l.mu.Lock()
	defer l.mu.Unlock()
	// A new node starts with the state of all nodes together, until it is observed. While events do
	// not flow, probes decide, also if the node replaces one that has ended.
	f.arrives = l.flowing
	l.flows[wire.Addr(c)] = f
	return f
}

// Touched receives the keys of timers that are about to be touched, and observes one per node. It
// is safe for concurrent use.
func (l *Listener) Touched(ctx context.Context, ks []string) {
	nodes := map[string]string{} // their keys, by address
	if l.o.Cluster != nil {
		for _, k := range ks[:min(len(ks), maxSampled)] {
			nodes[l.o.Cluster.Master(ctx, k)] = k
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	for addr, f := range l.flows {
		if l.o.Cluster == nil {
			f.take(ks[0])
		} else if k, ok := nodes[addr]; ok {
			f.take(k)
		}
	}
}

// take makes a key the sample if there is none.
func (f *flow) take(key string) {
	if f.sample.Load() == nil {
		f.sample.Store(&sample{key: key, at: time.Now()})
	}
}

// event records the expired event of a key.
func (f *flow) event(key string) {
	if s := f.sample.Load(); s != nil && s.key == key {
		f.sample.CompareAndSwap(s, nil)
	}
	if p := f.probe.Load(); p != nil && *p == key {
		select {
		case f.heard <- struct{}{}:
		default:
		}
	}
}

// suspicious reports whether probes are to be sent, and how many must arrive in a row.
func (f *flow) suspicious() (due bool, need int) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if !f.arrives {
		return true, eventsToTrust
	}

	s := f.sample.Load()
	return f.suspect || s != nil && time.Since(s.at) > f.l.o.Grace, 1
}

// observe sends the probes that are due and records the verdict.
func (f *flow) observe(ctx context.Context) {
	due, need := f.suspicious()
	if !due {
		return
	}

	for range need {
		arrived, err := f.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !refused(err):
			return // the beat detects a node that does not answer
		case err != nil:
			f.l.verdict(f, cause{"cannot set a probe key", remedyOf(err), err})
			return
		case !arrived:
			f.l.unheard(f)
			return
		}
	}

	f.l.verdict(f, cause{})
}

// ask sends one probe and reports whether its event has arrived.
func (f *flow) ask(ctx context.Context) (arrived bool, err error) {
	key, err := f.probeKey(ctx)
	if err != nil {
		return false, err
	}

	select {
	case <-f.heard: // late event of the previous probe
	default:
	}

	f.probe.Store(&key)
	defer f.probe.Store(nil)

	limit := time.NewTimer(max(f.l.o.Grace, probeWait))
	defer limit.Stop()
	if err := f.c.Set(ctx, key, "", probeTTL).Err(); err != nil {
		return false, fmt.Errorf("probe for expired events: %w", err)
	}

	return f.awaitProbe(ctx, key, limit.C)
}

// awaitProbe touches the key of a probe until it has expired by the node's clock. It reports whether
// the event arrives before the limit.
func (f *flow) awaitProbe(ctx context.Context, key string, limit <-chan time.Time) (arrived bool, err error) {
	touch := time.NewTicker(2 * probeTTL)
	defer touch.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-f.heard:
			return true, nil
		case <-limit:
			return false, nil
		case <-touch.C:
			left, err := f.c.Exists(ctx, key).Result()
			if err != nil {
				return false, fmt.Errorf("probe for expired events: %w", err)
			}

			if left == 0 {
				touch.Stop()
			}
		}
	}
}

// probeKey returns a new key of the namespace that belongs to the node.
func (f *flow) probeKey(ctx context.Context) (string, error) {
	id := strconv.FormatInt(f.l.begun.UnixNano(), 36) + "-" + strconv.FormatUint(f.serial.Add(1), 36)
	if f.l.o.Cluster == nil {
		return f.l.o.Space.EventProbe("", id), nil
	}

	text, err := f.c.ClusterNodes(ctx).Result()
	if err != nil {
		return "", err
	}

	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.Contains(fields[2], "myself") {
			continue
		}

		first, _, _ := strings.Cut(fields[8], "-")
		slot, err := strconv.Atoi(first)
		if err != nil || slot < 0 || slot >= keys.Slots {
			break
		}

		return f.l.o.Space.EventProbe(keys.TagIn(slot), id), nil
	}

	return "", fmt.Errorf("%s serves no slots", wire.Addr(f.c))
}

// suspects records why events may not arrive. why is empty if CONFIG says that they are sent.
func (l *Listener) suspects(f *flow, why string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.config, f.suspect = cause{why, "set notify-keyspace-events to " + l.needs + " in redis.conf", err}, why != ""
}

// lost records that a subscription has ended. Its events count as stopped until probes on the next
// one arrive.
func (l *Listener) lost(f *flow) {
	l.verdict(f, cause{"the subscription has ended", remedyLost, nil})
}

// unheard records that the event of a probe did not arrive.
func (l *Listener) unheard(f *flow) {
	l.mu.Lock()
	c := f.config
	l.mu.Unlock()
	if c.why == "" {
		c = cause{why: "the event of a probe key did not arrive", remedy: "check that notify-keyspace-events has " + l.needs +
			"; if it has, look for an overloaded machine or connection"}
	}

	l.verdict(f, c)
}

// verdict records and reports that a node's events do not arrive for a cause, or that they arrive if c is empty.
func (l *Listener) verdict(f *flow, c cause) {
	// All under the lock, so that of two nodes' verdicts the last is reported last.
	l.mu.Lock()
	defer l.mu.Unlock()
	f.arrives, f.suspect = c.why == "", false
	f.sample.Store(nil)
	l.report(f, c)
}

// report publishes a change of the state of all nodes. It logs the change, and each new cause of a node while events do
// not arrive. The caller holds mu.
func (l *Listener) report(f *flow, c cause) {
	all := true
	for _, f := range l.flows {
		all = all && f.arrives && !f.refused
	}

	changed := l.flowing != all
	l.flowing = all
	if all && changed {
		l.o.Logger.Info("expired events arrive, they trigger claims")
		for _, f := range l.flows {
			f.logged = ""
		}
	}

	if !all && c.why != "" && c.why != f.logged {
		f.logged = c.why
		l.o.Logger.Warn("expired events do not arrive, the reconciler claims due notices", zap.String("redis", wire.Addr(f.c)),
			zap.String("why", c.why), zap.String("remedy", c.remedy), zap.Error(c.err))
	}

	if changed {
		l.o.State.Events(all)
	}
}

// refuse records that the node refuses the subscription, so its events do not flow.
func (l *Listener) refuse(f *flow, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.refused = true
	l.report(f, cause{"the user may not subscribe to the channels", grant(f.c, l.channels), err})
}

// admit records that the node accepts the subscription again. Probes then decide whether events
// arrive.
func (l *Listener) admit(f *flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.refused {
		f.refused, f.arrives = false, false
	}
}

// forget removes the state of a node that is no longer followed.
func (l *Listener) forget(f *flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	addr := wire.Addr(f.c)
	if l.flows[addr] == f {
		delete(l.flows, addr)
	}

	delete(l.keyspace, addr)
	if len(l.flows) > 0 {
		l.report(f, cause{})
	}
}
