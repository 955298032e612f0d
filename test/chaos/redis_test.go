//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// node is a redis-server, or a sentinel.
type node struct {
	t    testing.TB
	port int
	dir  string
	args []string
	env  []string
	cmd  *exec.Cmd
	done chan struct{}
}

func newNode(t testing.TB, dir string, env []string, args ...string) *node {
	t.Helper()
	port, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, port: port, dir: filepath.Join(dir, strconv.Itoa(port)), env: env, args: args}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	return n
}

func (n *node) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)) }

// start runs it and waits until it answers.
func (n *node) start() error {
	out, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	n.cmd = exec.Command("redis-server", append(n.args, "--port", strconv.Itoa(n.port), "--bind", "127.0.0.1", "--dir", n.dir)...)
	n.cmd.Env = append(os.Environ(), n.env...)
	n.cmd.Stdout, n.cmd.Stderr = out, out
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		return err
	}
	n.done = make(chan struct{})
	go func(c *exec.Cmd, done chan struct{}) {
		_ = c.Wait()
		close(done)
	}(n.cmd, n.done)
	limit := time.Now().Add(30 * time.Second)
	for {
		if said, err := n.cli("PING"); err == nil && strings.Contains(said, "PONG") {
			return nil
		}
		if !n.runs() {
			return errors.New("redis-server ended at once")
		}
		if time.Now().After(limit) {
			return errors.New("redis-server does not answer")
		}
		time.Sleep(20 * time.Millisecond) // sleep: polls until the limit
	}
}

func (n *node) must(t testing.TB) *node {
	t.Helper()
	if err := n.start(); err != nil {
		t.Fatalf("%v: %v", n.args, err)
	}
	return n
}

func (n *node) runs() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.done:
		return false
	default:
		return true
	}
}

func (n *node) signal(s syscall.Signal) {
	if n.runs() {
		_ = n.cmd.Process.Signal(s)
	}
}

func (n *node) kill() {
	if n.runs() {
		_ = n.cmd.Process.Kill()
		<-n.done
	}
}

// cli sends a command by redis-cli.
func (n *node) cli(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(n.port)},
		args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// field is one line of INFO.
func (n *node) field(section, name string) string {
	out, _ := n.cli("INFO", section)
	for line := range strings.Lines(out) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// servers are the nodes of a topology, and how the service reaches them.
type servers struct {
	name  string
	nodes []*node
	env   []string // of the service
	// faults are those that only this topology has.
	faults map[string]fault
}

// failoverFelt is the time after a failover in which a slow new master may cause another one.
const failoverFelt = 6 * time.Second

func master(list []*node) *node {
	for _, n := range list {
		if n.runs() && n.field("replication", "role") == "master" {
			return n
		}
	}
	return nil
}

var safeArgs = []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction",
	"--notify-keyspace-events", "Ex"}

func standalone(t testing.TB, dir string, clock *clock) *servers {
	n := newNode(t, dir, clock.env, safeArgs...).must(t)
	return &servers{name: "standalone", nodes: []*node{n}, env: []string{"NOTIFIER_REDIS_URL=redis://" + n.addr() + "/0"},
		faults: map[string]fault{
			"redis killed": {of: "redis", duplicates: true, felt: time.Second, do: func(x *run, s *span) bool {
				x.ledger.strike(s, "")
				n.kill()
				x.pause(100, 3000)
				return x.revive(n)
			}},
		}}
}

func sentinel(t testing.TB, dir string, _ *clock) *servers {
	m := newNode(t, dir, nil, safeArgs...).must(t)
	r := newNode(t, dir, nil, append(safeArgs, "--replicaof", "127.0.0.1", strconv.Itoa(m.port))...).must(t)
	pair := []*node{m, r}
	var list []string
	for range 3 {
		s := newNode(t, dir, nil)
		conf := filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor m 127.0.0.1 %d 2\nsentinel down-after-milliseconds m 1000\nsentinel failover-timeout m 5000\n",
			m.port)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.args = []string{conf, "--sentinel"}
		s.must(t)
		list = append(list, s.addr())
	}
	url := "redis://" + list[0] + "/0?master_name=m&addr=" + list[1] + "&addr=" + list[2]
	return &servers{name: "sentinel", nodes: pair, env: []string{"NOTIFIER_REDIS_MODE=sentinel", "NOTIFIER_REDIS_URL=" + url,
		"NOTIFIER_DURABILITY=replicas:1"},
		faults: map[string]fault{
			"master killed, Sentinel fails over": {of: "redis", duplicates: true, felt: failoverFelt, do: func(x *run, s *span) bool {
				return x.failover(s, pair, func(old *node) { old.kill() }, func(old *node) { x.revive(old) })
			}},
			"master stopped, Sentinel fails over": {of: "redis", duplicates: true, felt: failoverFelt, do: func(x *run, s *span) bool {
				return x.failover(s, pair, func(old *node) { old.signal(syscall.SIGSTOP) }, func(old *node) { old.signal(syscall.SIGCONT) })
			}},
		}}
}

