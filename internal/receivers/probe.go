package receivers

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

const (
	// probeEvery is the time between two probes of a pause by rule, and before the first.
	probeEvery = 10 * time.Minute
	// probeFor is how long a chosen probe is released again if an instance held it that had not read the choice yet.
	probeFor = time.Minute
	// probeMost is the maximum number of held notices of a shard among which a probe is chosen.
	probeMost = 200
	// probeOver is the time over which the held notices are spread after a delivered probe.
	probeOver = time.Minute
)

// probes reports whether an attempt is the probe of the pause.
func (p *Pause) probes(n *notice.Notice, attempt int) bool {
	return p.Probe == n.Key && p.Made == n.Made && p.Attempt == attempt && p.Locked == n.Locked
}

// probes makes the steps of the probes of the pauses by rule that this instance is preferred for; of all pauses if all is true.
func (u *Rules) probes(ctx context.Context, all bool) error {
	var failed []error
	var now time.Time // by Redis's clock, read once
	for _, p := range u.o.Holds.Table().Pauses() {
		r := u.o.Routes.Above(p.Prefix)
		if p.Rule == "" || p.Resumed || r == nil {
			continue
		}

		if at := u.o.Health.Wire.Space.Partition(r.Prefix, r.Prefix); !all && u.o.Mine != nil && !u.o.Mine.Tidies(at) {
			continue
		}

		if now.IsZero() {
			var err error
			if now, err = u.o.Holds.layout.Wire().Now(ctx); err != nil {
				return errors.Join(append(failed, err)...)
			}
		}

		failed = append(failed, u.probe(ctx, r, p, now))
	}

	return errors.Join(failed...)
}

// probe chooses the probe of a pause when it is time for one. A later pass releases it, because an instance that has not read
// the choice would hold it again.
func (u *Rules) probe(ctx context.Context, r *route.Route, p *Pause, now time.Time) error {
	last := p.Since
	if p.Probed.After(last) {
		last = p.Probed
	}

	switch {
	case p.Probe != "" && now.Sub(p.Probed) < probeFor:
		return u.releaseProbe(ctx, r, p)
	case now.Sub(last) < probeEvery:
		return nil
	}

	v := p.value()
	v.Probe, v.Made, v.Attempt, v.Locked, v.Probed = "", 0, 0, 0, now.UnixMilli()
	n, err := u.choose(ctx, r, p, now)
	if err != nil {
		return err
	}

	if n != nil {
		v.Probe, v.Made, v.Attempt, v.Locked = n.Key, int64(n.Made), n.NextAttempt(), n.Locked
	}

	_, err = u.o.Holds.layout.SetReceiver(ctx, store.ReceiverChange{Field: p.String(), Value: v.text(), Expected: p.text})
	return err
}

// choose returns the held notice of a pause with the most attempts left; nil if no notice has two or more left.
func (u *Rules) choose(ctx context.Context, r *route.Route, p *Pause, now time.Time) (probe *notice.Notice, err error) {
	space, most := u.o.Holds.layout.Space(), 1
	for shard := range space.Places() {
		list := space.Held(keys.Partition{Prefix: r.Prefix, Shard: shard})
		held, err := u.o.Holds.layout.Wire().Redis.ZRangeByLex(ctx, list, &redis.ZRangeBy{Min: "[" + p.String() + " ",
			Max: "(" + p.String() + "!", Count: probeMost}).Result()
		if err != nil {
			return nil, u.o.Holds.layout.Wire().Wrapped("held", err)
		}

		for _, member := range held {
			f, err := u.o.Find(ctx, member[len(p.String())+1:])
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}

			if left := attemptsLeft(r, f.Notice); left > most && f.State == notice.Scheduled && !f.Expired(now) {
				probe, most = f.Notice, left
			}
		}
	}

	return probe, nil
}

// attemptsLeft returns the number of attempts that a notice has left.
func attemptsLeft(r *route.Route, n *notice.Notice) int {
	if last := r.MaxAttempts(n); last > 0 {
		return last - n.AttemptsMade
	}
	return math.MaxInt
}

// releaseProbe releases the probe of a pause, unless its attempt was made.
func (u *Rules) releaseProbe(ctx context.Context, r *route.Route, p *Pause) error {
	f, err := u.o.Find(ctx, p.Probe)
	if errors.Is(err, store.ErrNotFound) || err == nil && (f.State != notice.Scheduled || !p.probes(f.Notice, f.NextAttempt())) {
		return nil
	}
	if err != nil {
		return err
	}

	l := u.o.Holds.layout
	at := keys.Partition{Prefix: r.Prefix, Shard: f.Shard}
	_, err = l.Parts(ctx, releaseScript, 0, []string{l.Space().Shadow(at)}, []any{p.String(), p.Probed.UnixMilli(), 0, 0.5, 0, 1,
		l.Space().Wake(), at.Wake(), p.Probe})
	return err
}

// Delivered resumes the receiver of a probe that was delivered with its attempt of that number. A nil Rules drops it.
func (u *Rules) Delivered(r *route.Route, n *notice.Notice, host string, attempt int) {
	if u == nil || host == "" || len(u.o.Holds.Table().pauses) == 0 {
		return
	}

	x, _ := u.o.Holds.Ruled(r, n, host)
	p := u.o.Holds.Table().pauses[x.String()]
	if p == nil || p.Rule == "" || p.Resumed || !p.probes(n, attempt) {
		return
	}

	u.mu.Lock()
	defer u.mu.Unlock()
	u.due[x] = verdict{rule: p.Rule, probe: n.Key}
	u.signal()
}

// resume ends the pause of a delivered probe, unless the pause has another one by now or a client has made it.
func (u *Rules) resume(ctx context.Context, x Receiver, v verdict) (bool, error) {
	p, _, err := u.o.Holds.stored(ctx, x)
	if err != nil {
		return false, err
	}

	if p == nil || p.Rule == "" || p.Resumed || p.Probe != v.probe {
		return true, nil
	}

	done, err := u.o.Holds.end(ctx, p, probeOver)
	if done {
		u.o.Logger.Warn("receiver resumed, a probe was delivered", zap.String("prefix", x.Prefix), zap.String("receiver", x.Host),
			zap.String("audience", x.Audience), zap.String("rule", p.Rule))
		u.o.Changed(ctx, x, p.Rule, true)
	}

	return true, err
}
