package intake

import (
	"context"

	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// adoptExpired makes notices of expired timers that were never adopted.
func (a *Adopter) adoptExpired(ctx context.Context, p place, expired []string) error {
	if len(expired) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, a.callLimit())
	defer cancel()
	unknown, old, err := a.o.Store.Unknown(ctx, p.at, expired, late)
	if err != nil {
		return err
	}

	if len(old) > 0 && a.o.Cluster == nil {
		if err := a.adoptReused(ctx, p, old); err != nil {
			return err
		}
	}

	if unknown, err = a.notStranded(ctx, unknown); err != nil || len(unknown) == 0 {
		return err
	}

	return a.scheduleLost(ctx, p, unknown)
}

// scheduleLost makes notices of expired timers, with the payloads that are known.
func (a *Adopter) scheduleLost(ctx context.Context, p place, unknown []string) error {
	reqs := make([]store.Request, len(unknown))
	for i, k := range unknown {
		// Keep: a notice that was scheduled meanwhile stays as it is.
		reqs[i] = store.Request{Key: k, OnDuplicate: store.Keep, Content: notice.Content{Lost: true, ExpiresAfter: p.route.Expires}}
		if value, ok := a.payloadOf(k); ok {
			if c := (notice.Content{Body: value, Adopted: true, ExpiresAfter: p.route.Expires}); c.Check() == nil {
				reqs[i].Content = c
			}
		}
	}

	replies, err := a.o.Store.Schedule(ctx, p.at, reqs)
	if err != nil {
		return err
	}

	whole := 0
	var bodiless []string
	for i := range replies {
		switch {
		case !replies[i].Created:
		case reqs[i].Lost:
			bodiless = append(bodiless, unknown[i])
		default:
			whole++
		}
	}

	a.count(p, whole, 0)
	if len(bodiless) > 0 {
		a.countBodiless(p, len(bodiless), bodiless[0])
	}

	return nil
}

// notStranded omits the keys of notices in an old shard, from which they are delivered.
func (a *Adopter) notStranded(ctx context.Context, ks []string) ([]string, error) {
	if len(ks) == 0 {
		return nil, nil
	}

	stranded, err := a.o.Store.Stranded(ctx, ks)
	if err != nil {
		return nil, err
	}

	var rest []string
	for i, k := range ks {
		if !stranded[i] {
			rest = append(rest, k)
		}
	}

	return rest, nil
}

// adoptReused creates notices without a body, due now, for timers that expired before their adoption and whose keys
// had notices before. It skips keys whose last notice was finalized within the last five minutes.
func (a *Adopter) adoptReused(ctx context.Context, p place, old []string) error {
	// The expired event may belong to the last notice of the key. In a cluster none is created, because an old
	// timer of a cancelled notice would look the same.
	now, seen, _, err := a.o.Store.Peek(ctx, p.at, old, a.o.MaxBody)
	if err != nil {
		return err
	}

	var list []Adoption
	for _, s := range seen {
		// A timer that exists by now has its own events.
		if s.Length == NoKey && s.Notice != nil && !s.SettledAt.IsZero() && now.Sub(s.SettledAt) >= late {
			s.Expire = now.UnixMilli() - 1
			list = append(list, Adoption{Seen: s, Op: OpAdopt, Content: notice.Content{Lost: true}})
		}
	}

	if len(list) == 0 {
		return nil
	}

	done, err := a.o.Store.Adopt(ctx, p.at, list)
	if err != nil {
		return err
	}

	n := 0
	for _, ok := range done {
		if ok {
			n++
		}
	}

	a.countBodiless(p, n, list[0].Key)
	return nil
}

// countBodiless counts n new notices without a body, and logs them with one key as an example.
func (a *Adopter) countBodiless(p place, n int, one string) {
	a.count(p, n, n)
	if n > 0 {
		a.o.Logger.Warn("timers expired before their adoption, delivering their notices without a body",
			zap.String("route", p.route.Name), zap.Int("notices", n), zap.String("one_of_them", one))
	}
}
