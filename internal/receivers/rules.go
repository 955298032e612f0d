package receivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/store"
)

const (
	// pauseRow is the number of answers in a row, to different notices, after which ON_STATUS pauses a receiver.
	pauseRow = 3
	// mostRows is the maximum number of receivers with such answers in an instance's memory.
	mostRows = 4096
	// rulesEvery is the interval of passes.
	rulesEvery = time.Second
	// fullEvery is how often a pause of a client without room is tried, and logged.
	fullEvery = time.Minute
	// lastFor is how long the last write may take.
	lastFor = 3 * time.Second
	// onStatus and pauseAfter begin the Rule of a pause.
	onStatus, pauseAfter = "ON_STATUS", "PAUSE_AFTER"
)

// Owner is a client that schedules notices, and the prefix of its keys.
type Owner struct{ Name, Prefix string }

// Ruled returns the receiver that a rule pauses because of a notice, and the client for whom: the notices of the narrower of
// route and client, at a host with its port and, if the notice names one, for its audience. Of several clients the one with
// the longest prefix owns the notice; client is empty if there is none.
func (h *Holds) Ruled(r *route.Route, n *notice.Notice, host string) (x Receiver, client string) {
	x = Receiver{Prefix: r.Prefix, Host: host, Audience: n.Audience}
	o := h.owner(n.Key)
	if len(o.Prefix) > len(r.Prefix) {
		x.Prefix = o.Prefix
	}

	return x, o.Name
}

// Unowned reports whether a pause by a rule of a route holds no notices, because no client has its prefix any more: see Ruled.
func (h *Holds) Unowned(r *route.Route, p *Pause) bool {
	return p.Prefix != r.Prefix && h.owner(p.Prefix).Prefix != p.Prefix
}

// owner returns the client with the longest prefix that is that of a key, or of another prefix.
func (h *Holds) owner(key string) (owner Owner) {
	longest := -1
	for _, o := range h.Owners {
		if (keys.HasPrefix(key, o.Prefix) || key == o.Prefix) && len(o.Prefix) > longest {
			longest, owner = len(o.Prefix), o
		}
	}

	return owner
}

// PauseByRule pauses a receiver until it is resumed. It reports false if the receiver is paused already.
func (h *Holds) PauseByRule(ctx context.Context, by Author, r Receiver, rule string) (bool, error) {
	now, err := h.layout.Wire().Now(ctx)
	if err != nil {
		return false, err
	}

	p, text, err := h.stored(ctx, r)
	if err != nil || p != nil && p.Active(now) {
		return false, err
	}

	v := value{Rule: rule, Since: now.UnixMilli()}
	return h.layout.SetReceiver(ctx, store.ReceiverChange{Field: r.String(), Value: v.text(), Expected: cmp.Or(text, store.NoReceiver),
		Client: by.Client, Most: by.Most})
}

// RuledBy returns the pauses by the rules of a route: those at present, and those that are being released.
func (h *Holds) RuledBy(ctx context.Context, routes *route.Table, r *route.Route) (list []*Pause, err error) {
	t, err := h.Read(ctx)
	if err != nil {
		return nil, err
	}

	for _, p := range t.Pauses() {
		if p.Rule != "" && routes.Above(p.Prefix) == r {
			list = append(list, p)
		}
	}

	return list, nil
}

// Tell stores that the hook of the route has a notice of a pause, or of its end, unless the pause has changed.
func (h *Holds) Tell(ctx context.Context, p *Pause) error {
	v := p.value()
	v.Told = 1
	text := v.text()
	if p.Resumed {
		text = p.resumed(p.Over, false)
	}

	_, err := h.layout.SetReceiver(ctx, store.ReceiverChange{Field: p.String(), Value: text, Expected: p.text})
	return err
}

// resumed returns the stored form of a pause that has ended. told keeps for the hook what pause that was.
func (p *Pause) resumed(over time.Duration, told bool) string {
	v := value{Over: over.Milliseconds(), Resumed: 1, Rule: p.Rule}
	if told {
		v.Told, v.Since = 1, p.Since.UnixMilli()
	}

	return v.text()
}

