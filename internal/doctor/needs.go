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

// command is one that the service sends, with arguments to check it with.
type command struct {
	args []any
	// without says what does not work if the command is refused; empty means
	// that the service must not start.
	without string
}

// containers are the commands of which Redis grants each subcommand alone.
var containers = []string{"ACL", "CLIENT", "CLUSTER", "CONFIG", "PUBSUB", "SCRIPT"}

// right is the rule of an ACL that grants the command.
func (c command) right() string {
	name := strings.ToLower(fmt.Sprint(c.args[0]))
	if slices.Contains(containers, fmt.Sprint(c.args[0])) {
		name += "|" + strings.ToLower(fmt.Sprint(c.args[1]))
	}
	return "+" + name
}

// needs are the rights that a configuration takes at Redis.
type needs struct {
	cfg     *config.Config
	space   keys.Space
	db      int
	cluster bool
	// held are the prefixes of notifier:routes: other configurations' notices,
	// too, are swept and moved.
	held []string
}

// prefixes are those whose timers the service sets and deletes, sorted.
func (n needs) prefixes() []string {
	list := slices.Clone(n.held)
	for _, rt := range n.cfg.Routes {
		list = append(list, rt.Prefix)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// sampleKey is a notice key under a prefix.
func sampleKey(prefix string) string {
	return prefix + strings.Repeat(":x", 3-strings.Count(prefix, ":"))
}

// keyRules are the rules that grant the keys, and for each a key to check it with.
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

// globEscaper keeps the characters of a key that have a meaning in a pattern.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`)

// channelRules are the rules that grant the channels.
func (n needs) channelRules() []string {
	list := []string{"&" + n.space.Wake(), "&" + strings.TrimSuffix(n.space.FleetChannel(), "all") + "*", "&" + keys.Expired(n.db)}
	for _, rt := range n.cfg.Routes {
		if rt.Adopt {
			list = append(list, "&"+keys.Keyspace(n.db, rt.Prefix))
		}
	}
	return list
}

// commandRules are the rules that grant the commands, each once and sorted.
func (n needs) commandRules() []string {
	var list []string
	for _, c := range n.commands() {
		list = append(list, c.right())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// commands lists what the service sends with this configuration.
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
			command{args: []any{"CONFIG", "GET", "notify-keyspace-events"}, without: "settings stay unknown"},
			command{args: []any{"CONFIG", "SET", "notify-keyspace-events", "Ex"},
				without: "the service cannot set the notify flags; set them in redis.conf"})
	}
	list = append(list, n.confirming()...)

	for _, p := range n.prefixes() {
		list = append(list, command{args: []any{"SET", sampleKey(p), "1", "PXAT", "1"}})
	}
	for _, rt := range n.cfg.Routes {
		list = append(list, n.ofRoute(rt)...)
	}
	return list
}

// inCluster is sent to the nodes of a cluster besides.
var inCluster = []command{
	{args: []any{"CLUSTER", "SLOTS"}},
	{args: []any{"ASKING"}, without: "notices of a slot that is being moved to another node cannot be reached meanwhile"},
	{args: []any{"CLUSTER", "INFO"}, without: replacedLate},
	{args: []any{"CLUSTER", "NODES"}, without: replacedLate},
	{args: []any{"COMMAND"}, without: "the client of the cluster guesses where commands go"},
}

const (
	replacedLate = "a master that another has replaced is found out late, and what it confirms until then is lost"
	leasesOnly   = "an instance that dies is found by its leases only"
	unaudited    = "who changes what is logged only, and not in the audit"
	unconfirmed  = "nothing is confirmed, and calls that change notices are answered with 503"
)

// always lists what every instance sends.
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
		of("ZREMRANGEBYSCORE", s.Serving(), "0", "1"), of("ZPOPMIN", s.FleetEnded(), "1"),

		of("HSET", hash, member, "{}"), of("HSETNX", s.Meta(), "layout", "1"), of("HGET", hash, member), of("HMGET", hash, member),
		of("HGETALL", s.Meta()), of("HDEL", hash, member), of("HEXISTS", hash, member), of("HSCAN", hash, "0"), of("HLEN", hash),
		of("HINCRBY", s.History(0), "lost", "1"),

		of("SADD", s.Routes(), "app"), of("SREM", s.Paused(), "app"), of("SMEMBERS", s.Routes()), of("SISMEMBER", s.Paused(), "app"),
		of("RPUSH", s.Ended(0), "x"), of("LTRIM", s.Ended(0), "1", "-1"), of("LLEN", s.Ended(0)), of("LINDEX", s.Ended(0), "0"),
		of("LRANGE", s.Ended(0), "0", "1"),

		of("PUBLISH", s.Wake(), "x"), of("SUBSCRIBE", s.Wake()), of("SUBSCRIBE", keys.Expired(n.db)), of("PUBLISH", s.FleetChannel(), "x"),
		of("SUBSCRIBE", s.InstanceChannel("x"), s.FleetChannel()).or(leasesOnly),
		of("PUBSUB", "NUMSUB", s.InstanceChannel("x")).or(leasesOnly),

		of("GET", s.Key()).or("listings of more than a page are refused"),
		of("ZADD", s.ClientSessions("x"), "1", "x").or("nobody can sign in to the pages"),
		of("SET", s.Link("x"), "x", "PX", "1").or("no links to the pages can be made"),
		of("XADD", s.Audit("x", "rare"), "*", "k", "v").or(unaudited), of("XLEN", s.Audit("x", "rare")).or(unaudited),
		of("XREVRANGE", s.Audit("x", "rare"), "+", "-").or("the audit cannot be read"),
		of("XRANGE", s.FleetMinutes(), "-", "+").or("the charts of the pages stay empty"),
		of("PEXPIRETIME", member).or("notices are not moved to other shards"),
		of("PTTL", member).or("notices are not moved to other shards"),
		of("INFO").or("version and memory stay unknown"),
		of("ROLE").or("a master that became a replica is noticed late"),
	}
}

// or makes a command one that the service can start without.
func (c command) or(without string) command {
	c.without = without
	return c
}

// confirming is what the settings of durability wait with.
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

// ofRoute is what a route takes besides its timers.
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
	if !rt.Adopt {
		return list
	}

	const without = "plain timers are not taken over"
	timer := sampleKey(rt.Prefix)
	for _, args := range [][]any{{"PSUBSCRIBE", keys.Keyspace(n.db, rt.Prefix)}, {"STRLEN", timer}, {"SCAN", "0"},
		{"GETRANGE", timer, "0", "1"}} {
		list = append(list, command{args: args, without: without})
	}
	return list
}
