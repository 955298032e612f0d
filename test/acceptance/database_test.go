package acceptance

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/config"
	"notifier/internal/doctor"
	"notifier/internal/keys"
	"notifier/internal/notice"
	routes "notifier/internal/route"
	"notifier/internal/testkit"
)

// envWay names the variable with the connection mode of the suite. newRedis starts a Redis
// of that kind, and services use that mode. The test's own client has all rights.
const envWay = "NOTIFIER_TEST_WAY"

// database is the Redis of one test: one server, a master with a replica and sentinels, or
// a cluster.
type database struct {
	t       testing.TB
	servers []*testkit.Redis // the servers to kill and pause; the first is a master
	url     string           // for services
	env     []string         // a service's settings in addition to the URL
	anyone  []string         // the settings of a client with all rights
	client  redis.UniversalClient
	cluster bool
	shards  int // the default number of shards at the first start of a service
}

func (d *database) URL() string                   { return d.url }
func (d *database) Client() redis.UniversalClient { return d.client }

// of returns the key space of services with this number of shards.
func (d *database) of(shards int) keys.Space {
	if d.cluster {
		return keys.Space{Namespace: "notifier", Shards: shards, Tags: keys.SpreadTags(shards)}
	}
	return keys.Space{Namespace: "notifier", Shards: shards}
}

// space returns the key space of services with the default number of shards.
func (d *database) space() keys.Space { return d.of(d.shards) }

// part returns the partition of a notice.
func (d *database) part(prefix, key string) keys.Partition {
	return keys.Partition{Prefix: prefix, Shard: d.space().Shard(key)}
}

// sum adds up a number of each shard.
func (d *database) sum(of func(shard int) int64) (n int64) {
	for shard := range d.shards {
		n += of(shard)
	}
	return n
}

// waiting returns the number of entries in the outbox.
func (d *database) waiting() int64 { return endings(d.t.Context(), d.client, d.space()) }

// dropped fails the test if outbox entries were dropped.
func (d *database) dropped() {
	d.t.Helper()
	for shard := range d.shards {
		if lost := d.client.HGet(d.t.Context(), d.space().History(shard), "lost").Val(); lost != "" {
			d.t.Errorf("%s outbox entries were dropped", lost)
		}
	}
}

// set changes a setting of all servers.
func (d *database) set(name, value string) {
	d.t.Helper()
	for _, s := range d.servers {
		if err := s.Client().ConfigSet(d.t.Context(), name, value).Err(); err != nil {
			d.t.Fatal(err)
		}
	}
}

// cut closes all subscriptions and returns their number.
func (d *database) cut() (n int64) {
	for _, s := range d.servers {
		k, err := s.Client().ClientKillByFilter(d.t.Context(), "TYPE", "pubsub").Result()
		if err == nil {
			n += k
		}
	}
	return n
}

