package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
)

// layout compares what stands in Redis with what this program writes.
func (r *run) layout(ctx context.Context) {
	meta, err := r.conn.HGetAll(ctx, r.space.Meta()).Result()
	_, warning, derr := layout.Discover(ctx, r.conn, keys.Space{Namespace: r.space.Namespace, Shards: r.cfg.Shards}, r.conn.Masters != nil)
	switch {
	case err != nil:
		r.add(Finding{Check: "layout", Severity: Error, Message: fmt.Sprintf("%s cannot be read: %v", r.space.Meta(), err),
			Remedy: "another program may use that key: choose another NOTIFIER_NAMESPACE"})
	case len(meta) == 0:
		r.add(Finding{Check: "layout", Severity: OK,
			Message: "nothing is kept under the namespace yet; the first start writes layout and shards"})
	case meta["layout"] != strconv.Itoa(layout.Version):
		r.add(Finding{Check: "layout", Severity: Error, Message: fmt.Sprintf("the data has layout %q, this program writes %d", meta["layout"],
			layout.Version),
			Remedy: "run the version that wrote it, or choose another NOTIFIER_NAMESPACE"})
	case derr != nil:
		r.add(Finding{Check: "layout", Severity: Error, Message: fmt.Sprintf("the data has %s shards, NOTIFIER_SHARDS is %d", meta["shards"],
			r.cfg.Shards),
			Remedy: "NOTIFIER_SHARDS=" + meta["shards"] + ", or remove the variable"})
	case warning != "":
		r.add(Finding{Check: "layout", Severity: Warning, Message: warning, Remedy: "NOTIFIER_SHARDS=" + meta["shards"] +
			", or remove the variable"})
	default:
		r.add(Finding{Check: "layout", Severity: OK, Message: fmt.Sprintf("layout %d, %d shard(s)", layout.Version, r.space.Shards)})
		r.former(ctx)
		r.side(meta["side"])
	}
}

// side says how this Redis stands to one that notices move to or from.
func (r *run) side(text string) {
	side, ok := layout.ParseSide(text)
	f := Finding{Check: "layout", Severity: Info}
	switch {
	case !ok:
		f.Severity, f.Message = Error, fmt.Sprintf("the field side of %s is %q, which no version of this program writes", r.space.Meta(), text)
		f.Remedy = "another program may use that key: choose another NOTIFIER_NAMESPACE"
	case side.State == layout.SideLeaving:
		f.Severity, f.Message = Warning, "notices are being moved to another Redis: what has left is answered with 503 moved here"
		f.Remedy = "if notifier migrate runs no more, run it again with the same --to"
	case side.State == layout.SideComing:
		f.Severity, f.Message = Warning,
			"notices are being moved to this Redis: until all have come, calls that schedule or change notices are answered with 503 moved"
		f.Remedy = "if notifier migrate runs no more, run it again with the same --to"
	case side.State == layout.SideLeft:
		f.Message = "the notices of this Redis have moved to another one; what is still here is delivered and reported here, and nothing " +
			"new is taken"
		f.Remedy = "notifier migrate, run again with the same --to, fetches what has ended since; then stop the instances here"
	case side.State == layout.SideOpened:
		f.Message = "notices have moved to this Redis, and some are still on the other side: calls about those are answered with 503 moved"
		f.Remedy = "notifier migrate, run again with the same --to, fetches them when their attempts have ended or they are reported"
	default:
		return
	}
	r.add(f)
}

// former looks whether former shards hold anything.
func (r *run) former(ctx context.Context) {
	prefixes, err := r.conn.SMembers(ctx, r.space.Routes()).Result()
	n := int64(0)
	for place := range r.space.First() {
		for _, p := range prefixes {
			some, lerr := r.conn.HLen(ctx, r.space.Records(keys.Partition{Prefix: p, Shard: place})).Result()
			n, err = n+some, cmp.Or(err, lerr)
		}
	}
	if n > 0 && err == nil {
		r.add(Finding{Check: "layout", Severity: Info,
			Message: fmt.Sprintf("former shards hold %s; they are delivered from there, and moved as far as "+
				"no attempt is under way and no report is awaited", notice.Count(n, "notice")),
			Remedy: fmt.Sprintf("notifier reshard --to %d moves them at once", r.space.Shards)})
	}
}

// prefixes looks for notices that no route covers, and for routes at a standstill.
func (r *run) prefixes(ctx context.Context) {
	held, err := r.conn.SMembers(ctx, r.space.Routes()).Result()
	if err == nil {
		slices.Sort(held)
		err = r.orphans(ctx, held)
	}
	if err == nil {
		err = r.paused(ctx)
	}
	if err != nil {
		r.add(Finding{Check: "prefixes", Severity: Error, Message: fmt.Sprintf("what is kept cannot be counted: %v", err)})
	}
}

func (r *run) orphans(ctx context.Context, held []string) error {
	lost := 0
	for _, prefix := range held {
		if r.table.Prefix(prefix) != nil {
			continue
		}
		pending, dead, err := r.count(ctx, prefix)
		if err != nil {
			return err
		}
		if pending+dead == 0 {
			continue
		}
		lost++
		f := Finding{Check: "prefixes", Severity: Info,
			Message: fmt.Sprintf("%d pending and %d dead notices lie under the prefix %s, which is configured no more", pending, dead, prefix)}
		// Any key under the prefix will do: routes of longer prefixes may take some.
		key := sampleKey(prefix)
		switch rt := r.table.Match(key); {
		case rt != nil:
			f.Message += fmt.Sprintf("; the service moves them to route %s", rt.Name)
		case len(r.cfg.Routes) == 0:
			f.Message += " (no routes are configured here)"
		default:
			f.Severity = Error
			f.Message += ", and no route covers it: they are not delivered"
			f.Remedy = "configure a route with that prefix, or a shorter one; or cancel what notifier list --prefix " + prefix + " shows"
		}
		r.add(f)
	}
	if lost == 0 {
		r.add(Finding{Check: "prefixes", Severity: OK, Message: "every notice lies under a configured prefix"})
	}
	return nil
}

func (r *run) count(ctx context.Context, prefix string) (pending, dead int64, err error) {
	for shard := range r.space.Places() {
		p, err := r.conn.ZCard(ctx, r.space.Shadow(keys.Partition{Prefix: prefix, Shard: shard})).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, 0, err
		}
		d, err := r.conn.ZCard(ctx, r.space.Dead(keys.Partition{Prefix: prefix, Shard: shard})).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, 0, err
		}
		pending, dead = pending+p, dead+d
	}
	return pending, dead, nil
}

func (r *run) paused(ctx context.Context) error {
	paused, err := r.conn.SMembers(ctx, r.space.Paused()).Result()
	if err != nil {
		return err
	}
	slices.Sort(paused)
	for _, prefix := range paused {
		pending, _, err := r.count(ctx, prefix)
		if err != nil {
			return err
		}
		name := prefix
		if rt := r.table.Prefix(prefix); rt != nil {
			name = rt.Name
		}
		if pending > 0 {
			r.add(Finding{Check: "prefixes", Severity: Warning, Message: fmt.Sprintf("route %s is paused and holds %s", name,
				notice.Count(pending, "pending notice")),
				Remedy: "notifier resume " + name})
		}
	}
	return nil
}
