package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// command is one that the service needs, with the arguments it is tried with.
type command struct {
	args []any
	// without says what is lost if it is forbidden; empty means that nothing works.
	without string
}

// commands lists what the service sends, keys as it names them.
func (r *run) commands() []command {
	s := r.space
	const member = "app:module:type:id"
	zset, hash := s.Shadow(keys.Partition{Prefix: "app"}), s.Records(keys.Partition{Prefix: "app"})
	list := []command{
		{args: []any{"EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", 1, zset}}, {args: []any{"EVAL", "return 1", 1, zset}},
		{args: []any{"TIME"}}, {args: []any{"EXISTS", member}}, {args: []any{"DEL", member}}, {args: []any{"SET", member, "1", "PXAT", "1"}},
		{args: []any{"PEXPIRE", s.ClaimPrefix(0) + member, "1"}}, {args: []any{"ZPOPMIN", s.FleetEnded(), "1"}},
		{args: []any{"PEXPIREAT", member, "1"}}, {args: []any{"SET", s.ClaimPrefix(0) + member, "t", "NX", "PX", "1"}}, {args: []any{"GET",
			s.ClaimPrefix(0) + member}},
		{args: []any{"ZADD", zset, "1", member}}, {args: []any{"ZREM", zset, member}}, {args: []any{"ZCARD", zset}}, {args: []any{"ZCOUNT",
			zset, "0", "1"}},
		{args: []any{"ZRANGE", zset, "0", "1"}}, {args: []any{"ZRANGEBYSCORE", zset, "0", "1"}}, {args: []any{"ZREVRANGEBYSCORE", zset, "1",
			"0"}},
		{args: []any{"ZRANK", zset, member}}, {args: []any{"ZSCORE", zset, member}}, {args: []any{"HSET", hash, member, "{}"}},
		{args: []any{"HSETNX", s.Meta(), "layout", "1"}},
		{args: []any{"HGET", hash, member}}, {args: []any{"HMGET", hash, member}}, {args: []any{"HGETALL", s.Meta()}},
		{args: []any{"ZMSCORE", zset, member}}, {args: []any{"MGET", s.ClaimPrefix(0) + member}}, {args: []any{"HDEL", hash, member}}, {args: []any{"HEXISTS",
			hash, member}},
		{args: []any{"HSCAN", hash, "0"}}, {args: []any{"HLEN", hash}}, {args: []any{"ZSCAN", zset, "0"}}, {args: []any{"SADD", s.Routes(), "app"}}, {args: []any{"SREM", s.Paused(), "app"}},
		{args: []any{"SMEMBERS", s.Routes()}}, {args: []any{"HGET", s.Layout(0), "state"}}, {args: []any{"ZREMRANGEBYSCORE", s.Serving(), "0", "1"}},
		{args: []any{"SISMEMBER", s.Paused(), "app"}},
		{args: []any{"RPUSH", s.Ended(0), "x"}}, {args: []any{"LTRIM", s.Ended(0), "1", "-1"}}, {args: []any{"HINCRBY", s.History(0), "lost", "1"}},
		{args: []any{"LLEN", s.Ended(0)}}, {args: []any{"LINDEX", s.Ended(0), "0"}}, {args: []any{"LRANGE", s.Ended(0), "0", "1"}},
		{args: []any{"PUBSUB", "NUMSUB", s.FleetChannel()}, without: "what a dead instance held waits until its leases have lapsed"},
		{args: []any{"GET", s.Key()}, without: "listings of more than a page are refused"},
		{args: []any{"EXISTS", s.EndedSession("x")}, without: "nobody can sign in to the pages"},
		{args: []any{"SET", s.Link("x"), "x", "PX", "1"}, without: "no links to the pages can be made"},
		{args: []any{"XADD", s.Audit(), "*", "k", "v"}, without: "who changes what is logged only, and not in the audit"},
		{args: []any{"XREVRANGE", s.Audit(), "+", "-"}, without: "the audit cannot be read"},
		{args: []any{"XRANGE", s.FleetMinutes(), "-", "+"}, without: "the charts of the pages stay empty"},
		{args: []any{"MULTI"}}, {args: []any{"EXEC"}},
		{args: []any{"SCRIPT", "LOAD", "return 1"}, without: "producers that use this user cannot load deploy/schedule.lua"},
		{args: []any{"PUBLISH", s.Wake(), "x"}}, {args: []any{"SUBSCRIBE", s.Wake()}}, {args: []any{"SUBSCRIBE", keys.Expired(r.conn.DB)}},
		{args: []any{"PUBLISH", s.FleetChannel(), "x"}}, {args: []any{"SUBSCRIBE", s.InstanceChannel("x"), s.FleetChannel()},
			without: "an instance that dies is found by its leases only"},
		{args: []any{"PUBSUB", "NUMSUB", s.InstanceChannel("x")}, without: "an instance that dies is found by its leases only"},
		{args: []any{"INFO"}, without: "version and memory stay unknown"}, {args: []any{"ROLE"},
			without: "a master that became a replica is noticed late"},
		{args: []any{"CONFIG", "GET", "notify-keyspace-events"}, without: "settings stay unknown"},
		{args: []any{"CONFIG", "SET", "notify-keyspace-events", "Ex"},
			without: "the service cannot set the notify flags; set them in redis.conf"},
	}
	if r.conn.Masters != nil {
		const late = "a master that another has replaced is found out late, and what it confirms meanwhile is lost"
		list = append(list, command{args: []any{"CLUSTER", "SLOTS"}}, command{args: []any{"ASKING"},
			without: "notices of a slot that is being moved to another node cannot be reached meanwhile"},
			command{args: []any{"CLUSTER", "INFO"}, without: late}, command{args: []any{"CLUSTER", "NODES"}, without: late},
			command{args: []any{"COMMAND"}, without: "the client of the cluster guesses where commands go"})
	}
	if r.conn.DB > 0 {
		list = append(list, command{args: []any{"SELECT", r.conn.DB}})
	}
	if strings.Contains(string(r.cfg.Redis.URL), "client_name=") {
		list = append(list, command{args: []any{"CLIENT", "SETNAME", "x"}})
	}
	for _, d := range []notice.Durability{r.cfg.Durability, r.cfg.DurabilitySettle} {
		switch {
		case d.Replicas > 0:
			list = append(list, command{args: []any{"WAIT", d.Replicas, "1"}, without: "nothing is confirmed, and calls that change notices are answered with 503"})
		case d.Fsync:
			list = append(list, command{args: []any{"WAITAOF", "1", "0", "1"}, without: "nothing is confirmed, and calls that change notices are answered with 503"})
		}
	}
	for _, rt := range r.cfg.Routes {
		timer := rt.Prefix + strings.Repeat(":x", 3-strings.Count(rt.Prefix, ":"))
		list = append(list, command{args: []any{"SET", timer, "1", "PXAT", "1"}})
		switch rt.Target.Kind {
		case route.KindList:
			list = append(list, command{args: []any{"RPUSH", rt.Target.Key, "x"}})
			if r.conn.Masters != nil {
				list = append(list, command{args: []any{"SET", s.Pushed(rt.Target.Key, "x"), "", "NX", "PX", "1"}})
			}
		case route.KindStream:
			list = append(list, command{args: []any{"XADD", rt.Target.Key, "*", "k", "v"}})
			if r.conn.Masters != nil {
				list = append(list, command{args: []any{"SET", s.Pushed(rt.Target.Key, "x"), "", "NX", "PX", "1"}})
			}
		}
		if rt.Adopt {
			const without = "plain timers are not taken over"
			list = append(list, command{args: []any{"PSUBSCRIBE", keys.Keyspace(r.conn.DB, rt.Prefix)}, without: without},
				command{args: []any{"PEXPIRETIME", timer}, without: without}, command{args: []any{"PTTL", timer}, without: without},
				command{args: []any{"STRLEN", timer}, without: without}, command{args: []any{"SCAN", "0"}, without: without},
				command{args: []any{"GETRANGE", timer, "0", "1"}, without: without})
		}
	}
	return list
}

