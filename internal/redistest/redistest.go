// Package redistest gives tests a real Redis.
//
// [Start] makes a server of the test's own: it may be killed, paused and
// restarted, and is configured as the test likes. [Shared] hands out one
// database of a server that all tests of a test binary share, which costs
// nothing but a FLUSHDB.
//
// The shared server is found in this order: NOTIFIER_TEST_REDIS_URL; a
// container by dockertest, when Docker answers and the image redis:local (made
// by scripts/test-image.sh) or redis:7-alpine is there or can be pulled; a
// redis-server on PATH. A server of a test's own needs signals to a process and
// is therefore taken from PATH first and from Docker second. Where there is
// none the test fails and says what to install; nothing is skipped.
//
// No goroutine outlives a call, so that packages can check for leaks; a small
// shell beside each server ends it when the test binary is gone, however that
// came about.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
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
	aofDir string
}

// WithConfig adds lines as they stand in redis.conf. They come after the
// defaults (no persistence, loopback only) and win over them.
func WithConfig(lines ...string) Option {
	return func(s *settings) { s.lines = append(s.lines, lines...) }
}

// WithAOF keeps an append-only file in dir, written and synced before each
// answer, so that a server killed and restarted has lost nothing.
func WithAOF(dir string) Option {
	return func(s *settings) { s.aofDir = dir }
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
	srv.connect(&redis.Options{Addr: srv.addr})
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

// FreePort is a port of the loopback interface that nobody listens on. It lies
// below the range from which the kernel takes ports of outgoing connections:
// such a one could take the port while a killed server is down.
func FreePort() (int, error) {
	const lowest, span, tries = 12000, 19000, 50
	at := (os.Getpid()*131 + int(time.Now().UnixNano()/1000)) % span
	for range tries {
		at = (at + 617) % span
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+at)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("close a port: %w", err)
		}
		return lowest + at, nil
	}
	return 0, fmt.Errorf("no free port among %d tried from %d to %d", tries, lowest, lowest+span)
}
