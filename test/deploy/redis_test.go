package deploy

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-envconfig"
	"go.uber.org/zap/zaptest"

	"notifier/internal/app"
	"notifier/internal/config"
	"notifier/internal/doctor"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// shipped is a Redis as deploy/compose.yaml runs it, on files that
// scripts/secrets.sh has made. Its client is the administrator's.
type shipped struct {
	*testkit.Redis
	url string // as the service logs in
}

// deployed starts one; its user notifier has the given rights, or else those of
// deploy/users.acl.
func deployed(t *testing.T, rights ...string) shipped {
	t.Helper()
	dir := secrets(t)
	text := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, "deploy/secrets", name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	users := filepath.Join(dir, "deploy/secrets/users.acl")
	if len(rights) > 0 {
		begin, rest, _ := strings.Cut(text("users.acl"), " resetkeys ")
		_, others, _ := strings.Cut(rest, "\n")
		more := begin + " " + strings.Join(rights, " ") + "\n" + others
		users = filepath.Join(dir, "users.acl")
		if err := os.WriteFile(users, []byte(more+"\n"), 0o444); err != nil { // a container's user reads it
			t.Fatal(err)
		}
	}
	s := testkit.StartRedis(t, testkit.WithFiles(filepath.Join(dir, "deploy/redis.conf"), users, "admin", text("admin_password")))
	return shipped{s, strings.Replace(text("redis_url"), "@redis:6379", "@"+s.Addr(), 1)}
}

// deployedFor starts one whose user notifier has the rights that doctor names for a
// configuration, and adds its address to it.
func deployedFor(t *testing.T, env map[string]string) shipped {
	t.Helper()
	c, err := config.Load(envconfig.MapLookuper(env), environ(env), os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	s := deployed(t, doctor.Rights(c, false, 0, nil)...)
	env["NOTIFIER_REDIS_URL"] = s.url
	return s
}

// secrets runs scripts/secrets.sh on a copy of deploy, and returns the directory.
func secrets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"deploy/redis.conf", "deploy/users.acl", "scripts/secrets.sh"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil { // as in the repository
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, name)), 0o755); err != nil { // one is a script
			t.Fatal(err)
		}
	}
	makeSecrets(t, dir)
	return dir
}

func makeSecrets(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("bash", filepath.Join(dir, "scripts/secrets.sh")).CombinedOutput()
	if err != nil {
		t.Fatalf("scripts/secrets.sh: %v\n%s", err, out)
	}
	return string(out)
}

