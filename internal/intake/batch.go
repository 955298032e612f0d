package intake

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/wire"
)

// place is a partition and its route.
type place struct {
	route *route.Route
	at    keys.Partition
}

// nodes are the cluster nodes that a key needs: the node of its shard and the node of its timer,
// whose key the producer chose. Outside a cluster both are empty.
type nodes struct{ shard, timer string }

// followKeys creates, replaces, reschedules or cancels notices, so that they match the timers (keys with an expiry)
// that clients have set directly in Redis. some has the keys to check, and the Redis messages received about each. The
// returned map has an error for each key that could not be checked. If it is not empty, the second result is an error.
func (a *Adopter) followKeys(ctx context.Context, some map[string]eventSet) (map[string]error, error) {
	var ks []string
	for k := range some {
		if !keys.Valid(k) {
			continue
		}
		if r := a.o.Routes.Match(k); r != nil && r.Adopt {
			ks = append(ks, k)
		}
	}

	shards, err := a.o.Store.Where(ctx, ks)
	if err != nil {
		failed := make(map[string]error, len(ks))
		for _, k := range ks {
			failed[k] = err
		}

		return failed, err
	}

	// A slow cluster node delays only the keys whose timer or notice it stores.
	by := map[nodes]map[place][]string{}
	for i, k := range ks {
		r := a.o.Routes.Match(k)
		p, n := place{r, keys.Partition{Prefix: r.Prefix, Shard: shards[i]}}, nodes{}
		if a.o.Cluster != nil {
			n = nodes{a.o.Cluster.Master(ctx, a.o.Space.Base(p.at.Shard)), a.o.Cluster.Master(ctx, k)}
		}

		if by[n] == nil {
			by[n] = map[place][]string{}
		}

		by[n][p] = append(by[n][p], k)
	}

	var mu sync.Mutex
	failed, errs := map[string]error{}, []error{}
	var all sync.WaitGroup
	for _, places := range by {
		if len(by) == 1 { // always outside a cluster
			return a.followPlaces(ctx, places, some)
		}
		all.Go(func() {
			fails, err := a.followPlaces(ctx, places, some)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(failed, fails)
			errs = append(errs, err)
		})
	}

	all.Wait()
	return failed, errors.Join(errs...)
}

// followPlaces is followKeys for keys that need the same nodes. It stops when they do not answer.
func (a *Adopter) followPlaces(ctx context.Context, places map[place][]string, events map[string]eventSet) (failed map[string]error,
	err error) {
	failed = map[string]error{}
	for p, ks := range places {
		for part := range slices.Chunk(ks, batch) {
			if !errors.Is(err, wire.ErrUnavailable) && ctx.Err() == nil {
				one := a.followPartition(ctx, p, part, events)
				if one == nil {
					continue
				}

				err = one
			}

			why := cmp.Or(err, ctx.Err())
			for _, k := range part {
				failed[k] = why
			}
		}
	}

	return failed, cmp.Or(err, ctx.Err())
}

// followPartition checks keys of one partition and applies the operations. Keys that change during
// the check are checked again a few times; later changes send events.
func (a *Adopter) followPartition(ctx context.Context, p place, ks []string, events map[string]eventSet) error {
	tries := 3
	var todo, expired []string
	for _, k := range ks {
		t := events[k]
		if t.expired {
			expired = append(expired, k)
		}

		if t.event || !t.expired {
			todo = append(todo, k)
		}
	}

	for len(todo) > 0 && tries > 0 {
		tries--
		again, err := a.adoptBatch(ctx, p, todo, events)
		if err != nil {
			return err
		}

		todo = again
	}

	return a.adoptExpired(ctx, p, expired)
}

