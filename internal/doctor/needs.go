package doctor

import (
	"fmt"
	"slices"
	"strings"

	"notifier/internal/config"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// command is a command that the service sends, with arguments for a permission check.
type command struct {
	args []any
	// without describes the effect if the command is refused; empty means that the service must not start.
	without string
}

// containers are the commands whose subcommands Redis grants separately.
var containers = []string{"ACL", "CLIENT", "CLUSTER", "CONFIG", "PUBSUB", "SCRIPT"}

// right returns the ACL rule that grants the command.
func (c command) right() string {
	name := strings.ToLower(fmt.Sprint(c.args[0]))
	if slices.Contains(containers, fmt.Sprint(c.args[0])) {
		name += "|" + strings.ToLower(fmt.Sprint(c.args[1]))
	}

	return "+" + name
}

// needs computes the Redis rights that a configuration requires.
type needs struct {
	cfg     *config.Config
	space   keys.Space
	db      int
	cluster bool
	// held are the prefixes in notifier:routes. Notices of other configurations are swept and moved too.
	held []string
}

// prefixes returns the sorted prefixes whose timers the service sets and deletes.
func (n needs) prefixes() []string {
	list := slices.Clone(n.held)
	for _, rt := range n.cfg.Routes {
		list = append(list, rt.Prefix)
	}

	slices.Sort(list)
	return slices.Compact(list)
}

// sampleKey returns a notice key with that prefix.
func sampleKey(prefix string) string {
	return prefix + strings.Repeat(":x", 3-strings.Count(prefix, ":"))
}

// keyRules returns the rules that grant the keys, and a sample key for each rule.
func (n needs) keyRules() (rules, samples []string) {
	add := func(rule, sample string) {
		if rule = "~" + rule; !slices.Contains(rules, rule) {
			rules, samples = append(rules, rule), append(samples, sample)
		}
	}
	add(n.space.Namespace+":*", n.space.Meta())

	for _, p := range n.prefixes() {
		add(p+":*", sampleKey(p))
	}

	for _, rt := range n.cfg.Routes {
		if k := rt.Target.Kind; k == route.KindList || k == route.KindStream {
			add(globEscaper.Replace(rt.Target.Key), rt.Target.Key)
		}
	}

	return rules, samples
}

// globEscaper escapes the characters of a key that are special in a pattern.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`)

// channelRules returns the rules that grant the channels.
func (n needs) channelRules() []string {
	list := []string{"&" + n.space.Wake(), "&" + n.space.FleetChannels(n.db) + "*", "&" + keys.Expired(n.db)}
	for _, rt := range n.cfg.Routes {
		if rt.Adopt {
			list = append(list, "&"+keys.Keyspace(n.db, rt.Prefix))
		}
	}

	return list
}

// commandRules returns the sorted, distinct rules that grant the commands.
func (n needs) commandRules() []string {
	var list []string
	for _, c := range n.commands() {
		list = append(list, c.right())
	}

	slices.Sort(list)
	return slices.Compact(list)
}

// commands lists the commands that the service sends with this configuration.
func (n needs) commands() []command {
	list := n.always()
	if n.cluster {
		list = append(list, inCluster...)
	}

	if n.db > 0 {
		list = append(list, command{args: []any{"SELECT", n.db}})
	}

	if strings.Contains(string(n.cfg.Redis.URL), "client_name=") {
		list = append(list, command{args: []any{"CLIENT", "SETNAME", "x"}})
	}

	if n.cfg.ConfigureRedis {
		list = append(list,
			command{args: []any{"CONFIG", "GET", "notify-keyspace-events"}, without: "settings are unknown"},
			command{args: []any{"CONFIG", "SET", "notify-keyspace-events", "Ex"},
				without: "the service cannot set the notify flags; set them in redis.conf"})
	}

	list = append(list, n.confirming()...)
	list = append(list, n.ofTaps()...)

	for _, p := range n.prefixes() {
		list = append(list, command{args: []any{"SET", sampleKey(p), "1", "PXAT", "1"}})
	}

	for _, rt := range n.cfg.Routes {
		list = append(list, n.ofRoute(rt)...)
	}

	return list
}

// inCluster lists the additional commands for the nodes of a cluster.
var inCluster = []command{
	{args: []any{"CLUSTER", "SLOTS"}},
	{args: []any{"ASKING"}, without: "notices of a slot are unreachable while the slot moves to another node"},
	{args: []any{"CLUSTER", "INFO"}, without: replacedLate},
	{args: []any{"CLUSTER", "NODES"}, without: replacedLate},
	{args: []any{"COMMAND"}, without: "the client of the cluster guesses where commands go"},
}

// ofTaps is what taps publish and subscribe with: sharded pub/sub in a cluster.
func (n needs) ofTaps() []command {
	channel, prefix := n.space.TapChannel(n.db), ""
	if n.cluster {
		prefix = "S"
	}

	const without = "notifier listen shows nothing"
	return []command{{args: []any{prefix + "PUBLISH", channel, "x"}, without: without},
		{args: []any{prefix + "SUBSCRIBE", channel}, without: without}}
}

const (
	replacedLate = "a replaced master is noticed late, and its confirmed writes until then are lost"
	leasesOnly   = "the claims of a dead instance are reclaimed only when their leases end"
	unaudited    = "changes are logged, but not in the audit"
	unconfirmed  = "nothing is confirmed, and calls that change notices get 503"
)

// always lists the commands that every instance sends.
func (n needs) always() []command {
	s := n.space
	member := s.Namespace + ":probe"
	zset, hash := s.Shadow(keys.Partition{Prefix: "app"}), s.Records(keys.Partition{Prefix: "app"})
	claim := s.ClaimPrefix(0) + "x"
	of := func(args ...any) command { return command{args: args} }
	return []command{
		of("PING"), of("TIME"), of("MULTI"), of("EXEC"),
		of("ACL", "WHOAMI").or("the rights of this user cannot be checked"),
		of("ACL", "DRYRUN", "default", "PING").or("the rights of this user cannot be checked"),
		of("EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", 1, zset), of("EVAL", "return 1", 1, zset),

		of("EXISTS", member), of("DEL", member), of("UNLINK", s.Bucket(0, "1")), of("SET", member, "1", "PXAT", "1"),
		of("PEXPIREAT", member, "1"),
		of("SET", claim, "t", "NX", "PX", "1"), of("GET", claim), of("MGET", claim), of("PEXPIRE", claim, "1"),

		of("ZADD", zset, "1", member), of("ZREM", zset, member), of("ZCARD", zset), of("ZCOUNT", zset, "0", "1"),
		of("ZRANGE", zset, "0", "1"), of("ZRANGEBYSCORE", zset, "0", "1"), of("ZREVRANGEBYSCORE", zset, "1", "0"),
		of("ZRANK", zset, member), of("ZSCORE", zset, member), of("ZMSCORE", zset, member), of("ZSCAN", zset, "0"),
		of("ZRANGEBYLEX", zset, "-", "+"), of("ZLEXCOUNT", zset, "-", "+"), of("ZREMRANGEBYSCORE", s.Serving(), "0", "1"),
		of("ZPOPMIN", s.FleetEnded(), "1"),

		of("HSET", hash, member, "{}"), of("HSETNX", s.Meta(), "layout", "1"), of("HGET", hash, member), of("HMGET", hash, member),
		of("HGETALL", s.Meta()), of("HDEL", hash, member), of("HEXISTS", hash, member), of("HSCAN", hash, "0"), of("HLEN", hash),
		of("HINCRBY", s.History(0), "lost", "1"),

		of("SADD", s.Routes(), "app"), of("SREM", s.Paused(), "app"), of("SMEMBERS", s.Routes()), of("SISMEMBER", s.Paused(), "app"),
		of("SMISMEMBER", s.ShardOrdered(0), "app"),
		of("RPUSH", s.Ended(0), "x"), of("LTRIM", s.Ended(0), "1", "-1"), of("LLEN", s.Ended(0)), of("LINDEX", s.Ended(0), "0"),
		of("LRANGE", s.Ended(0), "0", "1"),

		of("PUBLISH", s.Wake(), "x"), of("SUBSCRIBE", s.Wake()), of("SUBSCRIBE", keys.Expired(n.db)), of("PUBLISH", s.FleetChannel(n.db), "x"),
		of("SUBSCRIBE", s.InstanceChannel(n.db, "x"), s.FleetChannel(n.db)).or(leasesOnly),
		of("PUBSUB", "NUMSUB", s.InstanceChannel(n.db, "x")).or(leasesOnly),

		of("GET", s.Key()).or("listings of more than a page are refused"),
		of("ZADD", s.ClientSessions("x"), "1", "x").or("signing in to the pages fails"),
		of("SET", s.Link("x"), "x", "PX", "1").or("links to the pages cannot be created"),
		of("XADD", s.Audit("x", "rare"), "*", "k", "v").or(unaudited), of("XLEN", s.Audit("x", "rare")).or(unaudited),
		of("XREVRANGE", s.Audit("x", "rare"), "+", "-").or("the audit cannot be read"),
		of("XRANGE", s.FleetMinutes(), "-", "+").or("the charts of the pages stay empty"),
		of("PEXPIRETIME", member).or("the timers of cancelled and changed notices stay"),
		of("PTTL", member).or("the timers of cancelled and changed notices stay"),
		of("INFO").or("version and memory are unknown"),
		of("ROLE").or("a master that became a replica is noticed late"),
	}
}

// or marks a command as optional, with the effect of its refusal.
func (c command) or(without string) command {
	c.without = without
	return c
}

// confirming lists the commands for the configured durability.
func (n needs) confirming() []command {
	var list []command
	for _, d := range []notice.Durability{n.cfg.Durability, n.cfg.DurabilitySettle} {
		switch {
		case d.Replicas > 0:
			list = append(list, command{args: []any{"WAIT", d.Replicas, "1"}, without: unconfirmed})
		case d.Fsync:
			list = append(list, command{args: []any{"WAITAOF", "1", "0", "1"}, without: unconfirmed},
				command{args: []any{"CONFIG", "GET", "appendfsync"}, without: "fsync is refused on a Redis before 8"})
		}
	}

	return list
}

// ofRoute lists the commands of one route, except those for timers.
func (n needs) ofRoute(rt *route.Route) []command {
	var list []command
	switch rt.Target.Kind {
	case route.KindList:
		list = append(list, command{args: []any{"RPUSH", rt.Target.Key, "x"}})
	case route.KindStream:
		list = append(list, command{args: []any{"XADD", rt.Target.Key, "*", "k", "v"}})
	}

	if len(list) > 0 && n.cluster {
		list = append(list, command{args: []any{"SET", n.space.Pushed(rt.Target.Key, "x"), "", "NX", "PX", "1"}})
	}

	if rt.OnDead != nil {
		list = append(list, command{args: []any{"LREM", n.space.Deaths(0), "1", "x"}})
	}

	if !rt.Adopt {
		return list
	}

	const without = "plain timers are not adopted"
	timer := sampleKey(rt.Prefix)
	for _, args := range [][]any{{"PSUBSCRIBE", keys.Keyspace(n.db, rt.Prefix)}, {"STRLEN", timer}, {"SCAN", "0"},
		{"GETRANGE", timer, "0", "1"}} {
		list = append(list, command{args: args, without: without})
	}

	return list
}
