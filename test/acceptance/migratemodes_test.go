//go:build fault

package acceptance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/testkit"
)

// Notices and adopted timers go from each way to Redis to the next, as the user of
// deploy/users.acl, and come once; a timer that has moved is followed as before.
func TestMigrationInEveryConnectionMode(t *testing.T) {
	all := ways()
	for i, from := range all {
		to := all[(i+1)%len(all)]
		t.Run(from.name+" to "+to.name, func(t *testing.T) { migrateWay(t, from, to) })
	}
}

func migrateWay(t *testing.T, from, to way) {
	rec := listen(t, nil)
	routes := append(route("pay", "app1:pay", rec.url), route("shop", "shop:orders", rec.url, "ADOPT=true")...)
	db, farDB := from.set(t), to.set(t)
	url, env, farURL, farEnv := db.URL(), db.env, farDB.URL(), farDB.env
	a, b := launch(t, url, env, routes), launch(t, farURL, farEnv, routes)
	ctx := t.Context()
	const n, plain = 150, 12
	at := time.Now()
	a.scheduleAll(n, func(i int) string {
		due := at.Add(2 * time.Hour)
		if i < n/2 {
			due = at.Add(5*time.Second + time.Duration(i)*20*time.Millisecond)
		}
		return line(fmt.Sprintf("app1:pay:x:%d", i), due)
	})
	set := func(db *database, key, body, life string) {
		t.Helper()
		command(t, "-c", "-u", "redis://"+db.servers[0].Addr(), "set", key, body, "px", life)
	}
	for i := range plain {
		set(db, fmt.Sprintf("shop:orders:x:%d", i), fmt.Sprintf("body-%d", i), "3600000")
	}
	set(db, "shop:orders:soon:1", "soon", "8000")
	is := func(s *service, key string, state client.State, body string) bool {
		got, err := s.api.Get(ctx, key)
		return err == nil && got.State == state && (strings.Contains(string(got.JSON), body) ||
			strings.Contains(string(got.JSON), base64.StdEncoding.EncodeToString([]byte(body)))) // a body that is no JSON
	}
	for i := range plain {
		key := fmt.Sprintf("shop:orders:x:%d", i)
		await(t, waitTimeout, key+" adopted", func() bool { return is(a, key, client.Scheduled, fmt.Sprintf("body-%d", i)) })
	}
	mode := "standalone"
	args := []string{"PATH=" + os.Getenv("PATH"), "NOTIFIER_REDIS_URL=" + url}
	for _, v := range farEnv {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case name == "NOTIFIER_REDIS_MODE":
			mode = value
		case strings.HasPrefix(name, "NOTIFIER_REDIS_"):
			args = append(args, "NOTIFIER_TO_"+strings.TrimPrefix(name, "NOTIFIER_")+"="+value)
		}
	}
	args = append(args, env...)
	migrate := func() migrated {
		t.Helper()
		c := exec.CommandContext(ctx, binary, "migrate", "--json", "--to", farURL, "--to-mode", mode)
		c.Env = args
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		var done migrated
		if err == nil {
			err = json.Unmarshal(out, &done)
		}
		if err != nil || done.Missing > 0 || !done.Open {
			t.Fatalf("%v: %s%s", err, said.String(), out)
		}
		return done
	}
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "NOTIFIER_DURABILITY=replicas") }) {
		c := exec.CommandContext(ctx, binary, "migrate", "--to", farURL, "--to-mode", mode)
		c.Env = args
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "set it to what both can confirm") {
			t.Errorf("the new side has no replicas: %v, %s", err, out)
		}
		args = append(args, "NOTIFIER_DURABILITY=memory")
	}
	t.Logf("%+v", migrate())
	for i := range plain {
		if key := fmt.Sprintf("shop:orders:x:%d", i); !is(b, key, client.Scheduled, fmt.Sprintf("body-%d", i)) {
			t.Errorf("%s is not on the new side", key)
		}
	}
	for i := n / 2; i < n; i++ {
		if key := fmt.Sprintf("app1:pay:x:%d", i); !is(b, key, client.Scheduled, key) {
			t.Errorf("%s is not on the new side", key)
		}
	}
	// What its owner does with a timer that has moved is followed there.
	set(farDB, "shop:orders:x:0", "again", "3600000")
	await(t, waitTimeout, "the timer set again", func() bool { return is(b, "shop:orders:x:0", client.Scheduled, "again") })
	command(t, "-c", "-u", "redis://"+farDB.servers[0].Addr(), "del", "shop:orders:x:1")
	await(t, waitTimeout, "the timer deleted", func() bool { return is(b, "shop:orders:x:1", client.Cancelled, "") })
	command(t, "-c", "-u", "redis://"+farDB.servers[0].Addr(), "pexpire", "shop:orders:x:2", "3000")
	rec.wait(2*waitTimeout, n/2+2)
	migrate()
	rec.once(n/2 + 2)
	for i, s := range []*service{a, b} {
		if log := tail(s.log); strings.Contains(log, "NOPERM") || strings.Contains(log, "no permissions") {
			t.Errorf("the log of side %d names a missing right", i)
		}
	}
}