func cluster(t testing.TB, dir string, _ *clock) *servers {
	var nodes []*node
	args := []string{"--cluster", "create"}
	for range 6 {
		n := newNode(t, dir, nil, append(safeArgs, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")...).must(t)
		nodes = append(nodes, n)
		args = append(args, n.addr())
	}
	if out, err := nodes[0].cli(append(args, "--cluster-replicas", "1", "--cluster-yes")...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, n := range nodes {
		testkit.Until(t, "a cluster", func() bool { return n.clusterState() == "ok" })
	}
	pick := func(x *run, role string) *node {
		for range 50 {
			if n := nodes[x.dice.IntN(len(nodes))]; n.runs() && n.field("replication", "role") == role {
				return n
			}
		}
		return nil
	}
	return &servers{name: "cluster", nodes: nodes, env: []string{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_SHARDS=6",
		"NOTIFIER_DURABILITY=replicas:1",
		"NOTIFIER_REDIS_URL=redis://" + nodes[0].addr() + "?addr=" + nodes[1].addr() + "&addr=" + nodes[2].addr() + "&addr=" + nodes[3].addr()},
		faults: map[string]fault{
			"master killed, cluster fails over": {of: "redis", duplicates: true, felt: failoverFelt, do: func(x *run, s *span) bool {
				n := pick(x, "master")
				if n == nil {
					return false
				}
				x.ledger.strike(s, "")
				n.kill()
				x.pause(4000, 8000)
				return x.revive(n)
			}},
			// The old master takes no writes until the replica has all of them: none is lost.
			"failover by hand": {of: "redis", do: func(x *run, s *span) bool {
				n := pick(x, "slave")
				if n == nil {
					return false
				}
				x.ledger.strike(s, "")
				out, err := n.cli("CLUSTER", "FAILOVER")
				x.pause(1000, 3000)
				return err == nil && out == "OK"
			}},
			"slots moved": {of: "redis", do: func(x *run, s *span) bool {
				from, to := pick(x, "master"), pick(x, "master")
				if from == nil || to == nil || from == to {
					return false
				}
				x.ledger.strike(s, "")
				a, _ := from.cli("CLUSTER", "MYID")
				b, _ := to.cli("CLUSTER", "MYID")
				out, err := from.cli("--cluster", "reshard", from.addr(), "--cluster-from", a, "--cluster-to", b, "--cluster-slots", "300",
					"--cluster-yes")
				if err != nil {
					x.t.Logf("reshard: %v: %.300s", err, out[max(0, len(out)-300):])
					_, _ = from.cli("--cluster", "fix", from.addr())
				}
				return err == nil
			}},
		}}
}

func (n *node) clusterState() string {
	out, _ := n.cli("CLUSTER", "INFO")
	for line := range strings.Lines(out) {
		if s, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster_state:"); ok {
			return s
		}
	}
	return ""
}

// clock sets Redis's clock by faketime's file.
type clock struct {
	file string
	env  []string // empty = it cannot be set
	why  string
}

// newClock looks for faketime.
func newClock(dir string) *clock {
	c := &clock{file: filepath.Join(dir, "clock")}
	find := func(pattern string) string {
		list, _ := filepath.Glob(pattern)
		if len(list) == 0 {
			return ""
		}
		return list[0]
	}
	lib, libc := find("/usr/lib/*/faketime/libfaketimeMT.so.1"), find("/lib/*/libc.so.6")
	if lib == "" || libc == "" {
		c.why = "faketime is not installed"
		return c
	}
	if err := os.WriteFile(c.file, []byte("+0"), 0o600); err != nil {
		c.why = err.Error()
		return c
	}
	// libc is preloaded behind faketime, because faketime and jemalloc call each other before either is ready.
	c.env = []string{"LD_PRELOAD=" + lib + ":" + libc, "FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1"}
	return c
}

func (c *clock) set(l *ledger, offset time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// In place and at once: a file that is empty for a moment is an offset of nothing.
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(fmt.Sprintf("%+08d\n", int(offset.Seconds()))), 0)
	l.clock = append(l.clock, setting{from: time.Now(), offset: offset})
	return errors.Join(err, f.Close())
}
