package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStart(t *testing.T) {
	ctx := t.Context()
	s := StartRedis(t, WithAOF(t.TempDir()), WithConfig(`rename-command CONFIG ""`, "notify-keyspace-events Ex"))
	if err := s.Client().Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Client().ConfigGet(ctx, "port").Err(); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("CONFIG: %v", err)
	}

	s.Kill()
	if err := fresh(t, s).Ping(ctx).Err(); err == nil {
		t.Error("a killed server answers")
	}
	addr := s.Addr()
	s.Restart()
	if got := s.Client().Get(ctx, "k").Val(); got != "v" || s.Addr() != addr {
		t.Errorf("after the restart: %q on %s, want v on %s", got, s.Addr(), addr)
	}

	s.Pause()
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := fresh(t, s).Ping(short).Err(); err == nil {
		t.Error("a paused server answers")
	}
	s.Unpause()
	if err := s.Client().Ping(ctx).Err(); err != nil {
		t.Error(err)
	}
}

// fresh returns a client without a pooled connection and without retries.
func fresh(t *testing.T, s *Redis) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A cluster node failed to start because another server used its bus port.
func TestFreePortAvoidsBusPorts(t *testing.T) {
	for range 100 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if port < lowestPort || port >= lowestPort+busOffset {
			t.Fatalf("port %d may be the bus of port %d", port, port-busOffset)
		}
	}
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "0.0.0.0"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port+busOffset)))
		if err != nil {
			t.Fatal(err)
		}
		if unused(port + busOffset) {
			t.Errorf("the bus port %d is said to be free while %s listens on it", port+busOffset, host)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := StartRedis(t, WithConfig("cluster-enabled yes")).Client().ConfigGet(t.Context(),
		"cluster-enabled").Val()["cluster-enabled"]; got != "yes" {
		t.Errorf("cluster-enabled %q", got)
	}
}

