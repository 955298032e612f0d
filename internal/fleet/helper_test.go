package fleet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// The test binary is also the instance that tests kill and stop. With this variable set it runs one
// until its standard input ends.
const envInstance = "NOTIFIER_TEST_FLEET"

// place is the Redis and namespace that a test's instances share.
type place struct{ mode, url, namespace string }

func helper() bool {
	what := os.Getenv(envInstance)
	if what == "" {
		return false
	}
	f := strings.Split(what, " ")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	err := run(ctx, place{f[0], f[1], f[2]}, func(o *Options) {
		o.About.Label = "a process"
		o.Host = &sayer{}
	}, func(f *Fleet) {
		fmt.Println("id", f.ID())
	})
	if err != nil {
		fmt.Println("error", err)
	}
	return true
}

// sayer prints each new id of an instance.
type sayer struct {
	noHost
	id string
}

func (s *sayer) Changed(v *View) {
	if s.id != "" && s.id != v.ID() {
		fmt.Println("renamed", s.id, v.ID())
	}
	s.id = v.ID()
}

const testTakeover = MinTakeover

// run is an instance until ctx ends.
func run(ctx context.Context, p place, change func(*Options), began func(*Fleet)) error {
	conn, err := wire.Open(wire.Address{Mode: p.mode, URL: p.url})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	s := NewStore(store.NewLayout(wire.New(wire.Options{Client: conn.Commander, Space: keys.Space{Namespace: p.namespace}}),
		store.LayoutOptions{}))
	o := Options{Redis: s, Takeover: testTakeover, Logger: zap.NewNop()}
	change(&o)
	f, err := New(o)
	if err != nil {
		return err
	}
	began(f)
	return f.Run(ctx)
}

// process is an instance in a separate process.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Closer
	id   string
	mu   sync.Mutex
	said []string
}

func spawn(t *testing.T, p place) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x := &process{t: t, cmd: exec.Command(exe)}
	x.cmd.Env = append(os.Environ(), envInstance+"="+p.mode+" "+p.url+" "+p.namespace)
	x.cmd.Stderr = os.Stderr
	if x.in, err = x.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := bufio.NewScanner(out)
	if !read.Scan() || !strings.HasPrefix(read.Text(), "id ") {
		t.Fatalf("the process said %q", read.Text())
	}
	x.id = strings.TrimPrefix(read.Text(), "id ")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for read.Scan() {
			x.mu.Lock()
			x.said = append(x.said, read.Text())
			x.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		x.signal(syscall.SIGKILL)
		<-done
		_ = x.cmd.Wait() // x
	})
	return x
}

func (x *process) signal(s syscall.Signal) { _ = x.cmd.Process.Signal(s) }

func (x *process) heard() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Join(x.said, "; ")
}

// observer is an instance in the process of the test.
type observer struct {
	*Fleet
	mu    sync.Mutex
	dead  map[string]time.Time
	named []string // its new ids
	leave func()
}

func observe(t *testing.T, p place, change ...func(*Options)) *observer {
	t.Helper()
	o := &observer{dead: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(context.Background())
	began, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- run(ctx, p, func(c *Options) {
			c.Host = &watcher{o: o}
			for _, f := range change {
				f(c)
			}
		}, func(f *Fleet) { o.Fleet = f; close(began) })
	}()
	<-began
	o.leave = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(o.leave)
	return o
}

// watcher records the calls of an observer's fleet.
type watcher struct {
	noHost
	o  *observer
	id string
}

func (w *watcher) Dead(id string) {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	w.o.dead[id] = time.Now()
}

func (w *watcher) Changed(v *View) {
	if w.id != "" && w.id != v.ID() {
		w.o.mu.Lock()
		w.o.named = append(w.o.named, v.ID())
		w.o.mu.Unlock()
	}
	w.id = v.ID()
}

func (o *observer) goneAt(id string) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.dead[id]
	return at, ok
}

// meet starts observers and processes, and waits until all have read each other's heartbeats with a
// connection.
func meet(t *testing.T, p place, observers, processes int) (os []*observer, xs []*process) {
	t.Helper()
	for range observers {
		os = append(os, observe(t, p))
	}
	for range processes {
		xs = append(xs, spawn(t, p))
	}
	conn, err := wire.Open(wire.Address{Mode: p.mode, URL: p.url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	s := NewStore(store.NewLayout(wire.New(wire.Options{Client: conn.Commander, Space: keys.Space{Namespace: p.namespace}}),
		store.LayoutOptions{}))
	testkit.Until(t, "all know all", func() bool {
		for _, o := range os {
			if o.Stats().Alive != observers+processes {
				return false
			}
		}
		_, heartbeats, err := s.Heartbeats(t.Context())
		bound := 0
		for _, x := range heartbeats {
			if x.Bound {
				bound++
			}
		}
		return err == nil && bound == observers+processes
	})
	return os, xs
}

func at(srv *testkit.Redis) place { return place{"standalone", srv.URL(), srv.Namespace()} }
