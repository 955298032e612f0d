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
	// fullEvery is how often a client without room for a pause is logged.
	fullEvery = time.Minute
)

// Owner is a client that schedules notices, and the prefix of its keys.
type Owner struct{ Name, Prefix string }

// Ruled returns the receiver that a rule pauses because of a notice, and the client for whom: the notices of the narrower of
// route and client, at a host with its port and, if the notice names one, for its audience. Of several clients the one with
// the longest prefix owns the notice; client is empty if there is none.
func (h *Holds) Ruled(r *route.Route, n *notice.Notice, host string) (x Receiver, client string) {
	x = Receiver{Prefix: r.Prefix, Host: host, Audience: n.Audience}
	longest := -1
	for _, o := range h.Owners {
		if keys.HasPrefix(n.Key, o.Prefix) && len(o.Prefix) > longest {
			longest, client = len(o.Prefix), o.Name
			if longest > len(r.Prefix) {
				x.Prefix = o.Prefix
			}
		}
	}

	return x, client
}

// PauseByRule pauses a receiver until it is resumed. It reports false if the receiver is paused already.
func (h *Holds) PauseByRule(ctx context.Context, by Author, r Receiver, rule string) (bool, error) {
	now, err := h.layout.Wire().Now(ctx)
	if err != nil {
		return false, err
	}

	values, err := h.layout.Receivers(ctx, -1)
	if err != nil {
		return false, err
	}

	text := values.Values[r.String()]
	if p, _ := readEntry(r.String(), text); p != nil && p.Active(now) {
		return false, nil
	}

	v := value{Rule: rule, Since: now.UnixMilli()}
	return h.layout.SetReceiver(ctx, store.ReceiverChange{Field: r.String(), Value: v.text(), Expected: cmp.Or(text, store.NoReceiver),
		Client: by.Client, Most: by.Most})
}

// RuledBy returns the pauses at present by the rules of a route.
func (h *Holds) RuledBy(ctx context.Context, routes *route.Table, r *route.Route) (list []*Pause, err error) {
	t, err := h.Read(ctx)
	if err != nil {
		return nil, err
	}

	for _, p := range t.Pauses() {
		if p.Rule != "" && !p.Resumed && routes.Above(p.Prefix) == r {
			list = append(list, p)
		}
	}

	return list, nil
}

// Tell stores that the hook of the route has a notice of a pause, unless the pause has changed.
func (h *Holds) Tell(ctx context.Context, p *Pause) error {
	v := p.value()
	v.Told = 1
	_, err := h.layout.SetReceiver(ctx, store.ReceiverChange{Field: p.String(), Value: v.text(), Expected: p.text})
	return err
}

// value returns the stored form of a pause by rule.
func (p *Pause) value() value {
	v := value{Rule: p.Rule, Since: p.Since.UnixMilli()}
	if p.Told {
		v.Told = 1
	}

	return v
}

// RulesOptions configure [Rules].
type RulesOptions struct {
	Holds *Holds
	// Author returns the share of a client.
	Author func(client string) Author
	// Paused is called after a pause by this instance.
	Paused func(ctx context.Context, r Receiver, rule string)
	Logger *zap.Logger
}

// Rules pauses receivers by the settings of their routes. Every instance runs one. It is safe for concurrent use.
type Rules struct {
	o    RulesOptions
	wake chan struct{} // has one entry after a change of due
	full time.Time     // when a client without room was logged

	mu   sync.Mutex
	rows map[Receiver][]string // the keys of the notices with the last answers
	due  map[Receiver]verdict  // receivers to pause
}

// verdict is a pause that a rule demands.
type verdict struct{ rule, client string }

// NewRules returns Rules. Run starts it.
func NewRules(o RulesOptions) *Rules {
	return &Rules{o: o, wake: make(chan struct{}, 1), rows: map[Receiver][]string{}, due: map[Receiver]verdict{}}
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
		u.due[x] = verdict{fmt.Sprintf("ON_STATUS %d", a.Status), client}
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
			return nil
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

// pass makes the pauses that are due. Those that fail are made by the next pass.
func (u *Rules) pass(ctx context.Context) error {
	u.mu.Lock()
	due := u.due
	u.due = map[Receiver]verdict{}
	u.mu.Unlock()

	var failed []error
	for x, v := range due {
		if err := u.pause(ctx, x, v); err != nil {
			failed = append(failed, err)
			u.mu.Lock()
			u.due[x] = v
			u.mu.Unlock()
		}
	}

	return errors.Join(failed...)
}

// pause makes a pause, unless the client has used up its share.
func (u *Rules) pause(ctx context.Context, x Receiver, v verdict) error {
	done, err := u.o.Holds.PauseByRule(ctx, u.o.Author(v.client), x, v.rule)
	var full *store.FullError
	switch {
	case errors.As(err, &full):
		if now := time.Now(); now.Sub(u.full) >= fullEvery {
			u.full = now
			u.o.Logger.Warn("cannot pause a receiver by rule, calling it on", zap.String("receiver", x.String()), zap.Error(err))
		}
	case err != nil:
		return err
	case done:
		u.o.Logger.Warn("receiver paused by rule, holding its notices", zap.String("prefix", x.Prefix), zap.String("receiver", x.Host),
			zap.String("audience", x.Audience), zap.String("rule", v.rule))
		u.o.Paused(ctx, x, v.rule)
	}

	return nil
}
