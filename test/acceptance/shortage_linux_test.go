//go:build fault

package acceptance

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"notifier/client"
	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// few is a place whose processes may open 90 files.
type few struct{ here }

func (few) start(c *exec.Cmd) error {
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -n 90; exec "$0" "$@"`}, c.Args...)
	return c.Start()
}

// short is a service on a machine that lacks a resource, and its receiver, which answers once the gate is closed.
type short struct {
	*service
	rec   *receiver
	gate  chan struct{}
	begun time.Time
}

// shortages are the notices of each test.
const shortages = 200

func (s *short) get(path string) string {
	s.t.Helper()
	res, err := s.plain().Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d, %v", path, res.StatusCode, err)
	}
	return string(text)
}

// newShort starts the service at a place. Its receiver listens there.
func newShort(t *testing.T, at place, l net.Listener, redisURL, target string) *short {
	s := &short{gate: make(chan struct{}), begun: time.Now()}
	s.rec = listen(t, func(_ http.ResponseWriter, r *http.Request, _ hit) {
		select {
		case <-s.gate:
		case <-r.Context().Done():
		}
	})
	srv := httptest.NewUnstartedServer(s.rec.serve)
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	port, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	target = strings.Replace(target, "PORT", fmt.Sprint(l.Addr().(*net.TCPAddr).Port), 1)
	s.service, err = exe(t, at, port, redisURL, [][]string{
		route("orders", "app1", target, "CONCURRENCY=300", "HOST_CONCURRENCY=300", "TIMEOUT=5m", "RETRY=1s"),
		route("six", "app2", "http://[2001:db8::1]:80/", "RETRY=100ms", "TIMEOUT=5s")})
	if err != nil {
		t.Fatal(err)
	}
	s.service.ready()
	s.scheduleAll(shortages, func(i int) string {
		return fmt.Sprintf(`{"key":"app1:orders:paid:%d","delay":"1s","body":{}}`, i)
	})
	return s
}

// lacks checks what the service reports during the shortage.
func (s *short) lacks(cause notice.Shortage) {
	s.t.Helper()
	await(s.t, waitTimeout, "a shortage", func() bool { return s.metric("notifier_local_shortage_seconds", `cause="`+string(cause)+`"`) > 0 })
	await(s.t, waitTimeout, "the page", func() bool { return strings.Contains(s.get("/ui/"), "wait for resources of the service") })
	ready := s.get("/readyz")
	if !strings.Contains(ready, `"ready":true`) || !strings.Contains(ready, `"degraded":true`) || !strings.Contains(ready, "("+string(cause)+")") {
		s.t.Errorf("/readyz: %s", ready)
	}
	receivers := s.get("/v1/receivers")
	if regexp.MustCompile(`"failed":[1-9]|failing_since`).MatchString(receivers) {
		s.t.Errorf("receivers: %s", receivers)
	}
}

// ends checks that each notice was delivered by its first attempt, and the log.
func (s *short) ends(cause notice.Shortage) {
	s.t.Helper()
	s.rec.wait(waitTimeout, shortages)
	await(s.t, waitTimeout, "settled notices", func() bool { return s.numbers("orders").Settled == shortages })
	s.rec.once(shortages)
	for _, h := range s.rec.all() {
		if h.attempt != 1 {
			s.t.Errorf("%s: attempt %d", h.key, h.attempt)
		}
	}
	if n := s.metric("notifier_attempts_total", `outcome="retry"`, `route="orders"`) + s.metric("notifier_attempts_total", `outcome="dead"`,
		`route="orders"`); n > 0 {
		s.t.Errorf("%v attempts failed", n)
	}
	if held := s.metric("notifier_lateness_seconds_count", `held="local"`, `route="orders"`); held == 0 {
		s.t.Error("no lateness with the cause local")
	}
	text, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := strings.Count(string(text), `"msg":"this machine lacks a resource, deferring notices","cause":"`+string(cause)+`"`)
	if lines == 0 || lines > 1+int(time.Since(s.begun)/time.Minute) {
		s.t.Errorf("%d lines:\n%s", lines, tail(s.log))
	}
}

// Without free descriptors, callbacks wait and the API answers.
func TestFewDescriptorsUseNoAttempt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newShort(t, few{}, l, newRedis(t).URL(), "http://127.0.0.1:PORT/")
	s.lacks(notice.ShortDescriptors)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.cmd.Process.Pid))
	if err != nil || len(files) >= 90 {
		t.Errorf("%d open files, %v", len(files), err)
	}
	if text := tail(s.log); !strings.Contains(text, "a limit of this machine is too low") || !strings.Contains(text, "may open 90 files") {
		t.Errorf("the log does not name the limit:\n%s", text)
	}
	close(s.gate)
	s.ends(notice.ShortDescriptors)
}

// Without free ports, callbacks wait. An IPv6 address where there is no IPv6 is the notice's own fault.
func TestFewPortsUseNoAttempt(t *testing.T) {
	n, err := newNetwork(t)
	if err != nil {
		t.Skip(err)
	}
	l, err := n.listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	set := func(name, value string) {
		t.Helper()
		var err error
		if n.in(func() { err = os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o600) }); err != nil {
			t.Skip(err)
		}
	}
	set("ipv4/ip_local_port_range", "40000 40099")
	set("ipv6/conf/all/disable_ipv6", "1")
	s := newShort(t, n, l, "", "http://127.0.0.1:PORT/")
	s.lacks(notice.ShortPorts)
	doctor := exec.Command(binary, "doctor")
	doctor.Env = append(environment([][]string{route("orders", "app1", "http://127.0.0.1/", "HOST_CONCURRENCY=300", "CONCURRENCY=300")}),
		"NOTIFIER_REDIS_URL=redis://127.0.0.1:1/0")
	var said strings.Builder
	doctor.Stdout, doctor.Stderr = &said, &said
	if err := n.start(doctor); err != nil {
		t.Fatal(err)
	}
	_ = doctor.Wait() // its Redis does not answer
	if !strings.Contains(said.String(), "has 100 ephemeral ports; up to 300 connections to one host") {
		t.Errorf("doctor: %s", said.String())
	}

	s.scheduleAll(1, func(int) string { return `{"key":"app2:a:b:1","body":{}}` })
	var dead *client.Notice
	await(t, waitTimeout, "a dead letter", func() bool {
		dead, err = s.api.Get(t.Context(), "app2:a:b:1")
		return err == nil && dead.State == client.Dead
	})
	if dead.AttemptsMade != 2 || dead.Reason != "connect" {
		t.Errorf("%+v", dead)
	}
	set("ipv4/ip_local_port_range", "32768 60999")
	s.rec.wait(waitTimeout, shortages) // their connections are open at the same time
	close(s.gate)
	s.ends(notice.ShortPorts)
}

var nameServer = regexp.MustCompile(`(?m)^nameserver\s+(\d+\.\d+\.\d+\.\d+)`)

// Without a name server, callbacks wait until it is back.
func TestMissingResolverUsesNoAttempt(t *testing.T) {
	conf, err := os.ReadFile("/etc/resolv.conf")
	found := nameServer.FindSubmatch(conf)
	if err != nil || found == nil {
		t.Skipf("/etc/resolv.conf names no server by IPv4: %v", err)
	}
	n, err := newNetwork(t)
	if err != nil {
		t.Skip(err)
	}
	l, err := n.listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newShort(t, n, l, "", "http://www.names.example:PORT/")
	close(s.gate)
	s.lacks(notice.ShortResolver)
	server := string(found[1])
	if !strings.HasPrefix(server, "127.") {
		if err := n.ip("addr add " + server + "/32 dev lo"); err != nil {
			t.Fatal(err)
		}
	}
	serveNames(t, n, server)
	s.ends(notice.ShortResolver)
}

// serveNames answers all names with 127.0.0.1.
func serveNames(t *testing.T, n *network, address string) {
	var conn net.PacketConn
	var err error
	if n.in(func() { conn, err = new(net.ListenConfig).ListenPacket(context.Background(), "udp", address+":53") }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:size]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Header, m.Additionals = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, nil
			if q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
}
