package engine

import (
	"context"
	"time"

	"notifier/internal/audit"
	"notifier/internal/keys"
	"notifier/internal/receivers"
	"notifier/internal/store"
)

// PauseReceiver pauses a receiver for a client until a time, or until it is resumed if the time is zero; see
// [receivers.Holds.Pause]. The error is a *[store.FullError] if the client has used up its share.
func (e *Engine) PauseReceiver(ctx context.Context, client string, r receivers.Receiver, until time.Time, over time.Duration) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.holds.Pause(ctx, e.maker(client), r, until, over)
}

// ResumeReceiver ends the pause of a receiver, and spreads its held notices over a duration. It reports whether the
// receiver was paused.
func (e *Engine) ResumeReceiver(ctx context.Context, r receivers.Receiver, over time.Duration) (paused bool, err error) {
	if err := e.known(ctx); err != nil {
		return false, err
	}
	return e.holds.Resume(ctx, r, over)
}

// LimitReceiver sets the limits of a host for a client; limits of 0 are removed. The error is a *[store.FullError] if the
// client has used up its share.
func (e *Engine) LimitReceiver(ctx context.Context, client string, l receivers.Limit) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	return e.holds.SetLimit(ctx, e.maker(client), l)
}

func (e *Engine) maker(client string) receivers.Author {
	return receivers.Author{Client: client, Most: e.share(store.MaxReceivers)}
}

// changedByRule adds a pause or resume by rule to the audit.
func (e *Engine) changedByRule(ctx context.Context, r receivers.Receiver, rule string, resumed bool) {
	entry := audit.Entry{Client: audit.Rule, Via: audit.Rule, Address: e.o.Instance, Action: audit.PauseReceiver, Prefix: r.Prefix,
		Result: audit.Done, Detail: r.String() + ": " + rule}
	if resumed {
		entry.Action, entry.Detail = audit.ResumeReceiver, entry.Detail+", a probe was delivered"
	}

	audit.NewTrail(e, e.o.Logger).Note(ctx, entry)
}

// share returns the part of a bound that each configured client has to itself, so that no client can use up that of another.
func (e *Engine) share(bound int) int { return max(1, bound/max(1, len(e.o.Clients))) }

// Holds returns the pauses and limits as they are now in Redis. While they cannot be read, it returns what this instance
// knows.
func (e *Engine) Holds(ctx context.Context) (*receivers.HoldTable, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return e.holds.Read(ctx)
}

// HeldCounts returns for each pause, named by its field, how many notices it holds, by prefix of their route.
func (e *Engine) HeldCounts(ctx context.Context, pauses []string) ([]map[string]int64, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}

	counts, err := e.holds.Counts(ctx, pauses)
	out := make([]map[string]int64, len(counts))
	for i, c := range counts {
		out[i] = byPrefix(c)
	}

	return out, err
}

func byPrefix(c map[keys.Partition]int64) map[string]int64 {
	out := map[string]int64{}
	for at, n := range c {
		out[at.Prefix] += n
	}

	return out
}

// LastHour returns the attempts of receivers in the last hour, by prefix of the route and receiver.
func (e *Engine) LastHour(ctx context.Context) (map[string]map[string]receivers.Hour, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}

	var prefixes []string
	for _, r := range e.o.Routes.All() {
		prefixes = append(prefixes, r.Prefix)
	}

	return e.receivers.store().LastHour(ctx, prefixes)
}

// HostLimits returns the limits that operators have set for a host on the route with a prefix; 0 = none.
func (e *Engine) HostLimits(prefix, host string) (rate float64, concurrency int) {
	return e.holds.Limit(prefix, host)
}
