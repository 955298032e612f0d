package store

import (
	"context"
	"errors"
	"slices"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// What makes notices, while former shards may hold something: under a key that is kept
// in one of them nothing is put into another.

// asked is a request of a batch.
type asked struct{ batch, request int }

// scheduleAmid is ScheduleAll that looks for each notice in the former shards first.
func (s *Store) scheduleAmid(ctx context.Context, batches []Batch) []Batched {
	out := make([]Batched, len(batches))
	var todo []asked
	for b := range batches {
		out[b].Replies = make([]Reply, len(batches[b].Requests))
		for r := range batches[b].Requests {
			todo = append(todo, asked{b, r})
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
		out[at.batch].Replies[at.request].Err = s.w.Fail(scheduleScript.Op, layout.ErrReplaced)
	}
	return out
}

// scheduleSome goes through requests one time, and returns those whose notices were
// moved meanwhile. Requests of one key keep their order.
func (s *Store) scheduleSome(ctx context.Context, batches []Batch, todo []asked, out []Batched) (again []asked, err error) {
	since, ks := s.Forgot(), make([]string, len(todo))
	for i, at := range todo {
		ks[i] = batches[at.batch].Requests[at.request].Key
	}
	shards, err := s.Where(ctx, ks)
	if err != nil {
		return todo, err
	}
	tombs, err := s.buriedFormerly(ctx, ks)
	if err != nil {
		return todo, err
	}
	var fresh []Batch
	var places [][]asked
	by := map[keys.Partition]int{}
	for i, at := range todo {
		r := &batches[at.batch].Requests[at.request]
		p := keys.Partition{Prefix: batches[at.batch].Prefix, Shard: shards[i]}
		if s.IsFormer(p.Shard) {
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
		n, ok := by[p]
		if !ok || len(fresh[n].Requests) >= amendAtOnce {
			n = len(fresh)
			by[p] = n
			fresh, places = append(fresh, Batch{Partition: p}), append(places, nil)
		}
		fresh[n].Requests, places[n] = append(fresh[n].Requests, *r), append(places[n], at)
	}
	for n, done := range s.scheduleAll(ctx, fresh, since) {
		for j, at := range places[n] {
			switch {
			case errors.Is(done.Err, layout.ErrReplaced):
				again = append(again, at)
			case done.Err != nil:
				out[at.batch].Replies[at.request].Err = done.Err
			default:
				out[at.batch].Replies[at.request] = done.Replies[j]
			}
		}
	}
	return again, nil
}

// scheduleOver answers a request whose key is kept in a former shard, or says that it is
// not there any more.
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
	n := notice.Notice{Content: r.Content, Client: r.Client}
	a := []amended{{key: r.Key, when: string(appendWhen(nil, r.Due, r.Delay)), record: string(n.AppendTail(nil))}}
	c, err := s.amend(ctx, keys.Partition{Prefix: f.Route, Shard: p.Shard}, replace, a)
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return Reply{Err: err}, false
	}
	if !c[0].Done {
		return Reply{}, true
	}
	return Reply{Found: c[0].Found, Created: true, Replaced: true, Err: err}, false
}

// restoreAmid is Restore that looks for each notice in the former shards first.
func (s *Store) restoreAmid(ctx context.Context, prefix string, letters []Letter) ([]Reply, error) {
	replies := make([]Reply, len(letters))
	todo := make([]int, len(letters))
	for i := range todo {
		todo[i] = i
	}
	for range maxMoves {
		if len(todo) == 0 {
			return replies, nil
		}
		since, ks := s.Forgot(), make([]string, len(todo))
		for j, i := range todo {
			ks[j] = letters[i].Key
		}
		shards, err := s.Where(ctx, ks)
		if err != nil {
			return nil, err
		}
		by := map[keys.Partition][]int{}
		var again []int
		for j, i := range todo {
			p := keys.Partition{Prefix: prefix, Shard: shards[j]}
			if !s.IsFormer(p.Shard) {
				by[p] = append(by[p], i)
				continue
			}
			f, err := s.findIn(ctx, p.Shard, prefix, letters[i].Key)
			switch {
			case errors.Is(err, ErrNotFound):
				again = append(again, i)
				continue
			case err == nil && letters[i].cancelled(&f):
				// It gives way to itself, in its shard.
				if err = s.bring(ctx, &f); err == nil {
					again = append(again, i)
					continue
				}
			case err == nil && !letters[i].is(&f):
				err = ErrTaken
			}
			replies[i] = Reply{Found: f, Err: err}
		}
		for p, these := range by {
			some := make([]Letter, len(these))
			for j, i := range these {
				some[j] = letters[i]
			}
			done, err := s.restore(ctx, p, some, since)
			if errors.Is(err, layout.ErrReplaced) {
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
		todo = again
	}
	return nil, s.w.Fail(restoreScript.Op, layout.ErrReplaced)
}

// bring moves a notice that has ended out of a former shard to where it belongs, so
// that a script there finds it in the step in which it does something about it.
func (s *Store) bring(ctx context.Context, f *Found) error {
	from := keys.Partition{Prefix: f.Route, Shard: f.Shard}
	l, _, err := s.MoveOut(ctx, from, s.space.Shard(f.Key), []string{f.Key})
	if err != nil && !errors.Is(err, layout.ErrMoving) {
		return err
	}
	if err == nil && l.Len() == 0 {
		return nil // it is claimed by now, or gone
	}
	return s.Finish(ctx, from.Shard)
}

// replayAmid says of items whose keys are kept in former shards what replay.lua would
// say where something is pending, and brings to the script what is not.
func (s *Store) replayAmid(ctx context.Context, items []ReplayItem) ([]ReplayItem, error) {
	items = slices.Clone(items)
	var todo []int
	for i := range items {
		if items[i].Notice != nil {
			todo = append(todo, i)
		}
	}
	ks := make([]string, len(todo))
	for j, i := range todo {
		ks[j] = items[i].Key
	}
	shards, err := s.Where(ctx, ks)
	if err != nil {
		return nil, err
	}
	for j, i := range todo {
		if !s.IsFormer(shards[j]) {
			continue
		}
		f, err := s.findIn(ctx, shards[j], items[i].Route, items[i].Key)
		if errors.Is(err, ErrNotFound) {
			return nil, s.w.Fail(replayScript.Op, layout.ErrReplaced) // it has been moved: the call is repeated
		}
		if err != nil {
			return nil, err
		}
		if f.State == notice.Scheduled || f.State == notice.Claimed {
			items[i].Notice, items[i].Result = nil, "pending"
			continue
		}
		if err := s.bring(ctx, &f); err != nil {
			return nil, err
		}
		if at, err := s.Place(ctx, f.Key); err != nil || s.IsFormer(at) { // it has been redriven meanwhile, or there was no end of others
			return nil, errors.Join(err, s.w.Fail(replayScript.Op, layout.ErrReplaced))
		}
	}
	return items, nil
}
