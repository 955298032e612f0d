package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
)

// unfinished sends the beginning of a batch, without a length unless declared > 0, and
// returns the connection.
func unfinished(t *testing.T, address, token string, declared, sent int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	length := "Transfer-Encoding: chunked\r\n"
	if declared > 0 {
		length = fmt.Sprintf("Content-Length: %d\r\n", declared)
	}
	text := strings.Repeat(" ", sent)
	if declared == 0 {
		text = fmt.Sprintf("%x\r\n%s\r\n", sent, text)
	}
	_, _ = fmt.Fprintf(conn, "POST /v1/notices/batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n%s", token, length, text)
	return conn
}

// refused counts the connections that are answered 429.
func refused(t *testing.T, conns []net.Conn) int {
	t.Helper()
	n := 0
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)) // an admitted one says nothing
		b := make([]byte, 512)
		if k, _ := conn.Read(b); strings.HasPrefix(string(b[:k]), "HTTP/1.1 429") && strings.Contains(string(b[:k]), "Retry-After: 1") {
			n++
		}
	}
	return n
}

func TestUnfinishedBatchesHoldBoundedMemory(t *testing.T) {
	const memory, each, attackers = 8 << 20, 500 << 10, 24
	for name, declared := range map[string]int{"without a length": 0, "with a length": each + 1} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, withClients, func(o *api.Options) { o.Memory = memory })
			srv := httptest.NewServer(b.handler)
			defer srv.Close()
			var conns []net.Conn
			for range attackers {
				conns = append(conns, unfinished(t, srv.Listener.Addr().String(), "token-of-one", declared, each))
			}
			if n := refused(t, conns); n < attackers-memory/4/each {
				t.Errorf("%d of %d batches were refused, which leaves more than a quarter of the memory to one client", n, attackers)
			}
			b.as("token-of-two").do("POST", "/v1/notices", `{"key":"app2:a:b:1"}`).is(201)
			for _, conn := range conns {
				_ = conn.Close()
			}
			body := `[{"key":"app1:jobs:t:1","body_text":"` + strings.Repeat("x", 200<<10) + `"}]`
			for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the server notices the closed connections
				if a := b.as("token-of-one").do("POST", "/v1/notices/batch", body); a.status == 201 {
					break
				} else if time.Now().After(end) {
					t.Fatalf("memory was not given back: %d %s", a.status, a.raw)
				}
			}
		})
	}
}

// A body that does not arrive is given up, so that its memory is held for a bounded time.
func TestBodyMustArriveInTime(t *testing.T) {
	b := newBench(t, withClients)
	srv := api.Server(b.handler, "")
	if srv.ReadTimeout != time.Minute {
		t.Errorf("a body may take %s", srv.ReadTimeout)
	}
	s := httptest.NewUnstartedServer(b.handler)
	s.Config.ReadTimeout = 100 * time.Millisecond
	s.Start()
	defer s.Close()
	conn := unfinished(t, s.Listener.Addr().String(), "token-of-one", 0, 100)
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408") || !strings.Contains(string(answer), "did not arrive within 60 s") {
		t.Errorf("%v, %s", err, answer)
	}
}

func TestReadingAnItemStopsAtItsTwentiethFault(t *testing.T) {
	for _, path := range []string{"/v1/notices/batch", "/v1/notices/restore"} {
		var item strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&item, `,"u%d":1`, i)
		}
		body := `[{"key":"app1:jobs:t:1"` + item.String() + `}]`
		b := newBench(t, withClients).as("token-of-all")
		b.do("POST", path, body).is(http.StatusMultiStatus).says("u18")
		if n := testing.AllocsPerRun(1, func() { b.do("POST", path, body) }); n > 5000 {
			t.Errorf("%s: %.0f allocations for an item of 20,000 unknown members", path, n)
		}
	}
}
