package notice

import (
	"errors"
	"strings"
	"testing"
)

func TestHostIsNormalized(t *testing.T) {
	for in, want := range map[string]string{
		"shop.example": "shop.example", "SHOP.Example.": "shop.example", "Bücher.example": "xn--bcher-kva.example",
		"shop\u3002example": "shop.example", "XN--BCHER-KVA.example": "xn--bcher-kva.example", "a_b.example": "a_b.example",
		"127.0.0.1": "127.0.0.1", "127.0.0.1.": "127.0.0.1", "\uff11\uff12\uff17.0.0.1": "127.0.0.1", "localhost": "localhost",
		"[::1]": "::1", "2001:DB8:0:0:0:0:0:1": "2001:db8::1", "[fe80::1%eth0]": "fe80::1", "::ffff:10.0.0.1": "::ffff:10.0.0.1",
	} {
		if got, err := Host(in); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
		if got, err := Host(want); err != nil || got != want {
			t.Errorf("%q does not stay as it is: %q, %v", want, got, err)
		}
	}
	for _, bad := range []string{"", ".", "shop.example:443", "https://shop.example", "shop.example/x", "u@shop.example", "a b", "[::1",
		"::1]", "::1:::",
		"*.shop.example", "a,b", "\u0000", "\U000e0001.example"} {
		if got, err := Host(bad); err == nil {
			t.Errorf("%q was read as %q", bad, got)
		}
	}
}

func TestHostPort(t *testing.T) {
	for in, want := range map[string]string{
		"Shop.Example": "shop.example", "shop.example.": "shop.example", "shop.example:8443": "shop.example:8443",
		"bücher.example": "xn--bcher-kva.example",
		"10.0.0.7":       "10.0.0.7", "10.0.0.7:80": "10.0.0.7:80", "shop.example:81": "shop.example:81",
		"::1": "::1", "[::1]": "::1", "[::1]:443": "[::1]:443", "[::1]:81": "[::1]:81",
	} {
		if got, err := HostPort(in); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", ":443", "https://shop.example", "shop.example/x", "shop.example:0", "shop.example:65536",
		"shop.example:0443", "shop.example:https", "user@shop.example", "a b", "*", "shop.example:x", "shop.example:",
		strings.Repeat("a", 300)} {
		if got, err := HostPort(in); !errors.Is(err, ErrHost) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}
