package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"notifier/internal/config"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// good has the settings of deploy/redis.conf.
var good = []string{"notify-keyspace-events Ex", "appendonly yes", "appendfsync always", "maxmemory 512mb", "maxmemory-policy noeviction",
	"client-output-buffer-limit pubsub 64mb 16mb 60"}

func configFor(url string) *config.Config {
	return &config.Config{
		Redis: config.Redis{URL: url, Mode: config.Standalone}, Namespace: "notifier", Shards: 1, ConfigureRedis: true,
		Routes: []*route.Route{{Name: "orders", Prefix: "app1:orders", Target: route.Target{Kind: route.KindNotice},
			Ladder: notice.DefaultLadder, Timeout: 10 * time.Second}},
	}
}

func examine(t *testing.T, cfg *config.Config, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// says fails unless a finding of the check has that severity and contains words.
func (r *Report) says(t *testing.T, check string, s Severity, words string) {
	t.Helper()
	if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Check == check && f.Severity == s && strings.Contains(f.Message+" "+f.Remedy, words)
	}) {
		t.Errorf("no %s of %s contains %q; findings:\n%s", s, check, words, r.text())
	}
}

func (r *Report) text() string {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(string(f.Severity) + " " + f.Check + ": " + f.Message + " → " + f.Remedy + "\n")
	}
	return b.String()
}

func TestExamineHealthyServerFindsNothing(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	r := examine(t, configFor(s.URL()), Options{})
	if r.Errors+r.Warnings > 0 {
		t.Errorf("findings with the settings of deploy/redis.conf:\n%s", r.text())
	}
	for _, check := range []string{"reachability", "version", "notify flags", "memory", "persistence", "restart", "output buffer",
		"hz", "clock",
		"rights", "layout", "prefixes"} {
		r.says(t, check, OK, "")
	}
}

func TestExamineReportsWrongSettings(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig("maxmemory 100mb", "maxmemory-policy allkeys-lru", "appendonly no", `save ""`, "hz 5",
		"client-output-buffer-limit pubsub 1mb 1mb 60", `notify-keyspace-events ""`))
	cfg := configFor(s.URL())
	cfg.ConfigureRedis = false
	r := examine(t, cfg, Options{})
	r.says(t, "memory", Error, "allkeys-lru")
	r.says(t, "persistence", Error, "loses every notice")
	r.says(t, "output buffer", Warning, "disconnected")
	r.says(t, "notify flags", Warning, `lacks "Ex"`)
	r.says(t, "hz", Warning, "hz is 5")
	if r.Errors != 2 {
		t.Errorf("%d errors:\n%s", r.Errors, r.text())
	}
	r = examine(t, cfg, Options{Fix: true})
	if r.Errors != 1 { // --fix does not switch persistence on
		t.Errorf("%d errors after --fix:\n%s", r.Errors, r.text())
	}
	r = examine(t, cfg, Options{})
	r.says(t, "memory", OK, "noeviction")
	r.says(t, "notify flags", OK, "xE")
	r.says(t, "output buffer", OK, "67108864")
}

func TestExamineReportsReplica(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	if err := s.Client().Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	examine(t, configFor(s.URL()), Options{}).says(t, "role", Error, "replica of 127.0.0.1:1")
}

func TestExamineReportsFullRedis(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	if err := s.Client().ConfigSet(t.Context(), "maxmemory", "100kb").Err(); err != nil {
		t.Fatal(err)
	}
	examine(t, configFor(s.URL()), Options{}).says(t, "memory", Error, "new notices are refused")
}

func TestExamineReportsMaxclients(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	ctx := t.Context()
	if err := s.Client().ConfigSet(ctx, "maxclients", "1").Err(); err != nil { // testkit's own connection
		t.Fatal(err)
	}
	examine(t, configFor(s.URL()), Options{}).says(t, "reachability", Error, "maxclients")
	if err := s.Client().ConfigSet(ctx, "maxclients", "100").Err(); err != nil {
		t.Fatal(err)
	}
}

