//go:build fault

package acceptance

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// dice makes random invalid requests.
type dice struct{ *rand.Rand }

func oneOf[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (d dice) junk() string {
	switch d.IntN(4) {
	case 0:
		b := make([]byte, d.IntN(60))
		for i := range b {
			b[i] = byte(d.IntN(256))
		}
		return string(b)
	case 1:
		return strings.Repeat(oneOf(d, "A", "../", "%2e%2e%2f", ":", "\x00", "ä", "'", "%00", "%3a", "{"), d.IntN(200))
	case 2:
		return oneOf(d, "__proto__", "null", "NaN", "1e309", "9223372036854775808", "0x10", "\u2028", "\ufeff",
			"notifier:{0}:records:app1", "EVAL",
			"*3\r\n$3\r\nSET", "\r\nX-Injected: 1", "${jndi:ldap://x}", "; DROP TABLE notices", "<script>")
	}
	return ""
}

// key is one that is not, or not for this client, or of a notice that is there.
func (d dice) key() string {
	return oneOf(d, d.junk(), "app1:pay:t:"+d.junk(), "app2:pay:t:1", "app2:pay:t:2", "app2:pay:t:none", "app1::b:c", ":::", "app1:pay:t:1/",
		"app1:pay:t:"+strings.Repeat("x", 129), "notifier:a:b:c", "app11:pay:t:1", "APP1:pay:t:1", "app1:pay:t:1 ", "app1：pay:t:1")
}

func (d dice) value() string {
	return oneOf(d, `null`, `true`, `-1`, `1e999`, `123456789012345678901234567890`, `"x"`, `[]`, `{}`, `{"a":{"a":{"a":1}}}`, `"\ud800"`,
		`"\u0000"`,
		`"99999999h"`, `"-1s"`, `"9999-99-99T99:99:99Z"`, "\"\xff\"", `"http://[::1"`, `["1s",-1]`,
		strings.Repeat("[", 300)+strings.Repeat("]", 300),
		`tru`, `"unclosed`, `'single'`, `1 2`)
}

func (d dice) body() string {
	if d.IntN(4) == 0 {
		return oneOf(d, "", "{", "[", "\x00", "null", "{}{}", d.junk(), strings.Repeat("[", 20000), strings.Repeat(`{"a":`, 11000), "\ufeff{}",
			`{"key":"app1:pay:t:1","body":"`+strings.Repeat("x", 300<<10)+`"}`)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"key":%q`, d.key())
	for range d.IntN(4) {
		fmt.Fprintf(&b, `,"%s":%s`, oneOf(d, "delay", "due", "body", "body_text", "body_base64", "content_type", "url", "headers",
			"method", "retry",
			"on_duplicate", "attempt", "after", "key", "Key", "bogus", "__proto__", "state"), d.value())
	}
	// A field that is never there, so that nothing here is ever scheduled.
	fmt.Fprintf(&b, `,"nobody":%s}`, oneOf(d, "1", `"x"`, "{}"))
	return b.String()
}

func (d dice) path() string {
	key := url.PathEscape(d.key())
	if d.IntN(3) == 0 {
		key = strings.ReplaceAll(key, ":", "%3A")
	}
	p := oneOf(d, "/v1/notices", "/v1/notices/batch", "/v1/notices/"+key, "/v1/notices/"+key+"/"+oneOf(d, "fire", "redrive", "ack", "nack",
		"defer", "x"),
		"/v1/routes/"+oneOf(d, "two", "none", url.PathEscape(d.junk()))+"/"+oneOf(d, "pause", "resume", "redrive"), "/v1/stats", "/metrics",
		"/"+url.PathEscape(d.junk()), "//v1//notices", "/v1/notices/%2e%2e/%2e%2e/etc/passwd", "/v1/notices/"+key+"/../..",
		"/v1/notices/"+key+"%2f..")
	for range max(0, d.IntN(6)-3) {
		p += oneOf(d, "?", "&") + oneOf(d, "limit", "state", "route", "prefix", "cursor", "since", "dry_run", "x", "%zz", ";") + "=" +
			oneOf(d, "1", "0", "1000", "dead", "two", "app2", "true", url.QueryEscape(d.junk()), "%zz")
	}
	return p
}

// Fifty thousand invalid requests, some of them not even HTTP, cause no 5xx and change
// nothing in Redis.
func TestHostileRequests(t *testing.T) {
	const n = 50_000
	db := newRedis(t)
	s := scoped(t, db, "http://127.0.0.1:1/", "http://127.0.0.1:1/")
	due := time.Now().Add(time.Hour)
	for _, app := range []string{"app1", "app2"} {
		for i := range 3 {
			if a := s.must(tokenAll, "POST", "/v1/notices", line(fmt.Sprintf("%s:pay:t:%d", app, i+1), due)); a.status != http.StatusCreated {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
	}
	before := digest(t, db)
	idle := s.memory("VmRSS")
	d := dice{rand.New(rand.NewPCG(11, 20261121))}
	client := &http.Client{Timeout: waitTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 16}, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	defer client.CloseIdleConnections()
	statuses := map[int]int{}
	from := time.Now()
	for i := range n {
		if i%50 == 0 {
			statuses[raw(t, s, d)]++
			continue
		}
		method, path := oneOf(d, "GET", "POST", "POST", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "BREW"), d.path()
		u, err := url.Parse(s.url + path)
		if err != nil {
			u = &url.URL{Scheme: "http", Host: s.url[7:], Opaque: "/v1/notices?%zz"}
		}
		req, err := http.NewRequestWithContext(t.Context(), method, s.url, strings.NewReader(d.body()))
		if err != nil {
			t.Fatal(err)
		}
		req.URL = u
		// The operator's token is left out: its requests could change notices.
		req.Header.Set("Authorization", oneOf(d, "Bearer "+tokenOne, "Bearer "+tokenOne, "Bearer "+tokenOne, "Bearer x", "Bearer", "Basic eDp4"))
		req.Header.Set("Content-Type", oneOf(d, "application/json", "application/json", "application/x-ndjson", "text/html",
			"application/json; charset=utf-16"))
		if d.IntN(10) == 0 {
			req.Header.Set(oneOf(d, "Accept", "X-Request-Id", "Traceparent", "Content-Encoding", "Origin", "X-Http-Method-Override"),
				oneOf(d, "text/html", "gzip", "DELETE", "null", strings.Repeat("x", 5000)))
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatalf("request %d, %s %q: %v", i, method, path, err)
		}
		body, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			t.Logf("request %d, %s %q: its answer ended early: %v", i, method, path, err)
		}
		statuses[res.StatusCode]++
		if res.StatusCode >= 500 || res.Header.Get("X-Injected") != "" {
			t.Fatalf("request %d, %s %q: %d %s", i, method, path, res.StatusCode, body)
		}
		if req.Header.Get("Authorization") == "Bearer "+tokenOne && strings.Contains(string(body), `"route":"two"`) {
			t.Fatalf("request %d, %s %q shows data of app2: %s", i, method, path, body)
		}
	}
	took := time.Since(from)
	if after := digest(t, db); !slices.Equal(before, after) {
		t.Errorf("what Redis holds has changed:\n%s\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if h, err := s.api.Ready(t.Context()); err != nil || !h.Ready {
		t.Errorf("afterwards: %v, %+v", err, h)
	}
	t.Logf("%d requests in %s, statuses %v (0 = the connection was closed), resident %d → at most %d MiB, %d lines in the log", n,
		took.Round(time.Millisecond),
		statuses, idle, s.memory("VmHWM"), s.logLines(""))
}

// raw sends bytes that no client library would.
func raw(t *testing.T, s *service, d dice) int {
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.url[7:])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(waitTimeout))
	auth := "Authorization: Bearer " + tokenOne + "\r\n"
	text := oneOf(d,
		"GET /v1/notices HTTP/1.1\r\nHost: x\r\n"+auth+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /v1/notices HTTP/1.1\r\nHost: x\r\n"+auth+"Content-Length: -1\r\n\r\n",
		"POST /v1/notices HTTP/1.1\r\nHost: x\r\n"+auth+"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		"GET / HTTP/9.9\r\n\r\n", "*1\r\n$4\r\nPING\r\n", "\x16\x03\x01\x02\x00\x01", d.junk()+"\r\n\r\n",
		"GET /v1/notices HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "GET /v1/notices\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/notices HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("y", 100<<10)+"\r\n\r\n",
		"GET http://169.254.169.254/latest/meta-data HTTP/1.1\r\nHost: x\r\n"+auth+"\r\n",
		"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n")
	// The service may refuse and close before it has read everything.
	_, _ = io.WriteString(conn, text)
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	if res.StatusCode >= 500 && res.StatusCode != http.StatusHTTPVersionNotSupported && res.StatusCode != http.StatusNotImplemented {
		t.Fatalf("%q is answered %d", text[:min(len(text), 200)], res.StatusCode)
	}
	return res.StatusCode
}

// digest returns every key of Redis with its content.
func digest(t *testing.T, db *database) []string {
	t.Helper()
	ctx, c := t.Context(), db.Client()
	var out []string
	for _, k := range db.names() {
		if strings.HasSuffix(k, "}:serving") || strings.HasPrefix(k, "notifier:{fleet}:") {
			continue // instances say again and again that they live
		}
		dump, err := c.Dump(ctx, k).Result()
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(dump))
		out = append(out, k+" "+hex.EncodeToString(sum[:8]))
	}
	slices.Sort(out)
	return out
}
