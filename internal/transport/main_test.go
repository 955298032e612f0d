package transport

import (
	"net"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPool(t testing.TB) *Pool {
	t.Helper()
	p := New(Options{Dial: (&net.Dialer{}).DialContext, TLSTimeout: time.Minute, Idle: DefaultIdle, PerHost: 8, Total: 64,
		Recheck: DefaultRecheck})
	t.Cleanup(p.Close)
	return p
}

// postTo is an exchange with a receiver without TLS.
func postTo(addr, body string) *Exchange {
	r := &Request{Method: "POST", Origin: Origin{Addr: addr}, URL: &url.URL{Scheme: "http", Host: addr, Path: "/"}, Host: addr,
		UserAgent: "test", Body: []byte(body)}
	return &Exchange{Request: r, Progress: &Progress{}, Deadline: time.Now().Add(time.Minute)}
}

func post(t testing.TB, p *Pool, addr, body string) (*Exchange, error) {
	t.Helper()
	x := postTo(addr, body)
	return x, p.Do(t.Context(), x)
}