// rights tries each command on paper: ACL DRYRUN runs none of them.
func (r *run) rights(ctx context.Context) {
	user, err := r.conn.Do(ctx, "ACL", "WHOAMI").Text()
	if r.heard(err) != nil {
		r.add(Finding{Check: "rights", Severity: Info, Message: "ACL WHOAMI is refused, so the rights cannot be looked at",
			Remedy: "deploy/users.acl lists what is needed"})
		return
	}
	var refused, partly, patterns []string
	for _, c := range r.commands() {
		reply, err := r.conn.Do(ctx, append([]any{"ACL", "DRYRUN", user}, c.args...)...).Text()
		if err != nil && strings.Contains(err.Error(), "' not found") {
			continue // a command that this server does not have
		}
		if r.heard(err) != nil {
			r.add(Finding{Check: "rights", Severity: Info,
				Message: fmt.Sprintf("ACL DRYRUN is refused or unknown, so the rights of user %s cannot be looked at", user),
				Remedy:  "deploy/users.acl lists what is needed; Redis 7.0 knows ACL DRYRUN"})
			return
		}
		if reply == "OK" {
			continue
		}
		name := fmt.Sprint(c.args[0])
		if name == "CONFIG" || name == "CLIENT" || name == "SCRIPT" || name == "CLUSTER" || name == "PUBSUB" || name == "SET" || strings.HasSuffix(name, "SUBSCRIBE") || name == "RPUSH" || name == "XADD" || name == "PUBLISH" || name == "PUBSUB" {
			name += " " + fmt.Sprint(c.args[1])
		}
		if c.without == "" {
			refused = append(refused, name)
		} else {
			partly = append(partly, name+" ("+c.without+")")
			if c.args[0] == "PSUBSCRIBE" {
				patterns = append(patterns, fmt.Sprint("&", c.args[1]))
			}
		}
	}
	const remedy = "give the user what deploy/users.acl lists, and the keys of routes and of the namespace"
	if len(refused) > 0 {
		r.add(Finding{Check: "rights", Severity: Error, Message: fmt.Sprintf("user %s may not %s", user, strings.Join(slices.Compact(refused),
			", ")), Remedy: remedy})
	}
	if len(partly) > 0 {
		f := Finding{Check: "rights", Severity: Warning, Message: fmt.Sprintf("user %s may not %s", user, strings.Join(partly, ", ")), Remedy: remedy}
		if len(patterns) > 0 {
			f.Remedy += "; Redis compares patterns to the letter: ACL SETUSER " + user + " " + strings.Join(patterns, " ") +
				", and the same in the list of users"
		}
		r.add(f)
	}
	if len(refused)+len(partly) == 0 {
		r.add(Finding{Check: "rights", Severity: OK, Message: fmt.Sprintf("user %s may do all that is needed", user)})
	}
}