func serve(t *testing.T, env map[string]string) (p *app.Process, stop func()) {
	t.Helper()
	c, err := config.Load(envconfig.MapLookuper(env), environ(env), os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = app.New(app.Options{Config: c, Version: "test", Logger: zaptest.NewLogger(t)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return p, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Redis loads its append-only file as the user default. It checks that user's rights for
// commands between MULTI and EXEC, the form of each script's writes. Refused commands would
// be lost.
func TestNoticesSurviveRedisRestart(t *testing.T) {
	env := map[string]string{
		"NOTIFIER_LISTEN": "127.0.0.1:0", "NOTIFIER_ROUTES": "pay",
		"NOTIFIER_ROUTE_PAY_PREFIX": "shop", "NOTIFIER_ROUTE_PAY_TARGET": "list:todo",
		"NOTIFIER_KEY": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))),
	}
	s := deployedFor(t, env)
	p, stop := serve(t, env)
	defer stop()
	schedule := func(key string, delay time.Duration) {
		t.Helper()
		var err error
		await(t, func() bool {
			_, err = p.Schedule(t.Context(), store.Request{Key: key, Delay: delay, Content: notice.Content{Body: []byte(`{}`)}})
			return !errors.Is(err, wire.ErrUnavailable)
		})
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	pending := []string{"shop:a:b:1", "shop:a:b:2", "shop:a:b:3", "shop:a:b:4", "shop:a:b:5"}
	for _, k := range pending {
		schedule(k, time.Hour)
	}
	schedule("shop:a:b:done", 0)
	c := s.Client()
	await(t, func() bool { return c.LLen(t.Context(), "todo").Val() == 1 })
	was := dump(t, c)

	s.Restart()
	if is := dump(t, c); len(is) != len(was) {
		t.Errorf("after the restart there are %d keys, before there were %d: %v, %v", len(is), len(was), is, was)
	}
	for _, k := range append(pending, "shop:a:b:done") {
		var f store.Found
		var err error
		await(t, func() bool {
			f, err = p.Find(t.Context(), k)
			return !errors.Is(err, wire.ErrUnavailable)
		})
		if err != nil {
			t.Errorf("%s after the restart: %v, %v", k, f.State, err)
		}
	}
	schedule("shop:a:b:after", 0)
	await(t, func() bool { return c.LLen(t.Context(), "todo").Val() == 2 })
	if n := c.Exists(t.Context(), "notifier:key").Val(); n != 0 {
		t.Error("a key was made although NOTIFIER_KEY is set")
	}
}

func dump(t *testing.T, c *redis.Client) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	names, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range names {
		if strings.HasPrefix(k, "notifier:probe:") { // it lives for a moment
			continue
		}
		all[k] = c.ZCard(t.Context(), k).Val() + c.HLen(t.Context(), k).Val() // of other types an error, and 0
	}
	return all
}

// The rights of the user default serve only for loading the append-only file. A login as
// default is refused.
func TestDefaultUserCannotLogIn(t *testing.T) {
	s := deployed(t)
	for name, o := range map[string]redis.Options{"no name": {}, "default": {Username: "default", Password: "default"}} {
		o.Addr, o.DisableIdentity, o.MaxRetries = s.Addr(), true, -1
		c := redis.NewClient(&o)
		err := c.Get(t.Context(), "x").Err()
		_ = c.Close()
		if err == nil || !strings.Contains(err.Error(), "NOAUTH") && !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	bare := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true, MaxRetries: -1})
	defer func() { _ = bare.Close() }()
	if err := bare.Do(t.Context(), "AUTH", "default", "").Err(); err == nil {
		t.Error("default logs in without a password")
	}
}

// docs/deploy.md and docs/operations.md name these commands.
func TestAdministratorMayRunRunbookCommands(t *testing.T) {
	c := deployed(t).Client()
	for _, command := range [][]any{{"SLOWLOG", "GET", 20}, {"LATENCY", "DOCTOR"}, {"ACL", "GETUSER", "notifier"}, {"ACL", "LOG"}, {"BGSAVE"},
		{"CONFIG", "SET", "maxmemory", "3gb"}, {"INFO", "persistence"}, {"SADD", "notifier:paused", "shop"}, {"CLIENT", "LIST"}} {
		if err := c.Do(t.Context(), command...).Err(); err != nil {
			t.Errorf("%v: %v", command, err)
		}
	}
}

func TestSecretsScriptKeepsSecretsAndUpdatesUsers(t *testing.T) {
	dir := secrets(t)
	if said := makeSecrets(t, dir); said != "" {
		t.Errorf("a second run made %s", said)
	}
	list := filepath.Join(dir, "deploy/secrets/users.acl")
	had, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	// The file of an earlier version: no rights for default, no administrator.
	old := "user default off\n" + strings.Split(string(had), "\n")[1] + "\n"
	for _, change := range []func() error{
		func() error { return os.Chmod(list, 0o644) },                  // it is made so
		func() error { return os.WriteFile(list, []byte(old), 0o644) }, // the same
		func() error { return os.Remove(filepath.Join(dir, "deploy/secrets/admin_password")) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
	}
	said := makeSecrets(t, dir)
	has, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	lines, first := strings.Split(string(has), "\n"), strings.Split(string(had), "\n")
	if said != "made deploy/secrets/admin_password\nmade deploy/secrets/users.acl\n" || lines[0] != first[0] || lines[1] != first[1] ||
		!strings.HasPrefix(lines[2], "user admin on #") || lines[2] == first[2] {
		t.Errorf("%s%s", said, has)
	}
}