// value returns the stored form of a pause by rule.
func (p *Pause) value() value {
	v := value{Rule: p.Rule, Since: p.Since.UnixMilli(), Probe: p.Probe, Made: int64(p.Made), Attempt: p.Attempt, Locked: p.Locked}
	if !p.Probed.IsZero() {
		v.Probed = p.Probed.UnixMilli()
	}

	if p.Told {
		v.Told = 1
	}

	return v
}

// RulesOptions configure [Rules].
type RulesOptions struct {
	Holds *Holds
	// Health has the health for PAUSE_AFTER.
	Health *HealthStore
	Routes *route.Table
	Mine   Mine // may be nil if this is the only instance
	// Author returns the share of a client.
	Author func(client string) Author
	// Changed is called after a pause or, if resumed is true, a resume by this instance.
	Changed func(ctx context.Context, r Receiver, rule string, resumed bool)
	// Find reads a notice.
	Find   func(ctx context.Context, key string) (store.Found, error)
	Logger *zap.Logger
}

// Rules pauses receivers by the settings of their routes. Every instance runs one. It is safe for concurrent use.
type Rules struct {
	o       RulesOptions
	tracker *Tracker             // of routes with PAUSE_AFTER
	wake    chan struct{}        // has one entry after a change of due
	full    map[string]time.Time // by client: when it had no room for a pause
	passes  int

	mu   sync.Mutex
	rows map[Receiver][]string // the keys of the notices with the last answers
	due  map[Receiver]verdict  // receivers to pause
}

// verdict is a pause that a rule demands.
type verdict struct {
	rule, client string
	probe        string // the key of a delivered probe, which resumes the receiver; empty = a pause
}

// NewRules returns Rules. Run starts it.
func NewRules(o RulesOptions) *Rules {
	return &Rules{o: o, tracker: NewTracker(), wake: make(chan struct{}, 1),
		rows: map[Receiver][]string{}, due: map[Receiver]verdict{}, full: map[string]time.Time{}}
}

// Observe adds an attempt for PAUSE_AFTER. A nil Rules drops it.
func (u *Rules) Observe(r *route.Route, n *notice.Notice, host string, a Attempt) {
	if u == nil || host == "" || r.PauseAfter == 0 {
		return
	}

	x, _ := u.o.Holds.Ruled(r, n, host)
	if _, _, held := u.o.Holds.Held(r, n, a.At); !held { // else a call that began before the pause, or a probe
		u.tracker.Observe(r.Prefix, x.String(), a)
	}
}

// Answered counts an answer of a host with its port to a notice of a route. A nil Rules drops it.
func (u *Rules) Answered(r *route.Route, n *notice.Notice, host string, a Attempt) {
	if u == nil || host == "" || a.Status == 0 || !r.OnStatus.Pauses() {
		return
	}

	x, client := u.o.Holds.Ruled(r, n, host)
	_, _, held := u.o.Holds.Held(r, n, a.At)
	u.mu.Lock()
	defer u.mu.Unlock()
	row := u.rows[x]
	switch {
	case held || r.OnStatus[a.Status] != route.ActionPause:
		delete(u.rows, x)
	case slices.Contains(row, n.Key):
	case len(row)+1 < pauseRow:
		if row == nil && len(u.rows) >= mostRows {
			for other := range u.rows {
				delete(u.rows, other)
				break
			}
		}

		u.rows[x] = append(row, n.Key)
	default:
		delete(u.rows, x)
		u.due[x] = verdict{rule: fmt.Sprintf("%s %d", onStatus, a.Status), client: client}
		u.signal()
	}
}

func (u *Rules) signal() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// Run pauses receivers until ctx ends, and returns nil.
func (u *Rules) Run(ctx context.Context) error {
	again := pace.Loop{Min: rulesEvery, Max: 10 * time.Second, Logger: u.o.Logger,
		Failure: "cannot pause receivers by rule, retrying", Recovered: "pausing receivers by rule again"}
	for wait := rulesEvery; ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return u.last(ctx)
		case <-u.wake:
			timer.Stop()
		case <-timer.C:
		}

		switch err := u.pass(ctx); {
		case err == nil:
			again.Succeed()
			wait = rulesEvery
		case ctx.Err() == nil:
			wait = again.Fail(err)
		}
	}
}