// adoptBatch checks each key once and applies its operation. It returns the keys that have changed
// in the meantime.
func (a *Adopter) adoptBatch(ctx context.Context, p place, ks []string, events map[string]eventSet) (again []string, err error) {
	for len(ks) > 0 {
		list, looked, err := a.peek(ctx, p, ks, events)
		if err != nil {
			return nil, err
		}

		ks = ks[min(max(looked, 1), len(ks)):]
		if a.o.Cluster != nil {
			if list, err = a.confirmCancels(ctx, p, list, events); err != nil {
				return nil, err
			}
		}

		if len(list) == 0 {
			continue
		}

		cctx, cancel := context.WithTimeout(ctx, a.callLimit())
		done, err := a.o.Store.Adopt(cctx, p.at, list)
		cancel()
		if err != nil {
			return nil, err
		}

		n, lost := 0, 0
		for i := range list {
			switch {
			case !done[i]:
				again = append(again, list[i].Key)
			case list[i].Op == OpAdopt:
				n++
				if list[i].Content.Lost {
					lost++
				}
			}
		}

		a.count(p, n, lost)
	}
	return again, nil
}

// peek checks keys and decides on each; looked is the number of keys that it has checked.
func (a *Adopter) peek(ctx context.Context, p place, ks []string, events map[string]eventSet) (list []Adoption, looked int,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, a.callLimit())
	defer cancel()
	now, seen, looked, err := a.o.Store.Peek(ctx, p.at, ks, a.o.MaxBody)
	if err != nil {
		return nil, 0, err
	}

	// A number without a notice may be the service's own timer of a notice in another place.
	var doubtful []string
	for i := range seen {
		if isAttempt(&seen[i]) {
			doubtful = append(doubtful, seen[i].Key)
		}
	}

	others, err := a.notStranded(ctx, doubtful)
	if err != nil {
		return nil, 0, err
	}

	for i := range seen {
		s := &seen[i]
		if isAttempt(s) && !slices.Contains(others, s.Key) {
			continue
		}

		op := decide(s, events[s.Key], now, a.o.Cluster != nil)
		switch op {
		case "":
			continue
		case opWait:
			first := events[s.Key]
			first.firstExpire = s.Expire
			a.lookLater(s.Key, first)
			continue
		}

		x := Adoption{Seen: *s, Op: op}
		if op == OpAdopt {
			x.Content = notice.Content{Body: s.Value, Adopted: true, Lost: s.Value == nil, ExpiresAfter: p.route.Expires}
			if err := x.Content.Check(); err != nil {
				a.o.Logger.Error("cannot adopt a timer", zap.String("key", s.Key), zap.Error(err))
				continue
			}

			if x.Content.Lost {
				a.o.Logger.Error("a timer's payload is longer than NOTIFIER_MAX_BODY, its notice has no body", zap.String("key", s.Key),
					zap.Int64("bytes", s.Length), zap.Int64("limit", a.o.MaxBody))
			}
		}

		list = append(list, x)
	}

	return list, looked, nil
}

// isAttempt reports whether a timer without a notice has a value like the service's own timers.
func isAttempt(s *Seen) bool {
	if s.Notice != nil || s.Length < 1 || s.Length > 3 {
		return false
	}

	_, err := strconv.ParseUint(string(s.Value), 10, 16)
	return err == nil
}

// confirmCancels checks again each notice that would be cancelled: in a cluster its timer may not
// be set yet.
func (a *Adopter) confirmCancels(ctx context.Context, p place, list []Adoption, events map[string]eventSet) ([]Adoption,
	error) {
	var doubtful []string
	rest := list[:0:0]
	for _, x := range list {
		if x.Op == OpCancel {
			doubtful = append(doubtful, x.Key)
		} else {
			rest = append(rest, x)
		}
	}

	if len(doubtful) == 0 {
		return list, nil
	}

	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(a.o.Confirm):
	}

	second, _, err := a.peek(ctx, p, doubtful, events)
	return append(rest, second...), err
}

func (a *Adopter) count(p place, adopted, lost int) {
	if adopted > 0 {
		a.o.Observer.Scheduled(p.route.Name, adopted)
	}
	if lost > 0 {
		a.o.Observer.BodiesLost(p.route.Name, lost)
	}
}
