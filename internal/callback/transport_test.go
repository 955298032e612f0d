package callback

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
	"notifier/internal/transport"
)

// counting is a receiver that counts its connections.
func counting(t testing.TB, h2 bool, f http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(f)
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	if h2 {
		ca := newAuthority(t)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}}
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Setenv("TEST_CA", ca.file)
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s, &conns
}

func TestKeepAliveIsReused(t *testing.T) {
	for name, body := range map[string]string{"no body": "", "body": "success", "large body": strings.Repeat("x", transport.MaxBody-10)} {
		t.Run(name, func(t *testing.T) {
			s, conns := counting(t, false, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, body)
			})
			h := newHandler(t, Options{})
			// Two routes with the same TLS files share connections.
			a, b := fixedRoute(s.URL), fixedRoute(s.URL+"/other")
			for range 50 {
				expect(t, h.Handle(background(t), a, testNotice("x")), delivered, "")
				expect(t, h.Handle(background(t), b, testNotice("x")), delivered, "")
			}
			if n := conns.Load(); n > 2 { // one; two if a call began before the end of the last one was noticed
				t.Errorf("%d connections for 100 calls", n)
			}
		})
	}
}

func TestConcurrentCallsKeepTheirConnections(t *testing.T) {
	s, conns := counting(t, false, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	h := newHandler(t, Options{})
	r := fixedRoute(s.URL)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
			}
		})
	}
	wg.Wait()
	if n := conns.Load(); n > 40 {
		t.Errorf("%d connections for 16 callers", n)
	}
}

func TestHTTP2SharesAConnection(t *testing.T) {
	var protos sync.Map
	s, conns := counting(t, true, func(w http.ResponseWriter, r *http.Request) {
		protos.Store(r.Proto, true)
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "success")
	})
	h := newHandler(t, Options{})
	r := fixedRoute(s.URL)
	r.CAFile, r.Ack = os.Getenv("TEST_CA"), *ack(t, "body:success")
	expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "") })
	}
	wg.Wait()
	protos.Range(func(k, _ any) bool {
		if k != "HTTP/2.0" {
			t.Errorf("spoke %s", k)
		}
		return true
	})
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestBrokenFreshConnectionIsNotRetried(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	addr := listen(t, nil, func(_ net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		if testkit.ReadRequest(in) == nil {
			n.Add(1)
		}
	})
	h := newHandler(t, Options{})
	expect(t, h.Handle(background(t), fixedRoute("http://"+addr), testNotice("x")), retry, notice.ReasonReset)
	if n.Load() != 1 {
		t.Errorf("sent %d times", n.Load())
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	h := newHandler(t, Options{})
	expect(t, h.Handle(background(t), fixedRoute(s.URL), testNotice("x")), retry, notice.ReasonRedirect)
	if n.Load() != 1 {
		t.Errorf("%d requests", n.Load())
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	base, got := capture(t)
	asked := make(chan string, 8)
	proxy := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.RequestURI + " " + r.Header.Get("Proxy-Authorization")
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		r.RequestURI = ""
		r.Header.Del("Proxy-Authorization")
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			w.WriteHeader(502)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	h := newHandler(t, Options{})
	r := fixedRoute(base + "/x")
	r.Proxy = proxyAt(t, strings.Replace(proxy.URL, "http://", "http://user:hunter2@", 1))
	expect(t, h.Handle(background(t), r, testNotice("x")), delivered, "")
	<-got
	if a := <-asked; !strings.HasPrefix(a, "POST "+base+"/x ") || !strings.HasSuffix(a,
		base64.StdEncoding.EncodeToString([]byte("user:hunter2"))) {
		t.Error(a)
	}
	// CONNECT is refused.
	s := fixedRoute("https://shop.example/")
	s.Proxy = r.Proxy
	res := h.Handle(background(t), s, testNotice("x"))
	expect(t, res, retry, notice.ReasonConnect)
	if !strings.Contains(res.Response, "403") {
		t.Error(res.Response)
	}
	<-asked
	// The literal address of a notice is checked behind a proxy too.
	n := testNotice("x")
	n.URL = "http://169.254.169.254/"
	nr := noticeRoute()
	nr.Proxy = r.Proxy
	expect(t, h.Handle(background(t), nr, n), dead, notice.ReasonBlocked)
	// An unreachable proxy.
	s.Proxy = proxyAt(t, "http://user:hunter2@127.0.0.1:1")
	res = h.Handle(background(t), s, testNotice("x"))
	expect(t, res, retry, notice.ReasonConnect)
	testkit.CheckSecrets(t, []string{"hunter2"}, res.Response)
}

// The record names the proxy if an answer is the proxy's own.
func TestProxyErrorsAreTheProxys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target, answer, says string
		status               int
		reason               notice.Reason
	}{
		{"https://shop.example/", "407 No\r\n", "the proxy answered 407 Proxy Authentication Required to CONNECT", 0, notice.ReasonConnect},
		{"https://shop.example/", "503 No\r\nX-Squid-Error: ERR_DNS_FAIL 0\r\n", "503 Service Unavailable to CONNECT: ERR_DNS_FAIL 0", 0,
			notice.ReasonConnect},
		{"http://shop.example/", "407 No\r\n", "the proxy answered 407 Proxy Authentication Required", 0, notice.ReasonConnect},
		{"http://shop.example/", "502 No\r\nProxy-Status: edge; error=dns_timeout; rcode=2\r\n", "502 Bad Gateway: dns_timeout", 0,
			notice.ReasonConnect},
		{"http://shop.example/", "504 No\r\nX-Squid-Error: ERR_CONNECT_FAIL 111\r\n", "ERR_CONNECT_FAIL 111", 0, notice.ReasonConnect},
		{"http://shop.example/", "502 No\r\n", "", 502, notice.ReasonStatus5xx},
		{"http://shop.example/", "503 No\r\nProxy-Status: edge; received-status=503\r\n", "", 503, notice.ReasonStatus5xx},
		{"http://shop.example/", "404 No\r\nX-Squid-Error: ERR_X\r\n", "", 404, notice.ReasonStatus4xx},
	} {
		t.Run(c.target+c.answer, func(t *testing.T) {
			r := fixedRoute(c.target)
			r.Proxy = proxyAt(t, "http://"+listen(t, nil, say("HTTP/1.1 "+c.answer+"Content-Length: 0\r\n\r\n")))
			res := newHandler(t, Options{}).Handle(background(t), r, testNotice("x"))
			expect(t, res, retry, c.reason)
			if res.Status != c.status || !strings.Contains(res.Response, c.says) {
				t.Errorf("%d %q", res.Status, res.Response)
			}
		})
	}
	r := fixedRoute("http://" + listen(t, nil, say("HTTP/1.1 503 No\r\nX-Squid-Error: ERR_X\r\nContent-Length: 0\r\n\r\n")))
	expect(t, newHandler(t, Options{}).Handle(background(t), r, testNotice("x")), retry, notice.ReasonStatus5xx)
}

