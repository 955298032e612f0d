package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Less than a tick counts.
func TestProcessorTimeIsFine(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for from := running(os.Getpid()); running(os.Getpid()) < from+2*time.Millisecond; {
	}
	after, err := CPU(os.Getpid())
	if err != nil || after[0]-before[0] < 2*time.Millisecond {
		t.Errorf("%s after 2 ms of work, %v", after[0]-before[0], err)
	}
}

func TestTreeHoldsItsRoot(t *testing.T) {
	pids, err := Tree(os.Getpid())
	if err != nil || len(pids) == 0 || pids[0] != os.Getpid() {
		t.Errorf("%v, %v", pids, err)
	}
	if _, err := CPU(os.Getpid()); err != nil {
		t.Error(err)
	}
	own, err := OwnMemory(os.Getpid())
	if all, err2 := RSS(os.Getpid()); err != nil || err2 != nil || own < 1<<20 || all <= own {
		t.Errorf("%d of %d, %v, %v", own, all, err, err2)
	}
	if _, err := OwnCPU(); err != nil {
		t.Error(err)
	}
}

func TestFamilyIsKilledWhole(t *testing.T) {
	p, err := start(Command{Name: "sh", Path: "/bin/sh", Args: []string{"-c", "sleep 1000 & echo up; wait"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ready(context.Background(), func(context.Context) error {
		if pids, err := Tree(p.PID()); err != nil || len(pids) < 2 {
			return errors.New("no child yet")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f, err := FamilyOf(p.PID())
	if err != nil || len(f.started) != 2 {
		t.Fatalf("%+v, %v; want the shell and its child", f, err)
	}
	f.Kill()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestUsageIsRead(t *testing.T) {
	info := "used_memory:1024\r\nused_cpu_sys:0.5\r\nused_cpu_user:1\r\n# Commandstats\r\ncmdstat_get:calls=3,usec=1\r\n" +
		"cmdstat_info:calls=9,usec=1\r\ncmdstat_evalsha:calls=4,usec=2\r\n"
	if u, err := parseUsage(info); err != nil || u != (Usage{Bytes: 1024, Commands: 7, Trips: -1, CPU: 1500 * time.Millisecond}) {
		t.Errorf("%+v, %v; want 7 commands: INFO is ours", u, err)
	}
	if _, err := parseUsage("cmdstat_get:calls=x,usec=1"); err == nil {
		t.Error("no error")
	}
}

func TestFind(t *testing.T) {
	if _, err := Find("no-such-program", "/bin/s[h]"); err != nil {
		t.Error(err)
	}
	if _, err := Find("no-such-program", "/nowhere/*"); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("%v", err)
	}
}

func TestFailedStartReportsReason(t *testing.T) {
	for what, line := range map[string]func([]byte){"logged": nil, "read by line": func([]byte) {}} {
		p, err := start(Command{Name: "sh", Path: "/bin/sh", Args: []string{"-c", "echo no licence >&2; exit 1"}, Dir: t.TempDir(), Line: line})
		if err != nil {
			t.Fatal(err)
		}
		err = p.ready(context.Background(), func(context.Context) error { return io.EOF })
		if err == nil || !strings.Contains(err.Error(), "no licence") {
			t.Errorf("%s: %v", what, err)
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestEachLineIsRead(t *testing.T) {
	var got []string
	p, err := start(Command{Name: "sh", Path: "/bin/sh", Args: []string{"-c", "echo one >&2; echo out; printf two >&2"}, Dir: t.TempDir(),
		Line: func(line []byte) { got = append(got, string(line)) }})
	if err != nil {
		t.Fatal(err)
	}
	<-p.done
	if !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%q", got)
	}
}

func TestStopEndsAProcess(t *testing.T) {
	p, err := start(Command{Name: "sleep", Path: "/bin/sleep", Args: []string{"1000"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	var none *Process
	if err := none.Stop(); err != nil {
		t.Error(err)
	}
}

func TestReceiverReportsKey(t *testing.T) {
	got := make(chan string, 1)
	r, err := Receive(func(id string) { got <- id })
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, r.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(KeyHeader, "a:b:c:d")
	client := &http.Client{Transport: &http.Transport{}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	client.CloseIdleConnections()
	if id := <-got; id != "a:b:c:d" || resp.StatusCode != http.StatusOK {
		t.Errorf("id %q, %s", id, resp.Status)
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}
