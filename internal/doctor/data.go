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
	"notifier/internal/notice"
	"notifier/internal/store"
)

// layout compares the layout stored in Redis with the one that this program writes.
func (r *run) layout(ctx context.Context) {
	meta, err := r.conn.HGetAll(ctx, r.space.Meta()).Result()
	_, warning, derr := store.Discover(ctx, r.conn, keys.Space{Namespace: r.space.Namespace, Shards: r.cfg.Shards}, r.conn.Masters != nil)
	switch {
	case err != nil:
		r.add(Finding{Check: "layout", Severity: Error, Message: fmt.Sprintf("%s cannot be read: %v", r.space.Meta(), err),
			Remedy: "another program may use that key; choose another NOTIFIER_NAMESPACE"})
	case !store.Begun(meta):
		r.add(Finding{Check: "layout", Severity: OK,
			Message: "the namespace is empty; the first start writes layout and shards"})
	case meta["layout"] != strconv.Itoa(store.Version):
		r.add(Finding{Check: "layout", Severity: Error, Message: fmt.Sprintf("the data has layout %q, this program writes %d", meta["layout"],
			store.Version),
			Remedy: store.VersionRemedy(meta["layout"])})
	case derr != nil:
		r.add(Finding{Check: "layout", Severity: Error, Message: fmt.Sprintf("the data has %s shards, NOTIFIER_SHARDS is %d", meta["shards"],
			r.cfg.Shards),
			Remedy: "NOTIFIER_SHARDS=" + meta["shards"] + ", or remove the variable"})
	case warning != "":
		r.add(Finding{Check: "layout", Severity: Warning, Message: warning, Remedy: "NOTIFIER_SHARDS=" + meta["shards"] +
			", or remove the variable"})
	default:
		r.add(Finding{Check: "layout", Severity: OK, Message: fmt.Sprintf("layout %d, %s", store.Version, notice.Count(r.space.Shards, "shard"))})
		r.oldShards(ctx)
		r.side(meta["side"])
	}
}

// side reports whether notices are moving, or have moved, to or from another Redis.
func (r *run) side(text string) {
	side, ok := store.ParseSide(text)
	f := Finding{Check: "layout", Severity: Info}
	switch {
	case !ok:
		f.Severity, f.Message = Error, fmt.Sprintf("the field side of %s is %q, which no version of this program writes", r.space.Meta(), text)
		f.Remedy = "another program may use that key; choose another NOTIFIER_NAMESPACE"
	case side.State == store.SideLeaving:
		f.Severity, f.Message = Warning, "notices are being moved to another Redis; calls for notices that have moved get 503 moved here"
		f.Remedy = "if notifier migrate is not running, run it again with the same --to"
	case side.State == store.SideComing:
		f.Severity, f.Message = Warning,
			"notices are being moved to this Redis; until all have arrived, calls that schedule or change notices get 503 moved"
		f.Remedy = "if notifier migrate is not running, run it again with the same --to"
	case side.State == store.SideLeft:
		f.Message = "the notices of this Redis have moved to another one; remaining notices are delivered and reported here, no new ones are " +
			"accepted"
		f.Remedy = "run notifier migrate again with the same --to to move notices finalized since; then stop the instances here"
	case side.State == store.SideOpened:
		f.Message = "notices have moved to this Redis, and some are still on the source; calls for those get 503 moved"
		f.Remedy = "once their attempts have ended or been reported, run notifier migrate again with the same --to"
	default:
		return
	}

	r.add(f)
}

// oldShards reports notices in old shards.
func (r *run) oldShards(ctx context.Context) {
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
			Message: fmt.Sprintf("old shards hold %s; they are delivered from there, and moved once "+
				"no attempt is in flight and no report is awaited", notice.Count(n, "notice")),
			Remedy: fmt.Sprintf("notifier reshard --to %d moves them at once", r.space.Shards)})
	}
}

// prefixes reports notices without a configured route, and paused routes with pending notices.
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
		r.add(Finding{Check: "prefixes", Severity: Error, Message: fmt.Sprintf("cannot count the stored notices: %v", err)})
	}
}

func (r *run) orphans(ctx context.Context, held []string) error {
	lost := 0
	for _, prefix := range held {
		if r.table.Prefix(prefix) != nil {
			continue
		}

		pending, dead, err := r.count(ctx, prefix)
		if err == nil {
			err = r.undefined(ctx, prefix)
		}

		if err != nil {
			return err
		}
		if pending+dead == 0 {
			continue
		}

		lost++
		f := Finding{Check: "prefixes", Severity: Info,
			Message: fmt.Sprintf("%d pending and %d dead notices have the prefix %s, which is no longer configured", pending, dead, prefix)}
		// Any key under the prefix is a fair sample, although routes of longer prefixes may match some.
		key := sampleKey(prefix)
		switch rt := r.table.Match(key); {
		case rt != nil:
			f.Message += fmt.Sprintf("; the service moves them to route %s", rt.Name)
		case len(r.cfg.Routes) == 0:
			f.Message += " (no routes are configured here)"
		default:
			f.Severity = Error
			f.Message += ", and no route matches it, so they are not delivered"
			f.Remedy = "configure a route with that prefix, or a shorter one; or cancel the notices that notifier list --prefix " + prefix + " shows"
		}

		r.add(f)
	}

	if lost == 0 {
		r.add(Finding{Check: "prefixes", Severity: OK, Message: "every notice has a configured prefix"})
	}

	return nil
}

// undefined reports definitions of recurring notices under a prefix that is not configured. The service moves those that a route matches.
func (r *run) undefined(ctx context.Context, prefix string) error {
	n := int64(0)
	for shard := range r.space.Places() {
		here, err := r.conn.ZCard(ctx, r.space.Definitions(keys.Partition{Prefix: prefix, Shard: shard})).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}

		n += here
	}

	if n > 0 && len(r.cfg.Routes) > 0 && r.table.Match(sampleKey(prefix)) == nil {
		r.add(Finding{Check: "prefixes", Severity: Error,
			Message: fmt.Sprintf("%d recurring notices have the prefix %s, and no route matches it, so they have no ticks", n, prefix),
			Remedy:  "configure a route with that prefix, or a shorter one; notifier recur list --prefix " + prefix + " shows them"})
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
