package store

import (
	"context"
	"errors"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// Calls that create notices while old shards may hold notices. If an old shard has a notice of the
// key, the call is answered there, and nothing is written to another shard.

// position identifies a request by the indexes of its batch and in the batch.
type position struct{ batch, request int }

// scheduleWithOld is ScheduleAll that checks the old shards for each notice first.
func (s *Store) scheduleWithOld(ctx context.Context, batches []Batch) []Batched {
	out := make([]Batched, len(batches))
	var todo []position
	for b := range batches {
		out[b].Replies = make([]Reply, len(batches[b].Requests))
		for r := range batches[b].Requests {
			todo = append(todo, position{b, r})
		}
	}

	for range maxMoves {
		if len(todo) == 0 {
			return out
		}

		var err error
		if todo, err = s.scheduleSome(ctx, batches, todo, out); err != nil {
			for _, at := range todo {
				out[at.batch].Replies[at.request].Err = err
			}
			return out
		}
	}

	for _, at := range todo {
		out[at.batch].Replies[at.request].Err = s.w.Fail(scheduleScript.Op, ErrReplaced)
	}

	return out
}

// scheduleSome sends each request once, and returns the requests whose notices were moved during
// the call. Requests of one key keep their order.
func (s *Store) scheduleSome(ctx context.Context, batches []Batch, todo []position, out []Batched) (again []position, err error) {
	since, ks := s.Sight(), make([]string, len(todo))
	for i, at := range todo {
		ks[i] = batches[at.batch].Requests[at.request].Key
	}

	shards, err := s.Where(ctx, ks)
	if err != nil {
		return todo, err
	}

	tombs, err := s.tombstonesInOld(ctx, ks)
	if err != nil {
		return todo, err
	}

	fresh := regrouped{by: map[keys.Partition]int{}, since: &since}
	for i, at := range todo {
		r := batches[at.batch].Requests[at.request]
		p := keys.Partition{Prefix: batches[at.batch].Prefix, Shard: shards[i]}
		if s.Layout.isOldShard(p.Shard) {
			reply, moved := s.scheduleOver(ctx, p, r)
			if moved {
				again = append(again, at)
			}

			out[at.batch].Replies[at.request] = reply
			continue
		}

		if t, ok := tombs[i]; ok && r.OnDuplicate != Replace {
			out[at.batch].Replies[at.request] = r.settled(p.Prefix, t)
			continue
		}

		fresh.add(p, r, at)
	}

	for n, done := range s.ScheduleAll(ctx, fresh.batches) {
		again = append(again, done.giveOut(fresh.places[n], out)...)
	}

	return again, nil
}

// regrouped groups requests by the current partition of their keys, and remembers where each came
// from.
type regrouped struct {
	batches []Batch
	places  [][]position
	by      map[keys.Partition]int // the last batch of a partition
	since   *Sight                 // with which the partitions were determined
}

func (g *regrouped) add(p keys.Partition, r *Request, at position) {
	n, ok := g.by[p]
	if !ok || len(g.batches[n].Requests) >= amendAtOnce {
		n = len(g.batches)
		g.by[p] = n
		g.batches, g.places = append(g.batches, Batch{Partition: p, located: g.since}), append(g.places, nil)
	}

	g.batches[n].Requests, g.places[n] = append(g.batches[n].Requests, r), append(g.places[n], at)
}

// giveOut stores the replies of a batch at the places of its requests, and returns the requests
// whose notices were moved during the call.
func (b *Batched) giveOut(places []position, out []Batched) (again []position) {
	if errors.Is(b.Err, ErrReplaced) {
		return places
	}

	for j, at := range places {
		if b.Err != nil {
			out[at.batch].Replies[at.request].Err = b.Err
			continue
		}
		out[at.batch].Replies[at.request] = b.Replies[j]
	}

	return nil
}

// scheduleOver answers a request whose key has a notice in an old shard. moved reports whether the
// notice is no longer there.
func (s *Store) scheduleOver(ctx context.Context, p keys.Partition, r *Request) (reply Reply, moved bool) {
	f, err := s.findIn(ctx, p.Shard, p.Prefix, r.Key)
	switch {
	case errors.Is(err, ErrNotFound):
		return Reply{}, true
	case err != nil:
		return Reply{Err: err}, false
	case r.OnDuplicate != Replace:
		return r.kept(f), false
	}

	a := amended{key: r.Key, when: string(appendExpiry(appendWhen(nil, r.Due, r.Delay), r.Content.Expiry())), record: string(r.newTail(nil))}
	c, err := s.amendOne(ctx, keys.Partition{Prefix: f.Route, Shard: p.Shard}, replace, a)
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return Reply{Err: err}, false
	}
	if !c.Done {
		return Reply{}, true
	}

	return Reply{Found: c.Found, Created: true, Replaced: true, Err: err}, false
}