func TestSharedDatabasesAreSeparate(t *testing.T) {
	a, b := SharedRedis(t), SharedRedis(t)
	ctx := t.Context()
	if a.DB() == b.DB() || a.DB() == 0 || a.Namespace() == b.Namespace() || a.Addr() != b.Addr() {
		t.Errorf("databases %d, %d; namespaces %s, %s; %s, %s", a.DB(), b.DB(), a.Namespace(), b.Namespace(), a.Addr(), b.Addr())
	}
	if err := a.Client().Set(ctx, "k", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n := b.Client().DBSize(ctx).Val(); n != 0 {
		t.Errorf("%d keys in the other test's database", n)
	}
	o, err := redis.ParseURL(a.URL())
	if err != nil || o.DB != a.DB() || o.Addr != a.Addr() {
		t.Errorf("URL %s: %v, %v", a.URL(), o, err)
	}
	if f := a.Client().ConfigGet(ctx, "notify-keyspace-events").Val()["notify-keyspace-events"]; !strings.Contains(f, "E") ||
		!strings.Contains(f, "x") {
		t.Errorf("notify-keyspace-events %q", f)
	}
}

func TestSharedReleasesDatabases(t *testing.T) {
	for range 2 * (ownDatabases - 1) {
		t.Run("", func(t *testing.T) {
			s := SharedRedis(t)
			if n := s.Client().DBSize(t.Context()).Val(); n != 0 {
				t.Fatalf("database %d holds %d keys", s.DB(), n)
			}
			s.Client().Set(t.Context(), "left", "behind", 0)
		})
	}
}

// If Docker answers, a container must work. This test checks dockertest, so it builds the image itself and
// tries nothing else.
func TestDockertestServer(t *testing.T) {
	if err := exec.Command("docker", "info").Run(); err != nil {
		// Without an image, the error must let the next way be tried.
		if _, err := newContainer(&settings{}); err == nil || !strings.Contains(err.Error(), "docker") {
			t.Errorf("without Docker: %v", err)
		}
		return
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		if out, err := exec.Command("../../scripts/test-image.sh").CombinedOutput(); err != nil {
			t.Fatalf("scripts/test-image.sh: %v\n%s", err, out)
		}
	}
	c, err := newContainer(&settings{lines: []string{"notify-keyspace-events Ex"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.remove)
	s := &Redis{t: t, backend: c, addr: c.address()}
	s.connect(&redis.Options{Addr: s.addr})
	if err := s.await(); err != nil {
		t.Fatalf("%v\n%s", err, c.logs())
	}
	ctx := t.Context()
	if got := s.Client().ConfigGet(ctx, "notify-keyspace-events").Val()["notify-keyspace-events"]; got != "xE" {
		t.Errorf("notify-keyspace-events %q", got)
	}
	// A node of a cluster and a replica announce this port to the others.
	if got := s.Client().ConfigGet(ctx, "port").Val()["port"]; s.addr != "127.0.0.1:"+got {
		t.Errorf("the server at %s listens on port %s", s.addr, got)
	}
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := &container{pool: c.pool, res: c.res, addr: fmt.Sprint("127.0.0.1:", port)}
	if err := elsewhere.listens(0); !errors.Is(err, errNoHostNetwork) {
		t.Errorf("no server on the port: %v", err)
	}
	s.Kill()
	if err := elsewhere.listens(time.Minute); err == nil || !strings.Contains(err.Error(), "the server ended") {
		t.Errorf("a server that was killed: %v", err)
	}
	s.Restart()
	s.Pause()
	s.Unpause()
	if err := s.Client().Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	s.Pause()
	s.Restart() // out of the pause
	c.remove()
	out, err := exec.Command("docker", "ps", "-a", "-q", "--no-trunc", "--filter", "id="+c.id()).Output()
	if err != nil || len(out) > 0 {
		t.Errorf("the container is still there: %s, %v", out, err)
	}
}

// Where nothing can give a server, a test fails and says what to install.
func TestMissingServerErrorNamesInstallCommand(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+t.TempDir()+"/docker.sock")
	t.Setenv("PATH", t.TempDir())
	t.Setenv(EnvURL, "")
	t.Setenv(EnvServer, "")
	_, shared := find(t)
	_, separate := own(t, &settings{})

	for name, err := range map[string]error{"shared": shared, "separate": separate} {
		if err == nil {
			t.Errorf("%s: a server was found", name)
			continue
		}
		for _, part := range []string{"make deps", "scripts/test-image.sh", "docker: ", "redis-server: "} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not name %q", name, err, part)
			}
		}
	}
}

// A killed test binary must leave no server running.
func TestGuardEndsServer(t *testing.T) {
	mark := t.TempDir() + "/mark"
	g, err := newGuard("touch " + mark)
	if err != nil {
		t.Fatal(err)
	}
	g.release()
	if _, err := os.Stat(mark); err == nil {
		t.Error("a guard that was released ran its command")
	}
	if g, err = newGuard("touch " + mark); err != nil {
		t.Fatal(err)
	}
	_ = g.pipe.Close() // as the end of this process does
	_ = g.cmd.Wait()
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the guard did not run its command: %v", err)
	}
}

func TestSplitLine(t *testing.T) {
	for line, want := range map[string][]string{
		`save ""`:                     {"save", ""},
		`rename-command CONFIG ""`:    {"rename-command", "CONFIG", ""},
		"user  a on >p ~* +@all":      {"user", "a", "on", ">p", "~*", "+@all"},
		`logfile "/tmp/with a blank"`: {"logfile", "/tmp/with a blank"},
		"":                            nil,
	} {
		if got := splitLine(line); !slices.Equal(got, want) {
			t.Errorf("%q: %q", line, got)
		}
	}
}

// Parallel tests start servers at the same time, and each chooses a port before its server listens there.
func TestFreePortIsUnique(t *testing.T) {
	const n = 200
	ports := make(chan int, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			port, err := FreePort()
			if err != nil {
				t.Error(err)
			}
			ports <- port
		})
	}
	all.Wait()
	close(ports)
	seen := map[int]bool{}
	for port := range ports {
		if seen[port] {
			t.Errorf("%d is given twice", port)
		}
		seen[port] = true
	}
}
