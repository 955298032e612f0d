package testkit

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a Redis, or one database of it, for one test.
type Redis struct {
	t         testing.TB
	addr      string
	url       string
	db        int
	namespace string
	client    *redis.Client
	backend   backend // nil for a shared server
}

// backend is a server that this package started.
type backend interface {
	address() string
	// start runs the server. The port stays the same for all starts.
	start() error
	// kill sends SIGKILL and waits until the server has ended.
	kill() error
	pause() error
	unpause() error
	// remove ends the server and deletes it, in any state.
	remove()
	// logs returns the end of the server's log.
	logs() string
}

// Option changes the server that Start runs.
type Option func(*settings)

type settings struct {
	lines  []string
	aof    bool
	aofDir string
	files  []string // a redis.conf, and a list of users
	env    []string
	user   redis.Options
}

// WithConfig adds lines of redis.conf. They override the defaults (no persistence, loopback only).
func WithConfig(lines ...string) Option {
	return func(s *settings) { s.lines = append(s.lines, lines...) }
}

// WithAOF makes the server write an append-only file in dir, or in the server's directory if dir is empty.
// The file is synced before each answer, so a server that is killed and restarted loses nothing.
func WithAOF(dir string) Option {
	return func(s *settings) { s.aof, s.aofDir = true, dir }
}

// WithEnv adds variables, as NAME=value, to the environment of a server process. No container is used then.
func WithEnv(vars ...string) Option {
	return func(s *settings) { s.env = append(s.env, vars...) }
}

// WithFiles starts the server with a redis.conf and a list of users, unchanged and without the defaults, and
// logs in as one of the users.
func WithFiles(conf, users, user, password string) Option {
	return func(s *settings) {
		s.files = []string{conf, users}
		s.user = redis.Options{Username: user, Password: password}
	}
}

// StartRedis runs a server for this test. It ends with the test.
func StartRedis(t testing.TB, opts ...Option) *Redis {
	t.Helper()
	var s settings
	for _, o := range opts {
		o(&s)
	}

	b, err := own(t, &s)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}

	t.Cleanup(b.remove)
	srv := &Redis{t: t, backend: b, addr: b.address(), url: "redis://" + b.address() + "/0", namespace: "notifier"}
	s.user.Addr = srv.addr
	srv.connect(&s.user)
	if err := srv.await(); err != nil {
		t.Fatalf("testkit: %v\n%s", err, b.logs())
	}

	return srv
}

// own starts a server from PATH or, if that fails, in Docker.
func own(t testing.TB, s *settings) (backend, error) {
	p, perr := newProcess(t.TempDir(), s)
	if perr == nil {
		return p, nil
	}
	if len(s.env) > 0 || os.Getenv(EnvServer) != "" {
		return nil, fmt.Errorf("this test needs a redis-server that it can start as a process: %w", perr)
	}

	c, derr := newContainer(s)
	if derr == nil {
		return c, nil
	}

	return nil, fmt.Errorf("no Redis to test with; install the package redis-server (`make deps`), or start Docker and run "+
		"scripts/test-image.sh\n  redis-server: %w\n  docker: %w", perr, derr)
}

// connect creates the client, which is closed with the test.
func (s *Redis) connect(o *redis.Options) {
	// CLIENT SETINFO and maintenance notices would add two commands to each connection, and tests count
	// commands.
	o.DisableIdentity = true
	s.client = redis.NewClient(o)
	s.t.Cleanup(func() { _ = s.client.Close() })
}

// await waits until the server answers and has loaded its data.
func (s *Redis) await() error { return await(s.client) }

func await(c *redis.Client) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := c.Ping(ctx).Err()
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server on %s does not answer: %w", c.Options().Addr, err)
		}

		pause()
	}
}

// pause is the interval of all polls of this package.
func pause() { time.Sleep(5 * time.Millisecond) }

// Addr returns host:port.
func (s *Redis) Addr() string { return s.addr }

// URL returns the address for NOTIFIER_REDIS_URL, with the database.
func (s *Redis) URL() string { return s.url }

// DB returns the number of the test's database.
func (s *Redis) DB() int { return s.db }

// Namespace returns a unique value for NOTIFIER_NAMESPACE. Pub/sub channels are not separated by database, so
// tests that share a server need different namespaces.
func (s *Redis) Namespace() string { return s.namespace }

// Client returns a client of the test's database.
func (s *Redis) Client() *redis.Client { return s.client }

// Kill ends the server with SIGKILL.
func (s *Redis) Kill() { s.t.Helper(); s.do("kill", backend.kill) }

// Restart kills the server if it runs, starts it on the same port, and waits until it answers.
func (s *Redis) Restart() {
	s.t.Helper()
	s.do("kill", backend.kill)
	s.do("start", backend.start)
	if err := s.await(); err != nil {
		s.t.Fatalf("testkit: restart: %v\n%s", err, s.backend.logs())
	}
}

// Pause stops the server with SIGSTOP: connections stay open and nothing is answered.
func (s *Redis) Pause() { s.t.Helper(); s.do("pause", backend.pause) }

// Unpause continues a paused server.
func (s *Redis) Unpause() { s.t.Helper(); s.do("unpause", backend.unpause) }

func (s *Redis) do(what string, f func(backend) error) {
	s.t.Helper()
	if s.backend == nil {
		s.t.Fatalf("testkit: %s: the server is shared with other tests; use testkit.StartRedis", what)
	}

	if err := f(s.backend); err != nil {
		s.t.Fatalf("testkit: %s: %v", what, err)
	}
}

// Servers listen on ports from lowestPort on. The bus port of a cluster node is busOffset higher. The kernel does not
// use these ports for outgoing connections. So no such connection takes the port of a killed server.
const (
	lowestPort = 12000
	busOffset  = 10000
)

// given is when each port was last returned in this process. It is a package variable because ports belong to
// the machine.
var given = struct {
	sync.Mutex
	at map[int]time.Time
}{at: map[int]time.Time{}}

// FreePort returns an unused port of the loopback interface, whose cluster bus port is unused too. Later calls in this
// process do not return the same port for ten minutes.
func FreePort() (int, error) {
	const tries = 50
	now := time.Now()
	given.Lock()
	defer given.Unlock()

	at := (os.Getpid()*131 + int(now.UnixNano()/1000)) % busOffset

	for range tries {
		at = (at + 617) % busOffset
		port := lowestPort + at
		// A sentinel may still monitor the address of an earlier server, and must not find another one there.
		if now.Sub(given.at[port]) > 10*time.Minute && unused(port) && unused(port+busOffset) {
			given.at[port] = now
			return port, nil
		}
	}

	return 0, fmt.Errorf("no free port among %d tried from %d to %d", tries, lowestPort, lowestPort+busOffset-1)
}

// unused reports whether the port is free: on the loopback interface, and on all interfaces, as a cluster bus
// needs it.
func unused(port int) bool {
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return false
		}

		_ = l.Close()
	}
	return true
}