// restoreWithOld is Restore that checks the old shards for each notice first.
func (s *Store) restoreWithOld(ctx context.Context, prefix string, letters []Letter) ([]Reply, error) {
	replies := make([]Reply, len(letters))
	todo := make([]int, len(letters))
	for i := range todo {
		todo[i] = i
	}

	for range maxMoves {
		if len(todo) == 0 {
			return replies, nil
		}

		var err error
		if todo, err = s.restoreSome(ctx, prefix, letters, todo, replies); err != nil {
			return nil, err
		}
	}

	return nil, s.w.Fail(restoreScript.Op, ErrReplaced)
}

// restoreSome restores each letter of todo once, and returns the letters whose notices were moved
// during the call.
func (s *Store) restoreSome(ctx context.Context, prefix string, letters []Letter, todo []int, replies []Reply) (again []int, err error) {
	since, ks := s.Sight(), make([]string, len(todo))
	for j, i := range todo {
		ks[j] = letters[i].Key
	}

	shards, err := s.Where(ctx, ks)
	if err != nil {
		return nil, err
	}

	by := map[keys.Partition][]int{}
	for j, i := range todo {
		p := keys.Partition{Prefix: prefix, Shard: shards[j]}
		if !s.Layout.isOldShard(p.Shard) {
			by[p] = append(by[p], i)
			continue
		}

		reply, moved := s.restoreOver(ctx, p, &letters[i])
		if moved {
			again = append(again, i)
			continue
		}

		replies[i] = reply
	}

	for p, these := range by {
		some := make([]Letter, len(these))
		for j, i := range these {
			some[j] = letters[i]
		}

		done, err := s.restore(ctx, p, some, since)
		if errors.Is(err, ErrReplaced) {
			again = append(again, these...)
			continue
		}

		if err != nil {
			return nil, err
		}

		for j, i := range these {
			replies[i] = done[j]
		}
	}

	return again, nil
}

// restoreOver answers for a letter whose key has a notice in an old shard. moved reports whether the
// notice is no longer there.
func (s *Store) restoreOver(ctx context.Context, p keys.Partition, l *Letter) (reply Reply, moved bool) {
	f, err := s.findIn(ctx, p.Shard, p.Prefix, l.Key)
	switch {
	case errors.Is(err, ErrNotFound):
		return Reply{}, true
	case err == nil && l.cancelled(&f):
		// The letter replaces its cancelled notice in the current shard, so move that there first.
		if err = s.Layout.bring(ctx, keys.Partition{Prefix: f.Route, Shard: f.Shard}, f.Key); err == nil {
			return Reply{}, true
		}
	case err == nil && !l.is(&f):
		err = ErrTaken
	}

	return Reply{Found: f, Err: err}, false
}

// BringFinalized moves finalized notices from old shards to the shards of their keys, for a call that checks only those.
// list names the notices by route and key; nil entries are skipped. It returns the indexes of notices that are pending
// in an old shard, and stay there. The error wraps [ErrReplaced] if a notice has changed meanwhile. op names the caller
// in errors and metrics.
func (s *Store) BringFinalized(ctx context.Context, op string, list []*notice.Notice) (pending []int, err error) {
	var todo []int
	var ks []string
	for i, n := range list {
		if n != nil {
			todo, ks = append(todo, i), append(ks, n.Key)
		}
	}

	shards, err := s.Where(ctx, ks)
	if err != nil {
		return nil, err
	}

	for j, i := range todo {
		if !s.Layout.isOldShard(shards[j]) {
			continue
		}

		stays, err := s.bringFinalized(ctx, op, list[i])
		if err != nil {
			return nil, err
		}

		if stays {
			pending = append(pending, i)
		}
	}

	return pending, nil
}

// bringFinalized is BringFinalized for one notice.
func (s *Store) bringFinalized(ctx context.Context, op string, n *notice.Notice) (pending bool, err error) {
	f, err := s.Find(ctx, n.Route, n.Key)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && !s.Layout.isOldShard(f.Shard):
		return false, s.w.Fail(op, ErrReplaced)
	case err != nil:
		return false, err
	case f.State == notice.Scheduled, f.State == notice.Claimed:
		return true, nil
	}

	if err := s.Layout.bring(ctx, keys.Partition{Prefix: f.Route, Shard: f.Shard}, n.Key); err != nil {
		return false, err
	}
	if at, err := s.place(ctx, n.Key); err != nil || s.Layout.isOldShard(at) {
		return false, errors.Join(err, s.w.Fail(op, ErrReplaced))
	}

	return false, nil
}