func TestExamineNamesLimitOfLargeReplies(t *testing.T) {
	for name, line := range map[string]string{"client-output-buffer-limit": "client-output-buffer-limit normal 1mb 1mb 0",
		"maxmemory-clients": "maxmemory-clients 600kb"} {
		s := testkit.StartRedis(t, testkit.WithConfig(append(slices.Clone(good), line)...))
		examine(t, configFor("redis://"+testkit.SlowLink(t, s.Addr(), 1<<20)+"/0"), Options{}).says(t, "large replies", Warning, name)
	}
}

func TestPersistenceReportsPossibleLoss(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(append(slices.Clone(good), "appendonly no", "save 3600 1")...))
	examine(t, configFor(s.URL()), Options{}).says(t, "persistence", Warning, "snapshots only")
	if err := s.Client().ConfigSet(t.Context(), "appendonly", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Client().ConfigSet(t.Context(), "appendfsync", "everysec").Err(); err != nil {
		t.Fatal(err)
	}
	examine(t, configFor(s.URL()), Options{}).says(t, "persistence", Info, "every second")
}

func TestExamineReportsMissingRights(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	for _, rules := range [][]string{{"on", ">secret-of-weak", "~notifier:*", "&*", "+@all", "-zadd", "-config"}} {
		if err := s.Client().Do(t.Context(), append([]any{"ACL", "SETUSER", "weak"}, anys(rules)...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r := examine(t, configFor("redis://weak:secret-of-weak@"+s.Addr()+"/0"), Options{})
	r.says(t, "rights", Error, "ZADD")
	r.says(t, "rights", Error, "EXISTS app1:orders:x:x")
	r.says(t, "rights", Error, "ACL SETUSER weak ~app1:orders:* +zadd")
	r.says(t, "rights", Warning, "CONFIG SET")
	r.says(t, "hz", Info, "CONFIG is refused")
	r = examine(t, configFor("redis://weak:wrong-password@"+s.Addr()+"/0"), Options{})
	r.says(t, "reachability", Error, "refuses the log-in")
	if strings.Contains(r.text(), "wrong-password") {
		t.Error("the password is shown")
	}
	// Without a log-in the settings of Redis are unknown.
	conn, err := wire.Open(wire.Address{URL: "redis://weak:wrong-password@" + s.Addr() + "/0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if found, err := Setup(t.Context(), configFor(""), conn); err == nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// The first shipped list of users lost every notice at a restart of Redis.
func TestRestartFindingNamesRightsOfUserDefault(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	do := func(args ...any) {
		t.Helper()
		if err := s.Client().Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	do("ACL", "SETUSER", "svc", "on", ">password", "~*", "&*", "+@all")
	cfg := configFor("redis://svc:password@" + s.Addr() + "/0")
	cfg.Routes = append(cfg.Routes, &route.Route{Name: "l", Prefix: "l", Target: route.Target{Kind: route.KindList, Key: "todo"},
		Timeout: time.Second})
	examine(t, cfg, Options{}).says(t, "restart", OK, "")

	do("ACL", "SETUSER", "default", "resetkeys", "-@all", "+ping", "+acl", "+config", "+role", "+info")
	r := examine(t, cfg, Options{})
	for _, words := range []string{"loses every notice", "ZADD notifier:{0}:shadow:app", "HSET", "RPUSH todo", "SET app1:orders:x:x",
		"ACL SETUSER default off ~* &* +@all"} {
		r.says(t, "restart", Error, words)
	}
	r.says(t, "rights", OK, "")

	do("ACL", "SETUSER", "svc", "-acl|dryrun")
	examine(t, cfg, Options{}).says(t, "restart", Info, "user default off ~* &* +@all")

	do("CONFIG", "SET", "appendonly", "no")
	if r := examine(t, cfg, Options{}); strings.Contains(r.text(), "restart:") {
		t.Errorf("a finding of restart without an append-only file:\n%s", r.text())
	}
}

// COMMAND INFO of Redis decides which commands go to the append-only file.
func TestReplayedListsAllWrites(t *testing.T) {
	s := testkit.StartRedis(t)
	cfg := configFor("")
	cfg.Routes = append(cfg.Routes, &route.Route{Prefix: "l", Target: route.Target{Kind: route.KindList, Key: "q"}, Adopt: true},
		&route.Route{Prefix: "s", Target: route.Target{Kind: route.KindStream, Key: "s"}})
	n := needs{cfg: cfg, space: keys.Space{Namespace: "n", Shards: 1}}
	info, err := s.Client().Command(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range n.commands() {
		name := fmt.Sprint(c.args[0])
		writes := slices.Contains(info[strings.ToLower(name)].Flags, "write")
		if writes != slices.Contains(replayed, name) {
			t.Errorf("%s: written to the file: %v", name, writes)
		}
	}
}

func TestMissingKeyPatternIsNamed(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	if err := s.Client().Do(t.Context(), "ACL", "SETUSER", "svc", "on", ">password", "~*", "&notifier:*", "&__keyevent@*__:expired",
		"&__keyspace@0__:old:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	cfg := configFor("redis://svc:password@" + s.Addr() + "/0")
	for _, p := range []string{"old", "app2"} {
		cfg.Routes = append(cfg.Routes, &route.Route{Name: p, Prefix: p, Target: route.Target{Kind: route.KindLog}, Timeout: time.Second,
			Adopt: true})
	}
	r := examine(t, cfg, Options{})
	r.says(t, "rights", Warning, "ACL SETUSER svc &__keyspace@0__:app2:*, and the same")
}

func anys(s []string) []any {
	out := make([]any, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}

func TestExamineReportsUnreachableServer(t *testing.T) {
	r := examine(t, configFor("redis://127.0.0.1:1/0"), Options{})
	r.says(t, "reachability", Error, "does not answer")
}

func TestExamineReportsUnconfiguredPrefixes(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	ctx, c := t.Context(), s.Client()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.HSet(ctx, "notifier:meta", "layout", store.Version, "shards", 4).Err())
	examine(t, cfg, Options{}).says(t, "layout", Error, "NOTIFIER_SHARDS=4")
	must(c.HSet(ctx, "notifier:meta", "layout", 99).Err())
	examine(t, cfg, Options{}).says(t, "layout", Error, `layout "99"`)
	must(c.HSet(ctx, "notifier:meta", "layout", store.Version, "shards", 1).Err())

	must(c.SAdd(ctx, "notifier:routes", "app1:orders", "app1:orders:old", "gone:away", "empty:one", "done:with").Err())
	must(c.ZAdd(ctx, "notifier:{0}:settled:done:with", redis.Z{Score: 1, Member: "k"}).Err())
	for _, prefix := range []string{"app1:orders:old", "gone:away", "app1:orders"} {
		must(c.ZAdd(ctx, "notifier:{0}:shadow:"+prefix, redis.Z{Score: 1, Member: "k"}).Err())
	}
	must(c.SAdd(ctx, "notifier:paused", "app1:orders").Err())
	r := examine(t, cfg, Options{})
	r.says(t, "prefixes", Info, "moves them to route orders")
	r.says(t, "prefixes", Error, "gone:away")
	r.says(t, "prefixes", Warning, "notifier resume orders")
	if strings.Contains(r.text(), "empty:one") || strings.Contains(r.text(), "done:with") {
		t.Errorf("a prefix with no notices, or only settled ones, is reported:\n%s", r.text())
	}
}

// A notice postponed because of HEADERS_TO starts no exchange, so no lateness shows it.
func TestNoticesWithoutTheirHeadersAreReported(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	r := examine(t, cfg, Options{})
	if strings.Contains(r.text(), "headers") {
		t.Errorf("headers are checked on a route without HEADERS_TO:\n%s", r.text())
	}
	var err error
	rt := cfg.Routes[0]
	rt.Name, rt.Headers = "my-orders", []notice.Header{{Name: "Authorization", Value: "hunter2"}}
	if rt.HeadersTo, err = route.ParseOrigins("*.shop.example"); err != nil {
		t.Fatal(err)
	}
	examine(t, cfg, Options{}).says(t, "headers", OK, "no pending notice waits")

	w := store.New(store.Options{Client: s.Client(), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	add := func(url string, n int) {
		t.Helper()
		for i := range n {
			req := store.Request{Key: fmt.Sprintf("app1:orders:x:%s%d", regexp.MustCompile(`\W+`).ReplaceAllString(url, "-"), i), Delay: time.Hour}
			req.URL = url
			if _, err := w.Schedule(t.Context(), keys.Partition{Prefix: rt.Prefix}, []store.Request{req}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("https://a.shop.example/ok", 3)
	add("http://other.example/", 3)
	examine(t, cfg, Options{}).says(t, "headers", OK, "no pending notice waits")
	add("http://a.shop.example/hook?token=hunter2", 2)
	add("https://b.shop.example:8443/", 1)
	r = examine(t, cfg, Options{})
	r.says(t, "headers", Warning, "of 9 pending notices of route my-orders, 3 are postponed when they are due")
	r.says(t, "headers", Warning,
		": http://a.shop.example (2 notices, such as app1:orders:x:http-a-shop-example-hook-token-hunter20; want https://a.shop.example), "+
			"https://b.shop.example:8443 (1 notice, such as app1:orders:x:https-b-shop-example-8443-0; want https://b.shop.example) ")
	r.says(t, "headers", Warning, "add http://a.shop.example,https://b.shop.example:8443 to NOTIFIER_ROUTE_MY_ORDERS_HEADERS_TO")
	for i := range 7 {
		add(fmt.Sprintf("http://h%d.shop.example/", i), 1)
	}
	examine(t, cfg, Options{}).says(t, "headers", Warning, "and 4 more")
}

func TestRepeatsReportsShortWindow(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	cfg.Retention, cfg.RepeatWindow = 24*time.Hour, time.Hour
	examine(t, cfg, Options{}).says(t, "repeats", OK, "recognised for at least 1h")
	short := time.Now().Add(-20 * time.Minute).UnixMilli()
	if err := s.Client().HSet(t.Context(), "notifier:{0}:trimmed", "app1:orders", short+5000, "", short).Err(); err != nil {
		t.Fatal(err)
	}
	examine(t, cfg, Options{}).says(t, "repeats", Warning, "repeated more than 20m")
	if err := s.Client().HSet(t.Context(), "notifier:{0}:trimmed", "app1:orders", short-int64(time.Hour/time.Millisecond)).Err(); err != nil {
		t.Fatal(err)
	}
	examine(t, cfg, Options{}).says(t, "repeats", OK, "recognised for at least 1h")
}

func TestClockReportsDifference(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	for off, want := range map[time.Duration]Severity{0: OK, 10 * time.Second: Warning, -time.Hour: Error} {
		examine(t, configFor(s.URL()), Options{Now: func() time.Time { return time.Now().Add(off) }}).says(t, "clock", want, "")
	}
}

// Every command of a script is part of the check of rights.
func TestRightsCoverTheScripts(t *testing.T) {
	cfg := configFor("")
	cfg.Routes = append(cfg.Routes, &route.Route{Prefix: "l", Target: route.Target{Kind: route.KindList, Key: "q"}, Adopt: true},
		&route.Route{Prefix: "s", Target: route.Target{Kind: route.KindStream, Key: "s"}})
	n := needs{cfg: cfg, space: keys.Space{Namespace: "n", Shards: 1}}
	tried := map[string]bool{}
	for _, c := range n.commands() {
		tried[fmt.Sprint(c.args[0])] = true
	}
	files, err := filepath.Glob("../*/lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	call := regexp.MustCompile(`\bp?call\('([A-Za-z]+)'`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			if !tried[strings.ToUpper(m[1])] {
				t.Errorf("%s calls %s, which the check of the rights does not try", filepath.Base(f), m[1])
			}
		}
	}
}
