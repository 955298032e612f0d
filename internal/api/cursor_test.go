package api_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// pages is an API with five notices in each of two scopes and pages of two.
func pages(t testing.TB, change ...func(*api.Options)) *bench {
	t.Helper()
	b := newBench(t, append([]func(*api.Options){withClients}, change...)...).as("token-of-all")
	for i := range 5 {
		for _, prefix := range []string{"app1:orders", "app2:secret"} {
			key := fmt.Sprintf("%s:x:customer-%d", prefix, i)
			target := ""
			if prefix == "app1:orders" {
				target = `,"url":"https://shop.example/"`
			}
			b.do("POST", "/v1/notices", `{"key":"`+key+`","delay":"1h"`+target+`}`).is(201)
		}
	}
	return b
}

func (b *bench) cursor(query string) string {
	b.t.Helper()
	c, ok := b.do("GET", "/v1/notices?"+query, "").is(200).json()["cursor"].(string)
	if !ok {
		b.t.Fatalf("no cursor after the first page of %s", query)
	}
	return c
}

// A cursor was base64 of the last key that was read, which may be one that
// the client is not to see.
func TestACursorDoesNotShowKeys(t *testing.T) {
	t.Parallel()
	b := pages(t).as("token-of-one")
	c := b.cursor("limit=2")
	raw, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil {
		t.Fatal(err)
	}
	if all := c + string(raw); strings.Contains(all, "app1") || strings.Contains(all, "customer") {
		t.Errorf("the cursor shows a key: %q", all)
	}
	if again := b.cursor("limit=2"); again == c {
		t.Error("a cursor tells whether two listings stand at the same place")
	}
}

func TestACursorIsGoodForItsClientAndQueryOnly(t *testing.T) {
	t.Parallel()
	ring := wire.FixedKey([]byte(strings.Repeat("k", wire.KeySize)))
	with := func(o *api.Options) { o.Keys = ring }
	b := pages(t, with)
	c := url.QueryEscape(b.cursor("limit=2&prefix=app1&state=scheduled"))
	// Another instance takes it, with another limit and order of parameters.
	other := pages(t, with)
	other.do("GET", "/v1/notices?cursor="+c+"&state=scheduled&limit=3&prefix=app1", "").is(200)

	for what, call := range map[string]func() answer{
		"another client": func() answer {
			return b.as("token-of-one").do("GET", "/v1/notices?prefix=app1&state=scheduled&cursor="+c, "")
		},
		"another prefix":  func() answer { return b.do("GET", "/v1/notices?prefix=app2&state=scheduled&cursor="+c, "") },
		"no prefix":       func() answer { return b.do("GET", "/v1/notices?state=scheduled&cursor="+c, "") },
		"another state":   func() answer { return b.do("GET", "/v1/notices?prefix=app1&state=dead&cursor="+c, "") },
		"a bulk redrive":  func() answer { return b.do("POST", "/v1/routes/orders/redrive?prefix=app1&cursor="+c, "") },
		"another service": func() answer { return pages(t).do("GET", "/v1/notices?prefix=app1&state=scheduled&cursor="+c, "") },
		"a scope that changed": func() answer {
			return newBench(t, withClients, with, rescoped).as("token-of-all").do("GET", "/v1/notices?prefix=app1&state=scheduled&cursor="+c, "")
		},
		"one changed character": func() answer {
			other := map[bool]string{true: "B", false: "A"}[c[0] == 'A']
			return b.do("GET", "/v1/notices?prefix=app1&state=scheduled&cursor="+other+c[1:], "")
		},
		"its beginning": func() answer { return b.do("GET", "/v1/notices?prefix=app1&state=scheduled&cursor="+c[:len(c)-4], "") },
		"an older version": func() answer {
			return b.do("GET", "/v1/notices?prefix=app1&state=scheduled&cursor="+base64.RawURLEncoding.EncodeToString([]byte(`{"p":"app1:orders"}`)),
				"")
		},
		"a long one": func() answer { return b.do("GET", "/v1/notices?cursor="+strings.Repeat("A", 3000), "") },
		"nan": func() answer {
			return b.do("GET", "/v1/notices?cursor="+base64.RawURLEncoding.EncodeToString([]byte(`{"p":"app1:orders","v":"nan","k":"a"}`)), "")
		},
	} {
		a := call()
		if a.status != 400 || !strings.Contains(a.raw, "begin again") || !strings.Contains(a.raw, "query.cursor") {
			t.Errorf("%s: %d %s, want a 400 that says to begin again", what, a.status, a.raw)
		}
	}
}

