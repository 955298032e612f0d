package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"notifier/internal/access"
)

// FuzzSigned: no text is a cookie or a link but those that were made here, each for
// what it was made for.
func FuzzSigned(f *testing.F) {
	w := newFleet()
	office := w.office(three...)
	cookie, _, err := office.SignIn(context.Background(), "token of shop", "192.0.2.1")
	if err != nil {
		f.Fatal(err)
	}
	link, err := office.MakeLink(context.Background(), access.Caller{Name: "shop", Prefix: "app1"}, LinkScope{Prefix: "app1"}, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	facts, sum, _ := strings.Cut(cookie, ".")
	for _, s := range []string{cookie, link.Token, cookie + ".", cookie[:len(cookie)-1], facts, facts + ".", "." + sum, facts + "." + sum + "=", "e30.", "bnVsbA.AA", "",
		strings.Repeat("A", 3000), "eyJpZCI6IngiLCJjIjoib3BzIiwieCI6OTk5OTk5OTk5OTk5fQ." + sum} {
		f.Add(s)
	}
	open := newFleet().office()
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := office.Check(t.Context(), s); (err == nil) != (s == cookie) || err != nil && !errors.Is(err, ErrNone) {
			t.Errorf("as a cookie: %v", err)
		}
		if _, _, err := office.Enter(t.Context(), s); (err == nil) != (s == link.Token) || err != nil && !errors.Is(err, ErrLink) {
			t.Errorf("as a link: %v", err)
		}
		if _, err := open.Check(t.Context(), s); !errors.Is(err, ErrNone) {
			t.Errorf("where no client is configured: %v", err)
		}
		if prefix, err := office.RevokeLink(t.Context(), access.Caller{Name: "desk", Prefix: "app2"}, s); !errors.Is(err, ErrLink) || prefix != "" {
			t.Errorf("as the id of a link: %q, %v", prefix, err)
		}
	})
}
