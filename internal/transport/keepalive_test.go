package transport

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"notifier/internal/testkit"
)

func TestKeepAliveTimeout(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]time.Duration{
		"timeout=5": 4 * time.Second, "timeout=5, max=100": 4 * time.Second, "max=100,Timeout=60": 59 * time.Second, `timeout="5"`: 4 * time.Second,
		"timeout=1": 500 * time.Millisecond, "timeout=0": 0, "timeout=86400": MaxIdle, "timeout=4294967295": MaxIdle,
		"": DefaultIdle, "max=5": DefaultIdle, "timeout=-1": DefaultIdle, "timeout=5s": DefaultIdle, "timeout=99999999999999999999": DefaultIdle,
	} {
		c := directConn{keep: DefaultIdle}
		c.readKeepAlive(http.Header{"Keep-Alive": {says}})
		if c.keep != want {
			t.Errorf("%q: kept for %s, want %s", says, c.keep, want)
		}
	}
}

// A receiver that closes idle connections after less than DefaultIdle cost one attempt in 14.
func TestIdleTimeIsLearned(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, timeout := range []time.Duration{3 * time.Second, time.Second, 300 * time.Millisecond, 0} {
		k, lost := &keptTime{}, 0
		for range 100 { // calls at random intervals
			now = now.Add(2 * time.Second)
			if keep := k.of(DefaultIdle, now); keep > timeout {
				lost++
				k.closed(timeout, keep, now)
			}
		}
		if keep := k.of(DefaultIdle, now); keep > timeout || keep < timeout/4 && timeout >= minKept || lost > 7 {
			t.Errorf("closes after %s: kept for %s, found %d connections closed", timeout, keep, lost)
		}
		for range 10 {
			now = now.Add(raisedEvery)
			k.of(DefaultIdle, now)
		}
		if keep := k.of(DefaultIdle, now); keep != DefaultIdle {
			t.Errorf("kept for %s after hours", keep)
		}
	}
}

// A restart closes all connections at once.
func TestRestartHalvesTheIdleTime(t *testing.T) {
	t.Parallel()
	k, now := &keptTime{}, time.Now()
	for range 100 {
		k.closed(time.Millisecond, DefaultIdle, now)
	}
	k.closed(3*time.Second, DefaultIdle, now.Add(3*time.Second)) // kept by the time before
	if keep := k.of(DefaultIdle, now); keep != DefaultIdle/2 {
		t.Errorf("kept for %s", keep)
	}
}

const okEmpty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

func TestClosedConnectionsLowerTheIdleTime(t *testing.T) {
	t.Parallel()
	for name, inUse := range map[string]bool{"closed while idle": false, "closed while the request was on its way": true} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan struct{}, 2)
			addr := testkit.ListenTCP(t, "127.0.0.1:0", nil, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
				if testkit.ReadRequest(in) == nil {
					_, _ = io.WriteString(c, okEmpty)
				}
				if inUse {
					_ = testkit.ReadRequest(in)
				}
				testkit.CloseAndWait(t, c)
				closed <- struct{}{}
			})
			p := newPool(t)
			if _, err := post(t, p, addr, "x"); err != nil {
				t.Fatal(err)
			}
			if !inUse {
				<-closed
			}
			_, _ = post(t, p, addr, "x")
			if keep := p.origins.find(Origin{Addr: addr}).kept.of(DefaultIdle, time.Now()); keep != DefaultIdle/2 {
				t.Errorf("kept for %s", keep)
			}
		})
	}
}
