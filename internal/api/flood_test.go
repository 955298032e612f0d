package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/testkit"
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

// refused waits until n of the connections are answered 429, and returns how many are.
func refused(t *testing.T, conns []net.Conn, n int) int {
	t.Helper()
	answers := make(chan string, len(conns))
	for _, conn := range conns {
		go func() {
			b := make([]byte, 512) // of an admitted one nothing comes before it is closed
			k, _ := conn.Read(b)
			answers <- string(b[:k])
		}()
	}
	deadline := time.After(30 * time.Second)
	for got := 0; ; {
		select {
		case a := <-answers:
			if !strings.HasPrefix(a, "HTTP/1.1 429") || !strings.Contains(a, "Retry-After: 1") {
				t.Errorf("answered %q", a)
			}
			if got++; got == n {
				return got
			}
		case <-deadline:
			return got
		}
	}
}

func TestUnfinishedBatchesHoldBoundedMemory(t *testing.T) {
	t.Parallel()
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
			want := attackers - memory/4/each
			if n := refused(t, conns, want); n != want {
				t.Errorf("%d of %d batches were refused, want %d: one client holds more than a quarter of the memory", n, attackers, want)
			}
			b.as("token-of-two").do("POST", "/v1/notices", `{"key":"app2:a:b:1"}`).is(201)
			for _, conn := range conns {
				_ = conn.Close()
			}
			body := `[{"key":"app1:jobs:t:1","body_text":"` + strings.Repeat("x", 200<<10) + `"}]`
			testkit.Await(t, func() error {
				if a := b.as("token-of-one").do("POST", "/v1/notices/batch", body); a.status != 201 {
					return fmt.Errorf("memory was not given back: %d %s", a.status, a.raw)
				}
				return nil
			})
		})
	}
}

// A body that does not arrive is given up, so that its memory is held for a bounded time.
func TestBodyMustArriveInTime(t *testing.T) {
	t.Parallel()
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

// counted are answered calls, by client, operation and status, and the bytes in flight.
type counted map[string]int

func (c counted) Call(client, operation string, status int, took time.Duration) {
	c[fmt.Sprint(client, " ", operation, " ", status)]++
	if took > 0 {
		c["took time"]++
	}
}

func (c counted) BytesInFlight(delta int64) {
	c["bytes"] += int(delta)
	c["most bytes"] = max(c["most bytes"], c["bytes"])
}

func TestClientsAreHeldToTheirRate(t *testing.T) {
	t.Parallel()
	calls := counted{}
	b := newBench(t, func(o *api.Options) {
		o.Clients = []auth.Client{{Name: "slow", Token: "token-of-slow", Role: auth.Produce, Rate: 1.0 / 3600},
			{Name: "other", Token: "token-of-other", Role: auth.Produce}}
		o.Observer = calls
	})
	slow, other := b.as("token-of-slow"), b.as("token-of-other")
	slow.do("GET", "/v1/routes", "").is(200)
	for range 20 {
		slow.do("GET", "/v1/routes", "").is(429).says("client slow makes more requests than its rate allows")
	}
	a := slow.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(429)
	if wait, _ := strconv.Atoi(a.header.Get("Retry-After")); wait < 1800 || wait > 3600 {
		t.Errorf("Retry-After is %q, want the rest of an hour", a.header.Get("Retry-After"))
	}
	other.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1"}`).is(201)
	b.do("GET", "/v1/routes", "").is(401)
	for what, want := range map[string]int{"took time": 24, "bytes": 0, "most bytes": len(`{"key":"app1:jobs:t:1"}`), "slow listRoutes 200": 1,
		"slow listRoutes 429": 20, "slow schedule 429": 1, "other schedule 201": 1, " listRoutes 401": 1} {
		if calls[what] != want {
			t.Errorf("%q counted %d times, want %d: %v", what, calls[what], want, calls)
		}
	}
}

func TestBatchCountsAsARequestForEach100Items(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) {
		o.Clients = []auth.Client{{Name: "slow", Token: "token-of-slow", Role: auth.Produce, Rate: 0.01}}
	}).as("token-of-slow")
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, `{"key":"app1:jobs:t:%d"}`+"\n", i)
	}
	b.do("POST", "/v1/notices/batch", lines.String()).is(201)
	a := b.do("GET", "/v1/routes", "").is(429)
	if wait, _ := strconv.Atoi(a.header.Get("Retry-After")); wait < 900 || wait > 1000 { // 9 more requests and this one, 100 s each
		t.Errorf("after a batch of 1,000 Retry-After is %d", wait)
	}
}

// TestBodyCountsAsARequestForEach64KiB: a body of invalid items takes as much time as its bytes,
// whatever the number of items.
func TestBodyCountsAsARequestForEach64KiB(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) {
		o.Clients = []auth.Client{{Name: "slow", Token: "token-of-slow", Role: auth.Produce, Rate: 0.01}}
	}).as("token-of-slow")
	b.do("POST", "/v1/notices/batch", `{"key":"app1:jobs:t:1"`+strings.Repeat(`,"x":1`, 100_000)+"}\n").is(207)
	a := b.do("GET", "/v1/routes", "").is(429)
	if wait, _ := strconv.Atoi(a.header.Get("Retry-After")); wait < 900 || wait > 1000 { // 600,000 B are 9 more requests
		t.Errorf("after a body of 600 kB Retry-After is %d", wait)
	}
}