// names returns all keys.
func (d *database) names() (all []string) {
	d.t.Helper()
	for _, s := range d.servers {
		names, err := s.Client().Keys(d.t.Context(), "*").Result()
		if err != nil {
			d.t.Fatal(err)
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all) // a replica has them too
}

// cli returns the arguments of redis-cli for a client with all rights.
func (d *database) cli() []string {
	host, port, _ := net.SplitHostPort(d.servers[0].Addr())
	args := []string{"-h", host, "-p", port}
	if d.cluster {
		args = append(args, "-c")
	}
	return args
}

func (d *database) Kill() {
	d.t.Helper()
	for _, s := range d.servers {
		s.Kill()
	}
}

// Restart kills and restarts all servers, and waits until each slot has a master.
func (d *database) Restart() {
	d.t.Helper()
	d.Kill()
	for _, s := range d.servers {
		s.Restart()
	}
	d.whole()
}

func (d *database) Pause() {
	d.t.Helper()
	for _, s := range d.servers {
		s.Pause()
	}
}

func (d *database) Unpause() {
	d.t.Helper()
	for _, s := range d.servers {
		s.Unpause()
	}
}

// whole waits until the servers know each other again.
func (d *database) whole() {
	d.t.Helper()
	ctx := d.t.Context()
	await(d.t, waitTimeout, "the servers in service", func() bool {
		if !d.cluster {
			return strings.HasPrefix(fmt.Sprint(d.client.Do(ctx, "ROLE").Val()), "[master")
		}
		return !slices.ContainsFunc(d.servers, func(s *testkit.Redis) bool {
			return !strings.Contains(s.Client().ClusterInfo(ctx).Val(), "cluster_state:ok")
		})
	})
}

// alone is one server, reached as anyone.
func alone(t testing.TB, options ...testkit.Option) *database {
	db := testkit.StartRedis(t, options...)
	return &database{t: t, servers: []*testkit.Redis{db}, url: db.URL(), anyone: []string{"NOTIFIER_REDIS_URL=" + db.URL()},
		client: db.Client(), shards: 1}
}

// newRedis starts the Redis of a test, on the way that the suite takes.
func newRedis(t testing.TB, options ...testkit.Option) *database {
	t.Helper()
	if taken.way == nil {
		return alone(t, options...)
	}
	taken.note(t)
	db := taken.way.set(t, options...)
	taken.put(t, db)
	return db
}

// reach is the environment of a service that is to use the Redis of a URL.
func reach(url string) []string {
	return append([]string{"NOTIFIER_REDIS_URL=" + url}, taken.envOf(url)...)
}

// way is one to Redis.
type way struct {
	name, flag string
	cluster    bool
	set        func(t testing.TB, options ...testkit.Option) *database
}

// oldPrefix is that of the notices which a former version shares.
const oldPrefix = "app1:pay"

// userPassword is that of the service's user.
const userPassword = "a-password-of-the-service"

// asUser returns the start of a URL for a user with the rights that `doctor --acl` prints,
// and the line of redis.conf that creates the user. The user may access any key, because the
// tests do, and adopts timers under three prefixes.
func asUser(t testing.TB) (begin string, option testkit.Option) {
	t.Helper()
	c := &config.Config{Namespace: "notifier", Durability: notice.Durability{Replicas: 1}, ConfigureRedis: true}
	for _, prefix := range []string{"shop:orders", "app1:orders", oldPrefix} {
		c.Routes = append(c.Routes, &routes.Route{Prefix: prefix, Adopt: true})
	}
	rules := slices.DeleteFunc(doctor.Rights(c, true, 0, nil), func(r string) bool { return strings.HasPrefix(r, "~") })
	return "notifier:" + userPassword + "@", testkit.WithConfig("user notifier on "+strings.Join(rules, " ")+" ~* >"+userPassword,
		"notify-keyspace-events Ex$gK")
}

// ways are all that are tried.
func ways() []way {
	before := func(first testkit.Option, options []testkit.Option) []testkit.Option {
		return append([]testkit.Option{first}, options...) // the test's options win
	}
	return []way{
		{"as the user", "user", false, func(t testing.TB, options ...testkit.Option) *database {
			begin, user := asUser(t)
			db := alone(t, before(user, options)...)
			db.url = strings.Replace(db.url, "redis://", "redis://"+begin, 1)
			return db
		}},
		{"as the user, on TLS", "tls", false, func(t testing.TB, options ...testkit.Option) *database {
			begin, user := asUser(t)
			p := newPapers(t)
			s, addr := p.server(before(user, options)...)
			return &database{t: t, servers: []*testkit.Redis{s}, url: "rediss://" + begin + addr + "/0", env: p.env(),
				anyone: []string{"NOTIFIER_REDIS_URL=" + s.URL()}, client: s.Client(), shards: 1}
		}},
		{"as the user, on Sentinel", "sentinel", false, func(t testing.TB, options ...testkit.Option) *database {
			begin, user := asUser(t)
			url, mode, master, replica := sentinels(t, before(user, options)...)
			first, rest, _ := strings.Cut(strings.TrimPrefix(url, "redis://"), "/0?master_name=pay&addr=")
			c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "pay", SentinelAddrs: append(strings.Split(rest, "&addr="), first),
				DisableIdentity: true})
			t.Cleanup(func() { _ = c.Close() })
			return &database{t: t, servers: []*testkit.Redis{master, replica}, url: strings.Replace(url, "redis://", "redis://"+begin, 1),
				env:    append(slices.Clone(mode), "NOTIFIER_DURABILITY=replicas:1", "NOTIFIER_DURABILITY_TIMEOUT=10s"),
				anyone: append([]string{"NOTIFIER_REDIS_URL=" + url}, mode...), client: c, shards: 1}
		}},
		{"as the user, on a cluster", "cluster", true, func(t testing.TB, options ...testkit.Option) *database {
			begin, user := asUser(t)
			c := nodesWith(t, 3, 0, before(user, append([]testkit.Option{testkit.WithConfig("cluster-require-full-coverage no")},
				options...))...)
			mode := []string{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_SHARDS=6"}
			db := &database{t: t, url: strings.Replace(c.url, "redis://", "redis://"+begin, 1), env: mode,
				anyone: append([]string{"NOTIFIER_REDIS_URL=" + c.url}, mode...), client: c.client, cluster: true, shards: 6}
			for _, addr := range c.addrs {
				db.servers = append(db.servers, c.all[addr])
			}
			return db
		}},
		{"as the user, on a cluster with TLS", "cluster-tls", true, clusterOnTLS},
	}
}

func clusterOnTLS(t testing.TB, options ...testkit.Option) *database {
	begin, user := asUser(t)
	p := newPapers(t)
	var addrs, plain []string
	var all []*testkit.Redis
	for range 3 {
		n, addr := p.server(append([]testkit.Option{user, testkit.WithConfig("cluster-enabled yes", "cluster-require-full-coverage no",
			"tls-cluster yes",
			"tls-replication yes")}, options...)...)
		addrs, plain, all = append(addrs, addr), append(plain, n.Addr()), append(all, n)
	}
	cert, key := p.issue("cli")
	command(t, slices.Concat([]string{"--tls", "--cacert", p.authority(), "--cert", cert, "--key", key, "--cluster", "create"}, addrs,
		[]string{"--cluster-yes"})...)
	await(t, waitTimeout, "the cluster whole", func() bool {
		return !slices.ContainsFunc(all, func(n *testkit.Redis) bool {
			info := n.Client().ClusterInfo(t.Context()).Val()
			return !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3")
		})
	})
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: plain})
	t.Cleanup(func() { _ = c.Close() })
	mode := []string{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_SHARDS=6"}
	return &database{t: t, servers: all, url: "rediss://" + begin + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr="),
		env:    append(p.env(), mode...),
		anyone: append([]string{"NOTIFIER_REDIS_URL=redis://" + plain[0] + "?addr=" + strings.Join(plain[1:], "&addr=")}, mode...), client: c,
		cluster: true, shards: 6}
}