// layout compares what stands in Redis with what this program writes.
func (r *run) layout(ctx context.Context) {
	meta, err := r.conn.HGetAll(ctx, r.space.Meta()).Result()
	_, warning, derr := store.Discover(ctx, r.conn, keys.Space{Namespace: r.space.Namespace, Shards: r.cfg.Shards}, r.conn.Masters != nil)
	switch {
	case err != nil:
		r.add(Finding{Check: "layout", Severity: Error, Message: fmt.Sprintf("%s cannot be read: %v", r.space.Meta(), err),
			Remedy: "another program may use that key: choose another NOTIFIER_NAMESPACE"})
	case len(meta) == 0:
		r.add(Finding{Check: "layout", Severity: OK,
			Message: "nothing is kept under the namespace yet; the first start writes layout and shards"})
	case meta["layout"] != strconv.Itoa(store.Layout):
		r.add(Finding{Check: "layout", Severity: Error, Message: fmt.Sprintf("the data has layout %q, this program writes %d", meta["layout"],
			store.Layout),
			Remedy: "run the version that wrote it, or choose another NOTIFIER_NAMESPACE"})
	case derr != nil:
		r.add(Finding{Check: "layout", Severity: Error, Message: fmt.Sprintf("the data has %s shards, NOTIFIER_SHARDS is %d", meta["shards"],
			r.cfg.Shards),
			Remedy: "NOTIFIER_SHARDS=" + meta["shards"] + ", or remove the variable"})
	case warning != "":
		r.add(Finding{Check: "layout", Severity: Warning, Message: warning, Remedy: "NOTIFIER_SHARDS=" + meta["shards"] + ", or remove the variable"})
	default:
		r.add(Finding{Check: "layout", Severity: OK, Message: fmt.Sprintf("layout %d, %d shard(s)", store.Layout, r.space.Shards)})
		r.former(ctx)
		r.side(meta["side"])
	}
}

// side says how this Redis stands to one that notices move to or from.
func (r *run) side(text string) {
	side, ok := store.ParseSide(text)
	f := Finding{Check: "layout", Severity: Info}
	switch {
	case !ok:
		f.Severity, f.Message = Error, fmt.Sprintf("the field side of %s is %q, which no version of this program writes", r.space.Meta(), text)
		f.Remedy = "another program may use that key: choose another NOTIFIER_NAMESPACE"
	case side.State == store.SideLeaving:
		f.Severity, f.Message = Warning, "notices are being moved to another Redis: what has left is answered with 503 moved here"
		f.Remedy = "if notifier migrate runs no more, run it again with the same --to"
	case side.State == store.SideComing:
		f.Severity, f.Message = Warning, "notices are being moved to this Redis: until all have come, calls that schedule or change notices are answered with 503 moved"
		f.Remedy = "if notifier migrate runs no more, run it again with the same --to"
	case side.State == store.SideLeft:
		f.Message = "the notices of this Redis have moved to another one; what is still here is delivered and reported here, and nothing new is taken"
		f.Remedy = "notifier migrate, run again with the same --to, fetches what has ended since; then stop the instances here"
	case side.State == store.SideOpened:
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
		r.add(Finding{Check: "layout", Severity: Info, Message: fmt.Sprintf("former shards hold %d notices; they are delivered from there, and moved as far as "+
			"no attempt is under way and no report is awaited", n), Remedy: fmt.Sprintf("notifier reshard --to %d moves them at once", r.space.Shards)})
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
		key := prefix + strings.Repeat(":x", 3-strings.Count(prefix, ":"))
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
			r.add(Finding{Check: "prefixes", Severity: Warning, Message: fmt.Sprintf("route %s is paused and holds %d pending notices", name,
				pending),
				Remedy: "notifier resume " + name})
		}
	}
	return nil
}