// rescoped gives the client that had no prefix one.
func rescoped(o *api.Options) {
	o.Clients = append([]auth.Client(nil), o.Clients...)
	o.Clients[0].Prefix = "app1"
}

// What needs no cursor is served without the key.
func TestWithoutTheKeyOnlyCursorsAreRefused(t *testing.T) {
	t.Parallel()
	var down error
	b := pages(t, func(o *api.Options) {
		o.Keys = wire.NewKeyRing(func(context.Context) ([]byte, error) { return []byte(strings.Repeat("k", wire.KeySize)), down })
	})
	c := url.QueryEscape(b.cursor("limit=2"))
	down = errors.New("WRONGTYPE")
	b.do("GET", "/v1/notices?limit=2&cursor="+c, "").is(503).says("key that cursors are sealed with")
	if a := b.do("GET", "/v1/notices?limit=2", ""); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("a page that leads on: %d %s", a.status, a.raw)
	}
	b.do("GET", "/v1/notices?cursor=nonsense%21", "").is(400)
	b.do("GET", "/v1/notices?route=orders&state=scheduled", "").is(200)
	b.do("GET", "/v1/notices/app1:orders:x:customer-1", "").is(200)
	b.do("POST", "/v1/routes/orders/redrive", "").is(200)
	down = nil
	b.do("GET", "/v1/notices?limit=2&cursor="+c, "").is(200)
}

// halting redrives one notice and then fails; when it is called again, it ends.
type halting struct {
	*enginetest.Engine
	asked []string // cursors
}

func (h *halting) AmendAll(_ context.Context, b store.Bulk) (store.Amends, error) {
	switch h.asked = append(h.asked, b.Cursor); len(h.asked) {
	case 1:
		return store.Amends{Matched: 1, Changed: 1, Cursor: "inner"}, nil
	case 2:
		return store.Amends{}, wire.ErrUnavailable
	}
	return store.Amends{Matched: 1}, nil
}

func TestABulkRedrivesCursorLeadsOn(t *testing.T) {
	t.Parallel()
	h := &halting{}
	b := newBench(t, withClients, func(o *api.Options) {
		h.Engine, _ = o.Engine.(*enginetest.Engine)
		o.Engine = h
	}).as("token-of-all")
	c, _ := b.do("POST", "/v1/routes/orders/redrive?reason=gone", "").is(200).json()["cursor"].(string)
	if c == "" || strings.Contains(c, "inner") {
		t.Fatalf("cursor %q", c)
	}
	b.do("POST", "/v1/routes/other/redrive?reason=gone&cursor="+url.QueryEscape(c), "").is(400).says("begin again")
	b.do("POST", "/v1/routes/orders/redrive?reason=gone&cursor="+url.QueryEscape(c), "").is(200)
	if !slices.Equal(h.asked, []string{"", "inner", "inner"}) {
		t.Errorf("the engine continued at %q", h.asked)
	}
}

func FuzzCursor(f *testing.F) {
	b := pages(f, func(o *api.Options) { o.Keys = wire.FixedKey([]byte(strings.Repeat("k", wire.KeySize))) })
	good := b.cursor("limit=2")
	for _, s := range []string{good[:20], good + "AAAA", "", "e30", "eyJwIjoiYXBwMTpvcmRlcnMiLCJ2IjoibmFuIiwiayI6ImEifQ", "=", "\x00", "A",
		strings.Repeat("A", 2048), strings.Repeat("_", 2049), "{\"p\":1}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		c := *b
		c.t = t
		a := c.do("GET", "/v1/notices?limit=2&cursor="+url.QueryEscape(cursor), "")
		// Only texts that were sealed here open. Nonces are random, so fuzzing does not find such a text.
		if a.status != 400 && cursor != "" {
			t.Errorf("%q: %d %s", cursor, a.status, a.raw)
		}
	})
}
