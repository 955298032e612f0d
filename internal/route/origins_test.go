package route

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"notifier/internal/notice"
)

func originOf(t testing.TB, address string) Origin {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	host, err := notice.Host(u.Hostname())
	if err != nil {
		t.Fatal(err)
	}
	return OriginOf(u, host)
}

// HEADERS_TO named only hosts: a producer that named another port or http got the operator's Authorization
// header.
func TestHeadersMatchSchemeAndPort(t *testing.T) {
	const yes, no, refused = "sent", "not sent", "refused"
	for to, urls := range map[string]map[string]string{
		"shop.example": {
			"https://shop.example": yes, "https://shop.example:443/hook": yes, "HTTPS://Shop.EXAMPLE./hook": yes, "https://shop.example:0443/": yes,
			"https://evil.example@shop.example/": yes, "https://shop.example:/": yes,
			"http://shop.example/": refused, "http://shop.example:443/": refused, "https://shop.example:8443/": refused,
			"https://shop.example:80/": refused,
			"HTTP://SHOP.example./":    refused, "https://shop.example:0/": refused, "https://shop.example:99999/": refused,
			"https://shop.example@evil.example/": no, "https://shop.example:x@evil.example/": no, "https://a.shop.example/": no,
			"http://evil.example/":               no,
			"https://shop.example.evil.example/": no, "https://evilshop.example/": no,
		},
		"*.shop.example": {
			"https://a.shop.example/": yes, "https://a.b.shop.example:443/": yes, "http://a.shop.example/": refused, "https://shop.example/": no,
			"http://evilshop.example/": no,
		},
		"*": {"https://anybody.example/": yes, "https://[::1]/": yes, "http://anybody.example/": refused,
			"https://anybody.example:8443/": refused},
		"*:*": {"https://anybody.example:8443/": yes, "http://anybody.example/": refused},
		"http://shop.example": {"http://shop.example/": yes, "http://shop.example:80/": yes, "https://shop.example/": refused,
			"http://shop.example:8080/": refused},
		"shop.example:8443":         {"https://shop.example:8443/": yes, "https://shop.example/": refused, "http://shop.example:8443/": refused},
		"Https://SHOP.example.:443": {"https://shop.example/": yes, "http://shop.example/": refused},
		"http://shop.example:*":     {"http://shop.example/": yes, "http://shop.example:8080/": yes, "https://shop.example/": refused},
		"shop.example,http://shop.example:8080": {
			"https://shop.example/": yes, "http://shop.example:8080/": yes, "http://shop.example/": refused, "https://shop.example:8080/": refused,
		},
		"b\u00fccher.example": {"https://xn--bcher-kva.example/": yes, "https://B\u00dcCHER.example/": yes,
			"http://b\u00fccher.example/": refused},
		"[::1]": {"https://[::1]/": yes, "https://[0:0::1]:443/": yes, "http://[::1]/": refused, "https://[::1]:444/": refused,
			"https://[::2]/": no},
		"::1,[fd00::0:1]:*": {"https://[::1]/": yes, "https://[fd00::1]:8443/": yes, "http://[fd00::1]/": refused},
		"10.0.0.1": {"https://10.0.0.1/": yes, "http://10.0.0.1/": refused, "https://10.0.0.1:8443/": refused,
			"https://[::ffff:10.0.0.1]/": no},
		// The zone is part of the dialled address.
		"[fe80::1]": {"https://[fe80::1]/": yes, "https://[fe80::1%25eth0]/": no},
	} {
		list, err := ParseOrigins(to)
		if err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		r := &Route{Name: "my-orders", Target: Target{Kind: KindNotice}, HeadersTo: list, Allow: Allow{}}
		for address, want := range urls {
			o, got := originOf(t, address), no
			if list.Match(o) {
				got = yes
			}
			if err := r.CheckHeaders(o); err != nil {
				if got == yes {
					t.Errorf("HEADERS_TO=%s: %s gets the headers and is refused: %v", to, address, err)
				}
				got = refused
			}
			if got != want {
				t.Errorf("HEADERS_TO=%s: %s (%s): %s, want %s", to, address, o, got, want)
			}
		}
	}
}

func TestHeadersErrorNamesAllowedOrigins(t *testing.T) {
	list, err := ParseOrigins("*.shop.example,http://a.shop.example:8080,http://a.shop.example:*")
	if err != nil {
		t.Fatal(err)
	}
	r := &Route{Name: "my-orders", Target: Target{Kind: KindNotice}, HeadersTo: list}
	wrong := r.Misfits(&notice.Content{URL: "https://u:hunter2@a.shop.example:8443/hook?token=hunter2"})
	const want = "leads to https://a.shop.example:8443, and route my-orders sends its headers to this host by " +
		"http://a.shop.example with any port or http://a.shop.example:8080 or https://a.shop.example only; " +
		"NOTIFIER_ROUTE_MY_ORDERS_HEADERS_TO=https://a.shop.example:8443 would allow it"
	if len(wrong) != 1 || wrong[0] != (Misfit{"url", want}) {
		t.Errorf("%q", wrong)
	}
	var held *HeadersError
	if err := r.CheckHeaders(originOf(t, "http://b.shop.example/")); !errors.As(err, &held) ||
		!strings.Contains(err.Error(), "by https://b.shop.example only") {
		t.Error(err)
	}
	if wrong := r.Misfits(&notice.Content{URL: "https://b.shop.example/"}); wrong != nil {
		t.Errorf("%q", wrong)
	}
}

func TestOriginsAreNormalized(t *testing.T) {
	for s, want := range map[string]string{
		"Shop.example.,https://shop.example:443, https://shop.example": "shop.example",
		"http://shop.example:80,http://shop.example:0080":              "http://shop.example",
		"*,*:8443,http://*,*.A.example:*":                              "*,*.a.example:*,*:8443,http://*",
		"[0:0::1],::1,[::1]:8443,http://[::1]:*":                       "[::1],[::1]:8443,http://[::1]:*",
	} {
		list, err := ParseOrigins(s)
		if err != nil || list.String() != want || list.Empty() {
			t.Errorf("%s: %s, %v, want %s", s, list, err, want)
		}
		again, err := ParseOrigins(list.String())
		if err != nil || again.String() != want {
			t.Errorf("%s: %s, %v", list, again, err)
		}
	}
	for _, bad := range []string{"", ",", "10.0.0.0/8", "https://", "https://shop.example/", "ftp://shop.example", "//shop.example",
		"shop.example:", "shop.example:0",
		"shop.example:65536", "shop.example:https", "shop.example:+80", "shop.example:80:80", "u@shop.example", "https://u:p@shop.example",
		"*shop.example", "*.", "*.1.2.3.4",
		"a b", "a..b", "0x7f", "127.1", "[::1", "[fe80::1%eth0]", "fe80::1%eth0", "shop.example,,a", "shop.example?x",
		"https://https://shop.example", "**"} {
		list, err := ParseOrigins(bad)
		if err == nil || !strings.Contains(err.Error(), OriginGrammar) {
			t.Errorf("%q was read as %q: %v", bad, list, err)
		}
	}
}
