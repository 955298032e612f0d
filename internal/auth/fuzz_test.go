package auth

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"notifier/internal/wire"
)

// FuzzSigned checks that only cookies and links that were made here are accepted, each only for its
// own purpose.
func FuzzSigned(f *testing.F) {
	w := newFleet()
	office := w.office(three...)
	// Several fuzzing processes use each other's inputs, so valid texts must be the same in each.
	signed := func(p wire.Purpose, fa facts) string {
		key, _, err := office.key(context.Background(), p, fa.Client)
		if err != nil {
			f.Fatal(err)
		}
		return sign(key, fa)
	}
	ends := w.clock.Add(time.Hour).Unix()
	const id = "ABCDEFGHIJKLMNOP"
	cookie := signed(wire.ForSessions, facts{ID: id, Client: "shop", Ends: ends})
	if err := w.BeginSession(context.Background(), "shop", "", id, time.Hour); err != nil {
		f.Fatal(err)
	}
	link := signed(wire.ForLinks, facts{ID: id, Client: "shop", Ends: ends, Prefix: "app1"})
	if err := w.KeepLink(context.Background(), "shop", id, `{"client":"shop","prefix":"app1"}`, time.Hour); err != nil {
		f.Fatal(err)
	}
	told, sum, _ := strings.Cut(cookie, ".")
	for _, s := range []string{cookie, link, cookie + ".", cookie[:len(cookie)-1], told, told + ".", "." + sum, told + "." + sum + "=", "e30.",
		"bnVsbA.AA", "",
		strings.Repeat("A", 3000), id, "eyJpZCI6IngiLCJjIjoib3BzIiwieCI6OTk5OTk5OTk5OTk5fQ." + sum} {
		f.Add(s)
	}
	open := newFleet().office()
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := office.Check(t.Context(), s); (err == nil) != (s == cookie) || err != nil && !errors.Is(err, ErrNoSession) {
			t.Errorf("as a cookie: %v", err)
		}
		if _, _, err := office.Enter(t.Context(), s); (err == nil) != (s == link) || err != nil && !errors.Is(err, ErrBadLink) {
			t.Errorf("as a link: %v", err)
		}
		if _, err := open.Check(t.Context(), s); !errors.Is(err, ErrNoSession) {
			t.Errorf("where no client is configured: %v", err)
		}
		if prefix, err := office.RevokeLink(t.Context(), Caller{Name: "desk", Prefix: "app2"}, s); !errors.Is(err, ErrBadLink) ||
			prefix != "" {
			t.Errorf("as the id of a link: %q, %v", prefix, err)
		}
	})
}
