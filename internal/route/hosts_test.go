package route

import (
	"errors"
	"strings"
	"testing"
)

func TestAllowIsNormalized(t *testing.T) {
	a, err := ParseAllow("10.1.2.3/16, fd00::1,Pay.internal., *.Corp.example, ::ffff:172.16.0.0/108,[::1],*.b\u00fccher.example")
	if err != nil {
		t.Fatal(err)
	}
	if want := "*.corp.example,*.xn--bcher-kva.example,10.1.0.0/16,172.16.0.0/12,::1/128,fd00::1/128,pay.internal"; a.String() != want {
		t.Errorf("%s, want %s", a, want)
	}
	for host, want := range map[string]bool{
		"pay.internal": true, "x.pay.internal": false, "a.corp.example": true, "a.b.corp.example": true, "corp.example": false,
		"evilcorp.example": false, "pay.internal.evil.example": false,
	} {
		if a.Host(host) != want {
			t.Errorf("host %s: %v", host, !want)
		}
	}
	for _, bad := range []string{"", "10.0.0.0/33", "http://h", "h:80", "*", "*.", "10.0.0", "a b", "1.2.3.4/x", "0x7f", "a,,b", "a..b",
		"*.1.2.3.4"} {
		if _, err := ParseAllow(bad); !errors.Is(err, errAllow) {
			t.Errorf("ALLOW=%q: %v", bad, err)
		}
	}
}

func TestProxy(t *testing.T) {
	for _, s := range []string{"http://p:3128", "https://u:hunter2@p", "socks5://p:1080", "socks5h://u:hunter2@p:1080"} {
		p, err := ParseProxy(s)
		if err != nil || p.URL().String() != s || strings.Contains(p.String(), "hunter2") {
			t.Errorf("%s: %v, %v", s, p, err)
		}
	}
	for _, s := range []string{"", "p:3128", "ftp://hunter2@p", "http://", "http://:80", "http://hunter2@h\x7f"} {
		if _, err := ParseProxy(s); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", s, err)
		}
	}
}
