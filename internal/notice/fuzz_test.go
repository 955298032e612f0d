package notice

import (
	"bytes"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// FuzzDecode checks that both decoders agree on any text, and that a decoded notice is encoded to an equal
// one.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"due":1,"made":2,"json":{"a":"}"},"url":"x"}`, `{"due":1,"made":2}`, `{"due":1,"made":2,"json":}`,
		`{"due":1,"made":2,"text":"`,
		`{"due":1,"made":2,"base64":"AA==","headers":[["A","b"]],"retry":"1s,2s","n":2,"redriven":1,"reason":"gone","attempts":[{"n":1,"at":5,"ms":6,"us":7,"status":500,"reason":"status_5xx","response":"no"}]}`,
		`{"due":1,"made":2,"raw":"eyJkdWUiOjEsIm1hZGUiOjIsInRleHQiOiJhIn0=","again":true}`,
		`{"due":1,"made":2,"locked":-1,"handed":true,"lost":true,"adopted":true}`,
		`{"due":1,"made":2,"expires":9,"text":"a","expires_after":8}`, `{"due":1,"made":2,"first":1,"expires":0}`, `{"due":1,"made":2,"expires":-1}`,
		`{"due":1,"made":2,"client":7}`, `{"due":1,"made":2,"client":7,"text":"a"}`, `{"due":1,"made":2,"text":"a","client":-7}`,
		`{"due":1,"made":2,"client":99999999999999999999}`, `{"due":1,"made":2,"client":7,"client":8}`, `{"due":1,"made":2,"json":1,"json":2}`,
		`{"due":1,"made":2,"text":"a","text":"b"}`, `{"due":1,"made":2,"retry":"none","n":-5,"redriven":9}`,
		`{"due":9223372036854775807,"made":9223372036854775807}`, "null", "[]", "\xff\xfe", `{"due":1,"made":2,"JSON":1,"Text":"a"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quick, ok := scan("k", "r", s)
		n, err := decode("k", "r", s)
		if ok {
			if err != nil {
				t.Fatalf("scan reads it, decode does not: %v", err)
			}
			quick.kept = ""
			if !reflect.DeepEqual(quick, n) {
				t.Fatalf("scan reads %+v, decode %+v", quick, n)
			}
		}
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatalf("not an ErrRecord: %v", err)
			}
			// The stored text is kept, and reads back unchanged.
			u := Unread("k", "r", s)
			again := roundTrip(t, u)
			if string(again.Raw) != s && s != "" {
				t.Fatalf("kept %q of %q", again.Raw, s)
			}
			return
		}
		if n.AttemptsMade < 0 || n.Redriven < 0 || n.Redriven > n.AttemptsMade || n.Locked < 0 {
			t.Fatalf("%d attempts, %d when it was redriven, %d locks", n.AttemptsMade, n.Redriven, n.Locked)
		}
		if step, left := n.Step(DefaultLadder); left && step < 0 {
			t.Fatalf("a step of %s", step)
		}
		again := roundTrip(t, n)
		n.inline, again.inline, n.kept, again.kept = false, false, "", ""
		if !bytes.Equal(again.Body, n.Body) || again.URL != n.URL || again.Client != n.Client || again.AttemptsMade != n.AttemptsMade ||
			again.Redriven != n.Redriven || !again.Expires.Equal(n.Expires) || again.ExpiresAfter != n.ExpiresAfter ||
			again.Reason != n.Reason || len(again.Attempts) != len(n.Attempts) || !slices.Equal(again.Headers, n.Headers) ||
			!slices.Equal(again.Ladder, n.Ladder) {
			t.Fatalf("was %+v, is %+v", n, again)
		}
	})
}

// roundTrip encodes a notice as a settle does, and decodes it.
func roundTrip(t *testing.T, n *Notice) *Notice {
	t.Helper()
	text := `{"due":` + "1700000000000" + `,"made":1` + string(n.AppendTail(nil))
	again, err := Decode("k", "r", text)
	if err != nil {
		t.Fatalf("an encoded notice cannot be decoded: %v: %s", err, text)
	}
	return again
}

// FuzzDuration checks durations and ladders as people write them.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{"15s,3m,10m", "none", "1h30m", "-1s", "9999999999h", "1e9", "0", ",", "5", "1d", "0x1p-2s", "٣s",
		"2w1d12h", "7d-1h", "1.5d", "999999999w"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil && d < 0 {
			t.Fatalf("%q is %s", s, d)
		}
		l, err := ParseLadder(s)
		if err != nil {
			return
		}
		for _, d := range l {
			if d < 0 {
				t.Fatalf("%q has the step %s", s, d)
			}
		}
		again, err := ParseLadder(l.String())
		if err != nil || !slices.Equal(again, l) {
			t.Fatalf("%q is spelled %q, which reads %v, %v", s, l.String(), again, err)
		}
	})
}

// FuzzURL checks that a valid address has one canonical form, whose path and query a request line can carry.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"http://a/", "https://[::1]:8/x", "HTTP://EXAMPLE.com./a?b#c", "http://u:p@h/", "http://xn--/",
		"http://0x7f.1/", "http://a\r\nb/", "http://h/a%2Fb|c?d=2026-11-28 10:00&n=张三&p=100%#x y", "http://h?%%41",
		"http://ⓔxample.com", "http://[fe80::1%25eth0]/", "http:///x", "//h", "http://h:99999/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		canonical, err := CanonicalURL(s)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("not an ErrInvalid: %v", err)
			}
			return
		}
		if again, err := CanonicalURL(canonical); err != nil || again != canonical {
			t.Fatalf("%q is %q, which is %q, %v", s, canonical, again, err)
		}
		u, err := url.Parse(canonical)
		if err != nil {
			t.Fatal(err)
		}
		uri, _, _ := strings.Cut(canonical[strings.Index(canonical, "://")+3:], "#")
		if at := strings.IndexAny(uri, "/?"); at < 0 {
			uri = "/"
		} else if uri = uri[at:]; uri[0] == '?' {
			uri = "/" + uri
		}
		if u.RequestURI() != uri {
			t.Fatalf("%q is called as %q", canonical, u.RequestURI())
		}
		for i := range len(uri) {
			if c := uri[i]; c < ' ' || c == 0x7f || refused(c) {
				t.Fatalf("%q has the request line %q", s, uri)
			}
		}
	})
}

// FuzzHost checks that a normalized host is not changed again.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"Shop.Example.", "münchen.example", "::1", "[::1]", "1.2.3.4", "xn--a", "a..b", "127.1", "ß.example",
		strings.Repeat("a.", 130)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := Host(s)
		if err != nil {
			return
		}
		again, err := Host(h)
		if err != nil || again != h {
			t.Fatalf("%q is %q, which is %q, %v", s, h, again, err)
		}
	})
}
