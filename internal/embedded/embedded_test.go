package embedded

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"notifier/internal/keys"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, s *Server) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestEachExpiresOnTimeAndSaysSo(t *testing.T) {
	emulated, err := StartEmulated()
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]*Server{"emulated": emulated}
	if _, err := exec.LookPath("redis-server"); err == nil {
		if servers["process"], err = Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		if servers["process"].Emulated {
			t.Error("a redis-server is on PATH and was not taken")
		}
	}
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			defer s.Close()
			ctx := context.Background()
			c := open(t, s)
			ps := c.Subscribe(ctx, keys.Expired(0))
			defer func() { _ = ps.Close() }()
			if _, err := ps.Receive(ctx); err != nil {
				t.Fatal(err)
			}
			due := time.Now().Add(50 * time.Millisecond).Truncate(time.Millisecond)
			if err := c.Do(ctx, "SET", "a:b:c:d", 1, "PXAT", due.UnixMilli()-1).Err(); err != nil {
				t.Fatal(err)
			}
			m, err := ps.ReceiveMessage(ctx)
			if err != nil || m.Payload != "a:b:c:d" {
				t.Fatal(m, err)
			}
			if early := time.Until(due); early > 0 {
				t.Errorf("%s early", early)
			}
			if n, err := c.Exists(ctx, "a:b:c:d").Result(); n != 0 || err != nil {
				t.Errorf("the key is still there: %d, %v", n, err)
			}
		})
	}
}

// A key that gets its expiry from another command than SET sends its event too.
func TestEachWayToExpireSendsAnEvent(t *testing.T) {
	e, err := NewEmulation()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx := context.Background()
	c := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return e.Dial() }})
	defer func() { _ = c.Close() }()
	do := func(command string) {
		t.Helper()
		var args []any
		for _, word := range strings.Fields(command) {
			args = append(args, word)
		}
		if err := c.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
	ps := c.Subscribe(ctx, keys.Expired(0))
	defer func() { _ = ps.Close() }()
	if _, err := ps.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ setup, way, key string }{
		{"SET a 1", "GETEX a EX 3600", "a"},
		{"SET b 1", "EXPIRE b 3600", "b"},
		{"SET c 1", "PSETEX c 3600000 1", "c"},
		{"SET old 1 EX 3600", "RENAME old d", "d"},
		{"SET e 1 EX 3600", "COPY e f", "f"},
	} {
		do(c.setup)
		do(c.way)
		e.Leap(2 * time.Hour)
		for heard := ""; heard != c.key; {
			m, err := ps.ReceiveMessage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if heard = m.Payload; heard != c.key && heard != "e" {
				t.Errorf("%s: an event of %s", c.way, heard)
			}
		}
	}
}

// A program that is no Redis is left at once, and nothing of it stays.
func TestProgramThatIsNoRedis(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", dir)
	path := filepath.Join(bin, "redis-server")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		script, want string
		ctx          context.Context
	}{
		{"", "no such file", context.Background()},
		{"exec tail -f /dev/null", "does not answer", ended},
		{"exit 0", "exited at once", context.Background()},
	} {
		if c.script != "" {
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := startProcess(c.ctx, path); err == nil || !strings.Contains(err.Error(), c.want) || s != nil {
			t.Errorf("%q: %v, want %q", c.script, err, c.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%q left %v, %v", c.script, left, err)
		}
	}
	t.Setenv("PATH", bin)
	s, err := Start(context.Background())
	if err != nil || !s.Emulated || s.Kind != "emulated in this process" {
		t.Fatalf("%+v, %v", s, err)
	}
	s.Close()
}

// A script sets its timers some time after the clock last moved: that made
// events come as much too early, and an event that comes early is spent.
func TestAnEventOfAScriptsTimerIsNotEarly(t *testing.T) {
	s, err := StartEmulated()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	c := open(t, s)
	ps := c.Subscribe(ctx, keys.Expired(0))
	defer func() { _ = ps.Close() }()
	if _, err := ps.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	const script = `
local function now() local t = redis.call('TIME'); return t[1] * 1000 + t[2] / 1000 end
local begun = now()
while now() < begun + 3 do end
redis.call('SET', KEYS[1], 1, 'PXAT', ARGV[1])
if ARGV[3] ~= '' then redis.call('PEXPIREAT', KEYS[1], ARGV[3]) end
redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
return now() < tonumber(ARGV[1]) and 1 or 0`
	for i, tries := 0, 0; i < 10; i++ {
		tries++
		due, moved := time.Now().Add(40*time.Millisecond).Truncate(time.Millisecond), ""
		first := due
		if i%2 == 1 { // as a reschedule does it
			due = due.Add(20 * time.Millisecond)
			moved = strconv.FormatInt(due.UnixMilli()-1, 10)
		}
		k := "a:b:c:" + strconv.Itoa(tries)
		inTime, err := c.Eval(ctx, script, []string{k, "claim:" + k}, first.UnixMilli()-1, 10, moved).Int()
		if err != nil {
			t.Fatal(err)
		}
		if inTime == 0 { // a time in the past deletes the key without an event
			i--
			continue
		}
		seen := map[string]bool{}
		for len(seen) < 2 {
			m, err := ps.ReceiveMessage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if m.Payload != k && m.Payload != "claim:"+k {
				continue // of a try that was late
			}
			if seen[m.Payload] {
				t.Errorf("a second event of %s", m.Payload)
			}
			seen[m.Payload] = true
			if early := time.Until(due); m.Payload == k && early > 0 {
				t.Errorf("the event of %s came %s early", k, early)
			}
		}
	}
}