// last writes the attempts since the last pass.
func (u *Rules) last(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFor)
	defer cancel()
	if err := u.o.Health.WriteAll(ctx, u.tracker); err != nil {
		u.o.Logger.Debug("cannot write the health of receivers for PAUSE_AFTER", zap.Error(err))
	}

	return nil
}

// after pauses the receivers of the routes of this instance that fail for the duration PAUSE_AFTER; of all routes if all is true.
func (u *Rules) after(ctx context.Context, all bool) error {
	if u.tracker.Changed() {
		if err := u.o.Holds.layout.Known(ctx); err != nil { // another Redis answers, with another layout
			return err
		}
	}

	failed := []error{u.o.Health.Write(ctx, u.tracker)}
	for _, r := range u.o.Routes.All() {
		at := u.o.Health.Wire.Space.Partition(r.Prefix, r.Prefix)
		if r.PauseAfter > 0 && (all || u.o.Mine == nil || u.o.Mine.Tidies(at)) {
			failed = append(failed, u.afterOf(ctx, r))
		}
	}

	if all {
		failed = append(failed, u.o.Health.Sync(ctx, u.tracker))
	}

	return errors.Join(failed...)
}

// afterOf pauses receivers of a route whose last attempt failed, the duration after the first failure since the last success.
// Their health begins anew, so that it does not pause them again after a resume.
func (u *Rules) afterOf(ctx context.Context, r *route.Route) error {
	list, err := u.o.Health.Read(ctx, []string{r.Prefix})
	if err != nil {
		return err
	}

	var failed []error
	for _, x := range list[0].Receivers {
		p, _ := readEntry(x.Name, "{}")
		if p == nil || !x.Failing() || x.LastAttempt.Sub(x.Since) < r.PauseAfter {
			continue
		}

		v := verdict{rule: pauseAfter + " " + notice.Short(r.PauseAfter), client: u.o.Holds.owner(p.Prefix).Name}
		room, err := u.pause(ctx, p.Receiver, v)
		if err == nil && room {
			err = u.o.Health.Forget(ctx, r.Prefix, x.Name)
		}

		failed = append(failed, err)
	}

	return errors.Join(failed...)
}

// pass makes the pauses and resumes that are due. The next pass retries those that fail.
func (u *Rules) pass(ctx context.Context) error {
	u.mu.Lock()
	due := u.due
	u.due = map[Receiver]verdict{}
	u.mu.Unlock()

	u.passes++
	all := u.passes%allEvery == 0
	failed := []error{u.after(ctx, all), u.probes(ctx, all)}
	for x, v := range due {
		step := u.pause
		if v.probe != "" {
			step = u.resume
		}

		if _, err := step(ctx, x, v); err != nil {
			failed = append(failed, err)
			u.mu.Lock()
			u.due[x] = v
			u.mu.Unlock()
		}
	}

	return errors.Join(failed...)
}

// pause makes a pause. It reports false if the client has used up its share.
func (u *Rules) pause(ctx context.Context, x Receiver, v verdict) (room bool, err error) {
	if time.Since(u.full[v.client]) < fullEvery {
		return false, nil
	}

	done, err := u.o.Holds.PauseByRule(ctx, u.o.Author(v.client), x, v.rule)
	var full *store.FullError
	switch {
	case errors.As(err, &full):
		u.full[v.client] = time.Now()
		u.o.Logger.Warn("cannot pause a receiver by rule, calling it on", zap.String("receiver", x.String()), zap.Error(err))
		return false, nil
	case err != nil:
		return true, err
	case done:
		u.o.Logger.Warn("receiver paused by rule, holding its notices", zap.String("prefix", x.Prefix), zap.String("receiver", x.Host),
			zap.String("audience", x.Audience), zap.String("rule", v.rule))
		u.o.Changed(ctx, x, v.rule, false)
	}

	return true, nil
}