func proxyAt(t testing.TB, address string) *route.Proxy {
	t.Helper()
	p, err := route.ParseProxy(address)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPrepareReportsErrors(t *testing.T) {
	t.Parallel()
	h := newHandler(t, Options{})
	ca := newAuthority(t)
	cert, key := files(t, ca.issue(t, nil))
	_, otherKey := files(t, ca.issue(t, nil))
	junk := filepath.Join(t.TempDir(), "junk.pem")
	if err := os.WriteFile(junk, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*route.Route){
		"no such file":            func(r *route.Route) { r.CAFile = "/does/not/exist.pem" },
		"contains no certificate": func(r *route.Route) { r.CAFile = junk },
		"set both":                func(r *route.Route) { r.CertFile = cert },
		"one is missing":          func(r *route.Route) { r.KeyFile = key },
		"does not match":          func(r *route.Route) { r.CertFile, r.KeyFile = cert, otherKey },
		"is not called by HTTP":   func(r *route.Route) { r.Target.Kind = route.KindList },
	} {
		r := fixedRoute("https://shop.example/")
		change(r)
		err := h.Prepare(r)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			continue
		}
		testkit.CheckSecrets(t, []string{"hunter2"}, err.Error())
		// Handle returns the same error and does not panic.
		expect(t, h.Handle(background(t), r, testNotice("x")), retry, notice.ReasonInvalid)
	}
	r := fixedRoute("https://shop.example/")
	r.CAFile, r.CertFile, r.KeyFile = ca.file, cert, key
	if err := h.Prepare(r); err != nil {
		t.Error(err)
	}
}

// Handle applies the limits of hosts.
func TestHandleLimitsHosts(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	release := make(chan struct{})
	s := server(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			arrived <- struct{}{}
			<-release
		}
	})
	h := newHandler(t, Options{})
	r := noticeRoute("127.0.0.0/8", "localhost")
	r.HostConcurrency = 2
	hang, quick := testNotice("x"), testNotice("x")
	hang.URL, quick.URL = s.URL+"/hang", strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { expect(t, h.Handle(background(t), r, hang), delivered, "") })
		<-arrived
	}
	res := h.Handle(background(t), r, hang)
	expect(t, res, deferred, notice.ReasonBusy)
	if res.After < minAfter || !strings.Contains(res.Response, "all 2 slots") {
		t.Errorf("%+v", res)
	}
	expect(t, h.Handle(background(t), r, quick), delivered, "")
	close(release)
	wg.Wait()
	quick.URL = s.URL
	expect(t, h.Handle(background(t), r, quick), delivered, "")

	rated := fixedRoute(s.URL)
	rated.Rate = 1
	expect(t, h.Handle(background(t), rated, testNotice("x")), delivered, "")
	if res := h.Handle(background(t), rated, testNotice("x")); res.After < minAfter || res.After > time.Minute {
		t.Errorf("%+v", res)
	}
}
