package auth

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestOriginBehindProxies(t *testing.T) {
	proxies := Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		peer    string
		headers [][2]string
		want    Origin
	}{
		"no proxy": {"192.0.2.1:99", nil, Origin{"192.0.2.1", false}},
		"an untrusted peer": {"192.0.2.1:99", [][2]string{{"X-Forwarded-For", "198.51.100.7"}, {"X-Forwarded-Proto", "https"}},
			Origin{"192.0.2.1", false}},
		"one proxy": {"10.0.0.1:99", [][2]string{{"X-Forwarded-For", "198.51.100.7"}, {"X-Forwarded-Proto", "https"}},
			Origin{"198.51.100.7", true}},
		"an address the client made": {"10.0.0.1:99", [][2]string{{"X-Forwarded-For", "203.0.113.9, 198.51.100.7"}},
			Origin{"198.51.100.7", false}},
		"two proxies": {"10.0.0.1:99", [][2]string{{"X-Forwarded-For", "203.0.113.9, 198.51.100.7, 10.0.0.2"}},
			Origin{"198.51.100.7", false}},
		"several lines": {"10.0.0.1:99", [][2]string{{"X-Forwarded-For", "203.0.113.9"}, {"X-Forwarded-For", "198.51.100.7"},
			{"X-Forwarded-For", "10.0.0.2"}}, Origin{"198.51.100.7", false}},
		"only proxies": {"10.0.0.1:99", [][2]string{{"X-Forwarded-For", "10.0.0.3, 10.0.0.2"}}, Origin{"10.0.0.3", false}},
		"no header":    {"10.0.0.1:99", nil, Origin{"10.0.0.1", false}},
		"an entry that is none": {"10.0.0.1:99", [][2]string{{"X-Forwarded-For", "198.51.100.7, unknown, 10.0.0.2"}},
			Origin{"10.0.0.2", false}},
		"IPv6 with a port": {"[fd00::1]:99", [][2]string{{"X-Forwarded-For", "[2001:db8::1]:4711"}}, Origin{"2001:db8::1", false}},
		"IPv6 in brackets": {"[fd00::1]:99", [][2]string{{"X-Forwarded-For", "[2001:db8::1]"}}, Origin{"2001:db8::1", false}},
		"IPv4 in IPv6": {"[::ffff:10.0.0.1]:99", [][2]string{{"X-Forwarded-For", "::ffff:198.51.100.7"}},
			Origin{"198.51.100.7", false}},
		"a scheme the client made": {"10.0.0.1:99", [][2]string{{"X-Forwarded-For", "198.51.100.7"}, {"X-Forwarded-Proto", "https, http"}},
			Origin{"198.51.100.7", false}},
		"the scheme of two proxies": {"10.0.0.1:99", [][2]string{{"X-Forwarded-For", "198.51.100.7, 10.0.0.2"},
			{"X-Forwarded-Proto", "http, https, http"}}, Origin{"198.51.100.7", true}},
		"a scheme that was replaced": {"10.0.0.1:99", [][2]string{{"X-Forwarded-For", "198.51.100.7, 10.0.0.2"}, {"X-Forwarded-Proto", "HTTPS"}},
			Origin{"198.51.100.7", true}},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		for _, h := range c.headers {
			r.Header.Add(h[0], h[1])
		}
		var got Origin
		proxies.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = OriginOf(r) })).ServeHTTP(httptest.NewRecorder(), r)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr, r.TLS = "10.0.0.1:99", &tls.ConnectionState{}
	r.Header.Set("X-Forwarded-For", "198.51.100.7")
	if got := OriginOf(r); got != (Origin{"10.0.0.1", true}) {
		t.Errorf("without trusted proxies: %+v", got)
	}
}
