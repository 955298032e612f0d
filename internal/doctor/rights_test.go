package doctor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/config"
	"notifier/internal/notice"
	"notifier/internal/redistest"
	"notifier/internal/route"
)

// granted are the rules that deploy/users.acl gives the service's user.
func granted(t *testing.T) []string {
	t.Helper()
	file, err := os.ReadFile("../../deploy/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "notifier" {
			return f[2:]
		}
	}
	t.Fatal("deploy/users.acl has no user notifier")
	return nil
}

// taking are servers on which each right of deploy/users.acl can be taken away from the
// service's user.
type taking struct {
	t     *testing.T
	s     *redistest.Server
	cfg   *config.Config
	rules []string
}

// without is what doctor finds when the rules are changed.
func (k taking) without(change func([]string) []string) *Report {
	k.t.Helper()
	all := append([]string{"ACL", "SETUSER", "svc", "reset"}, change(slices.Clone(k.rules))...)
	if err := k.s.Client().Do(k.t.Context(), anys(append(all, "on", ">password"))...).Err(); err != nil {
		k.t.Fatal(err)
	}
	return examine(k.t, k.cfg, Options{})
}

// names reports whether something that is not well names a right.
func names(r *Report, right string) bool {
	word := regexp.MustCompile(`(?i)(^|[ ('])` + regexp.QuoteMeta(right) + `($|[ ,:)*'])`)
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Severity != OK && word.MatchString(strings.ReplaceAll(f.Message, "|", " "))
	})
}

// Each right of deploy/users.acl, taken away alone, is named, by a Redis alone or by a
// cluster.
func TestEachRightThatIsMissingIsNamed(t *testing.T) {
	ctx, rules := t.Context(), granted(t)
	one := taking{t, redistest.Start(t, redistest.WithConfig(good...)), nil, rules}
	one.cfg = configFor("redis://svc:password@" + one.s.Addr() + "/2?client_name=x")
	many := taking{t, redistest.Start(t, redistest.WithConfig(append(slices.Clone(good), "cluster-enabled yes")...)), nil, rules}
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
	many.cfg.Routes = append(many.cfg.Routes, &route.Route{Name: "l", Prefix: "l", Target: route.Target{Kind: route.KindList, Key: "todo"}, Timeout: time.Second},
		&route.Route{Name: "s", Prefix: "s", Target: route.Target{Kind: route.KindStream, Key: "flow"}, Timeout: time.Second},
		&route.Route{Name: "shop", Prefix: "shop:orders", Target: route.Target{Kind: route.KindLog}, Timeout: time.Second, Adopt: true})
	both := []taking{one, many}
	for _, k := range both {
		k.without(func(all []string) []string { return all }).says(t, "rights", OK, "")
	}
	for _, right := range rules {
		name, change := right, func(all []string) []string { return append(all, "-"+right[1:]) }
		switch {
		case right == "+auth", right == "+hello", right == "+quit":
			continue // Redis lets everybody do that
		case strings.HasPrefix(right, "+@"):
			name = "PING"
		case strings.HasPrefix(right, "+"):
			name = strings.ReplaceAll(right[1:], "|", " ")
		case strings.HasPrefix(right, "&"):
			name = "SUBSCRIBE " + strings.ReplaceAll(strings.Split(right[1:], ":*")[0], "@*", "@0")
			if strings.HasPrefix(right, "&__keyspace") {
				name = "PSUBSCRIBE __keyspace@0__:shop:orders:"
			} else if right == "&notifier:*" {
				name = "SUBSCRIBE notifier:wake"
			}
			change = func(all []string) []string { return slices.DeleteFunc(all, func(x string) bool { return x == right }) }
		case right == "~*":
			name = "ZADD"
			change = func(all []string) []string { return slices.DeleteFunc(all, func(x string) bool { return x == right }) }
		default:
			continue // takes something away
		}
		var said []string
		if !slices.ContainsFunc(both, func(k taking) bool {
			r := k.without(change)
			said = append(said, r.text())
			return names(r, name)
		}) {
			t.Errorf("without %s nobody names %s:\n%s", right, name, strings.Join(said, "\n"))
		}
	}
}