// A target whose clock is 200 ms off is refused with the figures, before any change. If the
// clock goes off during a migration, each further step is refused.
func TestMigrationRefusesSkewedClock(t *testing.T) {
	find := func(pattern string) string {
		list, _ := filepath.Glob(pattern)
		if len(list) == 0 {
			t.Fatalf("there is no %s: run scripts/chaos-deps.sh, which installs faketime", pattern)
		}
		return list[0]
	}
	clock := filepath.Join(t.TempDir(), "clock")
	setClock := func(offset string) {
		t.Helper()
		if err := os.WriteFile(clock, []byte(offset+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	setClock("+0.2")
	// libc behind it, because faketime and jemalloc call each other before either is ready.
	lib := find("/usr/lib/*/faketime/libfaketimeMT.so.1") + ":" + find("/lib/*/libc.so.6")
	db := testkit.StartRedis(t)
	far := testkit.StartRedis(t, testkit.WithEnv("LD_PRELOAD="+lib, "FAKETIME_TIMESTAMP_FILE="+clock, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1"))
	rec := listen(t, nil)
	routes := route("pay", "app1:pay", rec.url)
	s, other := launch(t, db.URL(), routes), launch(t, far.URL(), routes)
	const n = 200
	due := time.Now().Add(time.Hour)
	s.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:pay:x:%d", i), due) })
	migrate := func(args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), binary, append([]string{"migrate", "--to", far.URL()}, args...)...)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFIER_REDIS_URL=" + db.URL()}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	figure := regexp.MustCompile(`that of the new side is (-?)\d+ms ahead of the old one's \(± [^)]+\), more than --max-skew 50ms`)
	for _, offset := range []string{"+0.2", "-0.2"} {
		setClock(offset)
		for _, args := range [][]string{nil, {"--dry-run"}} {
			out, err := migrate(args...)
			if said := figure.FindStringSubmatch(out); err == nil || said == nil || (said[1] == "-") != (offset == "-0.2") {
				t.Errorf("a clock at %s, %v: %v, %s", offset, args, err, out)
			}
		}
	}
	for name, c := range map[string]*testkit.Redis{"old": db, "new": far} {
		if side := c.Client().HGet(t.Context(), "notifier:meta", "side").Val(); side != "" {
			t.Errorf("the %s side is %q", name, side)
		}
	}
	if _, err := s.api.Schedule(t.Context(), client.Request{Key: "app1:pay:x:more", Due: due}); err != nil {
		t.Error(err)
	}
	setClock("+0.2")
	out, err := migrate("--max-skew", "300ms")
	if err != nil {
		t.Errorf("within the allowed skew: %v, %s", err, out)
	}
	if got := other.numbers("pay").Pending; got != n+1 {
		t.Errorf("%d have moved, want %d", got, n+1)
	}
}
