package redistest

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

// Server is a Redis, or one database of it, for one test.
type Server struct {
	t         testing.TB
	addr      string
	url       string
	db        int
	namespace string
	client    *redis.Client
	backend   backend // nil for a shared server
}

// backend is a server that was started here.
type backend interface {
	address() string
	// start runs the server; on a port that stays the same from one start to
	// the next.
	start() error
	// kill is kill -9, and waits until the server is gone.
	kill() error
	pause() error
	unpause() error
	// remove ends the server for good, in whatever state it is.
	remove()
	// logs is the end of what the server wrote.
	logs() string
}

// Option changes what Start starts.
type Option func(*settings)

type settings struct {
	lines  []string
	aof    bool
	aofDir string
	files  []string // a redis.conf, and a list of users
	env    []string
	user   redis.Options
}

// WithConfig adds lines as they stand in redis.conf. They come after the
// defaults (no persistence, loopback only) and win over them.
func WithConfig(lines ...string) Option {
	return func(s *settings) { s.lines = append(s.lines, lines...) }
}

// WithAOF keeps an append-only file in dir, or where the server's other files are if
// that is empty, written and synced before each answer, so that a server killed and
// restarted has lost nothing.
func WithAOF(dir string) Option {
	return func(s *settings) { s.aof, s.aofDir = true, dir }
}

// WithEnv adds variables, as NAME=value, to the environment of a server that is a
// process: in a container it has none of them.
func WithEnv(vars ...string) Option {
	return func(s *settings) { s.env = append(s.env, vars...) }
}

// WithFiles starts the server on a redis.conf and a list of users as they are,
// without the defaults, and logs in as one of those users.
func WithFiles(conf, users, user, password string) Option {
	return func(s *settings) {
		s.files = []string{conf, users}
		s.user = redis.Options{Username: user, Password: password}
	}
}

// Start starts a server for this test alone; it ends with the test.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	var s settings
	for _, o := range opts {
		o(&s)
	}
	b, err := own(t, &s)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(b.remove)
	srv := &Server{t: t, backend: b, addr: b.address(), url: "redis://" + b.address() + "/0", namespace: "notifier"}
	s.user.Addr = srv.addr
	srv.connect(&s.user)
	if err := srv.await(); err != nil {
		t.Fatalf("redistest: %v\n%s", err, b.logs())
	}
	return srv
}

// own takes the first of PATH and Docker that gives a server.
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

// connect makes the client, which ends with the test.
func (s *Server) connect(o *redis.Options) {
	// CLIENT SETINFO and maintenance notices would be two more commands on
	// each connection, and the tests count commands.
	o.DisableIdentity = true
	s.client = redis.NewClient(o)
	s.t.Cleanup(func() { _ = s.client.Close() })
}

// await waits until the server answers and has its data loaded.
func (s *Server) await() error { return await(s.client) }

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

// pause is the step of every poll here.
func pause() { time.Sleep(5 * time.Millisecond) }

// Addr is host:port.
func (s *Server) Addr() string { return s.addr }

// URL is what NOTIFIER_REDIS_URL takes, database included.
func (s *Server) URL() string { return s.url }

// DB is the number of the test's database.
func (s *Server) DB() int { return s.db }

// Namespace is a name for NOTIFIER_NAMESPACE: pub/sub channels are not parted
// by database, so tests that share a server take one each.
func (s *Server) Namespace() string { return s.namespace }

// Client is a client of the test's database.
func (s *Server) Client() *redis.Client { return s.client }

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() { s.t.Helper(); s.do("kill", backend.kill) }

// Restart kills the server if it runs, starts it again on the same port, and
// waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.do("kill", backend.kill)
	s.do("start", backend.start)
	if err := s.await(); err != nil {
		s.t.Fatalf("redistest: restart: %v\n%s", err, s.backend.logs())
	}
}

// Pause makes the server silent, as SIGSTOP does: connections stay, nothing is
// answered.
func (s *Server) Pause() { s.t.Helper(); s.do("pause", backend.pause) }

// Unpause lets a paused server go on.
func (s *Server) Unpause() { s.t.Helper(); s.do("unpause", backend.unpause) }

func (s *Server) do(what string, f func(backend) error) {
	s.t.Helper()
	if s.backend == nil {
		s.t.Fatalf("redistest: %s: the server is shared with other tests; use redistest.Start", what)
	}
	if err := f(s.backend); err != nil {
		s.t.Fatalf("redistest: %s: %v", what, err)
	}
}

// Ports are taken from lowestPort on, so that they and the ports of a cluster's
// bus, which a node opens busOffset above its own, lie in two ranges that do not
// overlap, both below those that the kernel gives to outgoing connections: such a
// connection could take a port while a killed server is down.
const (
	lowestPort = 12000
	busOffset  = 10000
)

// given is when each port was last given to somebody of this process. It is a variable of
// the package because ports are the machine's.
var given = struct {
	sync.Mutex
	at map[int]time.Time
}{at: map[int]time.Time{}}

// FreePort is a port of the loopback interface that nobody listens on, nor on the
// port of the cluster's bus that belongs to it. In this process no other call gets it for ten
// minutes, in which its caller may come to listen, or be down for a while: sentinels that watch
// its address would take another's server for it.
func FreePort() (int, error) {
	const tries = 50
	now := time.Now()
	given.Lock()
	defer given.Unlock()
	at := (os.Getpid()*131 + int(now.UnixNano()/1000)) % busOffset
	for range tries {
		at = (at + 617) % busOffset
		port := lowestPort + at
		if now.Sub(given.at[port]) > 10*time.Minute && unused(port) && unused(port+busOffset) {
			given.at[port] = now
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port among %d tried from %d to %d", tries, lowestPort, lowestPort+busOffset-1)
}

// unused reports whether nobody listens on the port: neither on the loopback
// interface nor, as a cluster's bus does, on all.
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
