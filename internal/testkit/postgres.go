package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// EnvPostgresURL is the variable with the URL of a running PostgreSQL, with a user that may create databases and
// roles.
const EnvPostgresURL = "NOTIFIER_TEST_POSTGRES_URL"

// debian is the directory of the programs in Debian's package, which is not on PATH.
const debian = "/usr/lib/postgresql/*/bin"

// Postgres is a PostgreSQL that this package started.
type Postgres struct {
	t     testing.TB
	under string // parent of dir; empty = the directory for temporary files
	dir   string // of the server's files
	bin   string
	port  int
	as    *syscall.Credential
	more  []string

	cmd  *exec.Cmd // of the shell that runs the server
	pipe *os.File
}

// sharedPostgres is the one server of this test binary.
var sharedPostgres struct {
	sync.Mutex
	url string
	s   *Postgres
}

// PostgresDatabase creates an empty database on the server that all tests of this binary share, and returns its URL.
func PostgresDatabase(t testing.TB) string {
	t.Helper()
	sharedPostgres.Lock()
	defer sharedPostgres.Unlock()

	if sharedPostgres.url == "" {
		if sharedPostgres.url = os.Getenv(EnvPostgresURL); sharedPostgres.url == "" {
			s := start(t, "", "fsync=off")
			sharedPostgres.s, sharedPostgres.url = s, s.URL("postgres")
		}
	}

	return create(t, sharedPostgres.url)
}

// create creates a database that is dropped with the test.
func create(t testing.TB, server string) string {
	t.Helper()
	name := "t" + strings.ToLower(rand.Text()[:12])
	exec := func(sql string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()

		c, err := pgx.Connect(ctx, server)
		if err == nil {
			_, err = c.Exec(ctx, sql)
			_ = c.Close(ctx)
		}

		if err != nil {
			t.Fatalf("testkit: %s: %v", sql, err)
		}
	}
	exec("CREATE DATABASE " + name)
	t.Cleanup(func() { exec("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("testkit: the server's address: %v", err)
	}

	u.Path = "/" + name
	return u.String()
}

// StartPostgres runs a server for this test with settings such as "fsync=off". It ends with the test.
func StartPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	return StartPostgresIn(t, "", settings...)
}

// StartPostgresIn is Start with the server's files in dir. The server's user must be able to enter dir, which
// excludes t.TempDir: only the user of the test can.
func StartPostgresIn(t testing.TB, dir string, settings ...string) *Postgres {
	t.Helper()
	s := start(t, dir, settings...)
	t.Cleanup(s.end)
	return s
}

func start(t testing.TB, under string, settings ...string) *Postgres {
	t.Helper()
	s := &Postgres{t: t, under: under, more: settings}
	if err := s.make(); err != nil {
		t.Fatalf("testkit: %v", err)
	}

	if err := s.run(); err != nil {
		t.Fatalf("testkit: %v", err)
	}

	return s
}

// make creates the server's files.
func (s *Postgres) make() error {
	bin, err := findPostgres()
	if err != nil {
		return err
	}

	s.bin = bin
	if s.dir, err = os.MkdirTemp(s.under, "testkit"); err != nil {
		return err
	}

	if os.Getuid() == 0 { // postgres refuses to run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			return fmt.Errorf("tests run as root need the user postgres, which Debian's package makes: %w", err)
		}

		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return err
		}
	}

	init := exec.Command(filepath.Join(bin, "initdb"), "-D", s.data(), "-U", "test", "-A", "trust", "-N", "-E", "UTF8", "--locale", "C.UTF-8")
	init.Dir, init.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.as}
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}

	s.port, err = FreePort()
	return err
}

func (s *Postgres) data() string { return filepath.Join(s.dir, "data") }

// findPostgres returns the directory of initdb and postgres.
func findPostgres() (string, error) {
	if p, err := exec.LookPath("postgres"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			return filepath.Dir(p), nil
		}
	}

	dirs, err := filepath.Glob(debian)
	if err == nil && len(dirs) > 0 {
		return dirs[len(dirs)-1], nil
	}

	return "", fmt.Errorf("no PostgreSQL to test with; install the package postgresql (`make deps`), or set %s", EnvPostgresURL)
}

// keeper is a shell that runs the server. A word on its input ends the server in that manner. The end of the
// input, however it happens, also deletes the files.
const keeper = `dir=$1; shift; "$@" </dev/null & pid=$!
read -r how
case "$how" in
stop) kill -INT $pid ;;
*) kill -QUIT $pid ;;
esac
wait $pid
[ -n "$how" ] || rm -rf "$dir"`

// run starts the server and waits until it answers.
func (s *Postgres) run() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}

	defer func() { _ = r.Close() }()

	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	defer func() { _ = log.Close() }()

	args := []string{"-c", keeper, "keeper", s.dir, filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port), "-k", "",
		"-c", "listen_addresses=127.0.0.1"}

	for _, m := range s.more {
		args = append(args, "-c", m)
	}

	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.dir, r, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.as}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return err
	}

	s.cmd, s.pipe = cmd, w
	return s.await()
}

func (s *Postgres) await() error {
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		var c *pgx.Conn
		if c, err = pgx.Connect(ctx, s.URL("postgres")); err == nil {
			err = c.Close(ctx)
			cancel()
			return err
		}

		cancel()
		time.Sleep(20 * time.Millisecond) // sleep: the step of a poll
	}

	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return fmt.Errorf("postgres does not answer: %w\n%s", err, text)
}

// URL returns the address of a database.
func (s *Postgres) URL(database string) string {
	return fmt.Sprintf("postgres://test@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Database creates an empty database on this server, and returns its URL.
func (s *Postgres) Database() string { s.t.Helper(); return create(s.t, s.URL("postgres")) }

// Dir returns the directory of the server's files.
func (s *Postgres) Dir() string { return s.data() }

// Stop shuts the server down in an orderly way.
func (s *Postgres) Stop() { s.t.Helper(); s.tell("stop") }

// Kill ends the server at once, so that its next start is a recovery.
func (s *Postgres) Kill() { s.t.Helper(); s.tell("kill") }

func (s *Postgres) tell(how string) {
	s.t.Helper()
	if s.cmd == nil {
		return
	}

	_, err := s.pipe.WriteString(how + "\n")
	if err = errors.Join(err, s.pipe.Close()); err != nil {
		s.t.Fatalf("testkit: %s: %v", how, err)
	}

	_ = s.cmd.Wait() // the error is how the server ended
	s.cmd = nil
}

// Again starts the server after Stop or Kill.
func (s *Postgres) Again() {
	s.t.Helper()
	if err := s.run(); err != nil {
		s.t.Fatalf("testkit: %v", err)
	}
}

func (s *Postgres) end() {
	if s.cmd != nil {
		_ = s.pipe.Close()
		_ = s.cmd.Wait() // as above
		return
	}
	_ = os.RemoveAll(s.dir)
}
