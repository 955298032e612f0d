package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/config"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// taking is a server that can take single rights from the service's user.
type taking struct {
	t     *testing.T
	s     *testkit.Redis
	cfg   *config.Config
	rules []string
}

// without returns the findings with changed rules.
func (k *taking) without(change func([]string) []string) *Report {
	k.t.Helper()
	all := append([]string{"ACL", "SETUSER", "svc", "reset"}, change(slices.Clone(k.rules))...)
	if err := k.s.Client().Do(k.t.Context(), anys(append(all, "on", ">password"))...).Err(); err != nil {
		k.t.Fatal(err)
	}
	return examine(k.t, k.cfg, Options{})
}

// Each rule of Rights, removed alone, is named with the command that adds it, on one server and on a
// cluster.
func TestMissingRightIsNamed(t *testing.T) {
	ctx := t.Context()
	one := &taking{t: t, s: testkit.StartRedis(t, testkit.WithConfig(good...))}
	one.cfg = configFor("redis://svc:password@" + one.s.Addr() + "/2?client_name=x")
	many := &taking{t: t, s: testkit.StartRedis(t, testkit.WithConfig(append(slices.Clone(good), "cluster-enabled yes")...))}
	c := many.s.Client()
	if err := c.ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); c.Set(ctx, "probe", "x", 0).Err() != nil; {
		if time.Now().After(end) {
			t.Fatal("the cluster does not agree within 30 s")
		}
	}
	many.cfg = configFor("redis://svc:password@" + many.s.Addr())
	many.cfg.Redis.Mode, many.cfg.Durability = config.Cluster, notice.Durability{Replicas: 1}
	many.cfg.Routes = append(many.cfg.Routes, &route.Route{Name: "l", Prefix: "l", Target: route.Target{Kind: route.KindList, Key: "todo"},
		Timeout: time.Second},
		&route.Route{Name: "s", Prefix: "s", Target: route.Target{Kind: route.KindStream, Key: "f*ow"}, Timeout: time.Second},
		&route.Route{Name: "shop", Prefix: "shop:orders", Target: route.Target{Kind: route.KindLog}, Timeout: time.Second, Adopt: true})

	one.rules, many.rules = Rights(one.cfg, false, 2, nil), Rights(many.cfg, true, 0, nil)
	for _, k := range []*taking{one, many} {
		k.without(func(all []string) []string { return all }).says(t, "rights", OK, "")
		for _, rule := range k.rules {
			if strings.HasPrefix(rule, "reset") || strings.HasPrefix(rule, "-") || rule == "+acl|whoami" || rule == "+acl|dryrun" ||
				rule == "+ping" {
				continue // no check works without these
			}
			r := k.without(func(all []string) []string { return slices.DeleteFunc(all, func(x string) bool { return x == rule }) })
			named := slices.ContainsFunc(r.Findings, func(f Finding) bool {
				words := strings.FieldsFunc(f.Remedy, func(c rune) bool { return c == ' ' || c == ',' })
				return f.Severity != OK && (slices.Contains(words, rule) || f.Check == "reachability" &&
					strings.Contains(f.Message, "'"+rule[1:]+"' command"))
			})
			if !named && rule != "+client|setname" { // no connection opens without it
				t.Errorf("no finding names the missing %s:\n%s", rule, r.text())
			}
		}
	}
}

// The rules grant the keys of the configuration and of the prefixes stored in Redis, and no others.
func TestRightsGrantNothingElse(t *testing.T) {
	s := testkit.StartRedis(t)
	ctx, c := t.Context(), s.Client()
	if err := c.SAdd(ctx, "notifier:routes", "old:app", "not a prefix *").Err(); err != nil {
		t.Fatal(err)
	}
	cfg := configFor("redis://" + s.Addr() + "/0")
	cfg.ConfigureRedis = false
	cfg.Routes = append(cfg.Routes, &route.Route{Name: "l", Prefix: "l", Target: route.Target{Kind: route.KindList, Key: "to*do"},
		Timeout: time.Second})
	user, rules, err := ACLUser(ctx, cfg)
	if err != nil || user != "notifier" {
		t.Fatal(user, err)
	}
	if err := c.Do(ctx, anys(append([]string{"ACL", "SETUSER", user, "on"}, rules...))...).Err(); err != nil {
		t.Fatal(err)
	}

	for _, allowed := range [][]any{{"SET", "app1:orders:a:b", "1"}, {"SET", "old:app:a:b", "1"}, {"HGET", "notifier:{0}:records:app1", "x"},
		{"RPUSH", "to*do", "x"}, {"PUBLISH", "notifier:{fleet}:0:tap", "x"}, {"SUBSCRIBE", "notifier:{fleet}:0:instance:x"}} {
		if reply := c.Do(ctx, append([]any{"ACL", "DRYRUN", user}, allowed...)...).Val(); reply != "OK" {
			t.Errorf("%v: %v", allowed, reply)
		}
	}
	for _, refused := range [][]any{{"GET", "session:1"}, {"DEL", "app1:other:a:b"}, {"RPUSH", "to-do", "x"}, {"CONFIG", "GET", "requirepass"},
		{"CONFIG", "SET", "maxmemory", "1mb"}, {"SUBSCRIBE", "__keyevent@1__:expired"}, {"SUBSCRIBE", "news"}, {"FLUSHALL"}, {"KEYS", "*"},
		{"SUBSCRIBE", "notifier:{fleet}:1:tap"}, {"SUBSCRIBE", "notifier:{fleet}:10:tap"},
		{"SCAN", "0"}, {"ACL", "SETUSER", "x"}, {"PSUBSCRIBE", "*"}} {
		if reply := c.Do(ctx, append([]any{"ACL", "DRYRUN", user}, refused...)...).Val(); reply == "OK" {
			t.Errorf("%v is allowed", refused)
		}
	}
}

// If ACL DRYRUN is refused, as before Redis 7.0, keys and reads are tried.
func TestAllowedTriesWhereDryRunIsRefused(t *testing.T) {
	s := testkit.StartRedis(t)
	ctx, c := t.Context(), s.Client()
	for rules, want := range map[string]string{
		"~notifier:* ~app1:orders:* &* +@all -acl|dryrun":         "",
		"~notifier:* &* +@all -acl|dryrun":                        "~app1:orders:*",
		"~notifier:* ~app1:orders:* &* +@all -acl|dryrun -zcount": "+zcount",
		"~notifier:* ~app1:orders:* &* +@all -acl -time":          "+time",
	} {
		if err := c.Do(ctx, anys(append([]string{"ACL", "SETUSER", "svc", "reset", "on", ">password"},
			strings.Fields(rules)...))...).Err(); err != nil {
			t.Fatal(err)
		}
		conn, err := wire.Open(wire.Address{URL: "redis://svc:password@" + s.Addr() + "/0"})
		if err != nil {
			t.Fatal(err)
		}
		err = Allowed(ctx, configFor(""), conn)
		_ = conn.Close()
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrRights) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", rules, err, want)
		}
	}
}
