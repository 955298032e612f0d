package auth

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var shop = Caller{Name: "shop", Prefix: "app1", Role: Operate}

func (f *fleet) link(t *testing.T, scope LinkScope, life time.Duration) *Link {
	t.Helper()
	l, err := f.office(three...).MakeLink(t.Context(), shop, scope, life)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (f *fleet) enter(t *testing.T, token string) (string, *Session) {
	t.Helper()
	cookie, s, err := f.office(three...).Enter(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return cookie, s
}

// closed checks that a link opens at no instance.
func closed(t *testing.T, what, token string, offices ...*Sessions) {
	t.Helper()
	for i, o := range offices {
		if cookie, s, err := o.Enter(t.Context(), token); !errors.Is(err, ErrBadLink) || cookie != "" || s != nil {
			t.Errorf("%s: instance %d opens it: %+v, %v", what, i, s, err)
		}
	}
}

func TestALinkIsANarrowSession(t *testing.T) {
	f := newFleet()
	l := f.link(t, LinkScope{Prefix: "app1:a", Host: "shop.example", Audience: "m17"}, 8*time.Hour)
	if l.Expires.Unix() != f.clock.Add(8*time.Hour).Unix() || !isID(l.ID) {
		t.Errorf("%+v", l)
	}
	var last string
	for range 3 { // any number of times
		cookie, _ := f.enter(t, l.Token)
		s, err := f.office(three...).Check(t.Context(), cookie)
		if err != nil || s.Caller != (Caller{Name: "shop", Prefix: "app1:a", Role: Read}) || s.Host != "shop.example" ||
			s.Audience != "m17" ||
			s.Link != l.ID || s.Expires.Unix() != l.Expires.Unix() || cookie == last {
			t.Fatalf("%+v, %v", s, err)
		}
		last = cookie
	}
	long := f.link(t, LinkScope{Prefix: "app1"}, MaxLink)
	if _, s := f.enter(t, long.Token); s.Expires != f.clock.Add(Life) {
		t.Errorf("its cookie is good until %s", s.Expires)
	}
}

func TestALinkResendsOnlyWithTheRoleOfItsMaker(t *testing.T) {
	f := newFleet()
	l := f.link(t, LinkScope{Prefix: "app1:a", Host: "shop.example", Label: "Shop Blue", Resend: true}, time.Hour)
	cookie, s := f.enter(t, l.Token)
	if s.Label != "Shop Blue" || !s.Resend || s.Role != Read {
		t.Errorf("%+v", s)
	}
	if _, s := f.enter(t, f.link(t, LinkScope{Prefix: "app1:a"}, time.Hour).Token); s.Label != "" || s.Resend {
		t.Errorf("of a link without a label: %+v", s)
	}
	reader := f.office(Client{Name: "shop", Token: "token of shop", Prefix: "app1", Role: Read})
	if s, err := reader.Check(t.Context(), cookie); err != nil || s.Resend {
		t.Errorf("after its maker lost the role: %+v, %v", s, err)
	}
}

func TestALinkIsNoWiderThanWhoMadeIt(t *testing.T) {
	f := newFleet()
	o := f.office(three...)
	for _, prefix := range []string{"", "app", "app12", "app2:a"} {
		if l, err := o.MakeLink(t.Context(), shop, LinkScope{Prefix: prefix}, time.Hour); !errors.Is(err, ErrScope) || l != nil {
			t.Errorf("%q: %+v, %v", prefix, l, err)
		}
	}
	// The client's scope has become narrower, or another.
	l := f.link(t, LinkScope{Prefix: "app1:a"}, time.Hour)
	cookie, _ := f.enter(t, l.Token)
	for _, prefix := range []string{"app1:a:b", "app1:b", "app2"} {
		o := f.office(Client{Name: "shop", Token: "token of shop", Prefix: prefix})
		closed(t, prefix, l.Token, o)
		refused(t, prefix, cookie, o)
	}
	if _, err := f.office(Client{Name: "shop", Token: "token of shop"}).Check(t.Context(), cookie); err != nil {
		t.Errorf("a wider one: %v", err)
	}
}

func TestForgedLinks(t *testing.T) {
	f := newFleet()
	a, b := f.office(three...), f.office(three...)
	l := f.link(t, LinkScope{Prefix: "app1:a"}, time.Hour)
	for i := range l.Token {
		changed := []byte(l.Token)
		changed[i]++
		closed(t, "one character changed", string(changed), a, b)
	}
	cookie, s := f.enter(t, l.Token)
	for what, token := range map[string]string{"empty": "", "its id": l.ID, "its cookie": cookie, "its csrf token": s.CSRF(), "a dot": "."} {
		closed(t, what, token, a, b)
	}
}

// Links, and the cookies they became, end by themselves, when they are revoked,
// and with the token of who made them.
func TestLinksEndEverywhere(t *testing.T) {
	f := newFleet()
	a, b := f.office(three...), f.office(three...)
	l, other := f.link(t, LinkScope{Prefix: "app1:a"}, time.Hour), f.link(t, LinkScope{Prefix: "app1:a"}, time.Hour)
	cookie, _ := f.enter(t, l.Token)
	for _, by := range []Caller{{Name: "two", Prefix: "app2"}, {Name: "n", Prefix: "app1:a:b"}} {
		if _, err := a.RevokeLink(t.Context(), by, l.ID); !errors.Is(err, ErrBadLink) {
			t.Errorf("%+v: %v", by, err)
		}
	}
	for _, id := range []string{"", "x", strings.Repeat("A", 16), l.ID + "A", "../" + l.ID} {
		if _, err := a.RevokeLink(t.Context(), Caller{}, id); !errors.Is(err, ErrBadLink) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := b.Check(t.Context(), cookie); err != nil {
		t.Fatalf("ended already: %v", err)
	}
	if prefix, err := a.RevokeLink(t.Context(), shop, l.ID); err != nil || prefix != "app1:a" {
		t.Fatalf("%q, %v", prefix, err)
	}
	closed(t, "revoked", l.Token, a, b)
	refused(t, "of a link that was revoked", cookie, a, b)
	if _, err := a.RevokeLink(t.Context(), shop, l.ID); !errors.Is(err, ErrBadLink) {
		t.Errorf("%v", err)
	}

	cookie, s := f.enter(t, other.Token)
	changed := f.office(Client{Name: "shop", Token: "a new token of shop", Prefix: "app1"})
	closed(t, "after the token was changed", other.Token, changed, f.office(three[0]))
	refused(t, "after the token was changed", cookie, changed, f.office(three[0]))
	// Who signs out ends the own session; the link stays good.
	if err := a.End(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	refused(t, "signed out", cookie, a, b)
	cookie, _ = f.enter(t, other.Token)
	f.clock = f.clock.Add(time.Hour)
	closed(t, "after its time", other.Token, a, b)
	refused(t, "after its link's time", cookie, a, b)
}

// Opening a link and signing out again leaves nothing behind, however often; and a link
// has at most MaxSessions that have not ended.
func TestLinkHasAtMostSoManySessions(t *testing.T) {
	f := newFleet()
	l := f.link(t, LinkScope{Prefix: "app1:a"}, time.Hour)
	o := f.office(three...)
	for range 3 * MaxSessions {
		_, s := f.enter(t, l.Token)
		if err := o.End(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.live) != 0 {
		t.Errorf("%d sessions are kept", len(f.live))
	}
	var last *Session
	for range MaxSessions {
		_, last = f.enter(t, l.Token)
	}
	var full *SessionsFull
	if cookie, s, err := o.Enter(t.Context(), l.Token); !errors.As(err, &full) || !strings.HasSuffix(err.Error(), "in 60 s") ||
		cookie != "" || s != nil {
		t.Errorf("one session more: %+v, %v", s, err)
	}
	if _, s := f.enter(t, f.link(t, LinkScope{Prefix: "app1:a"}, time.Hour).Token); s == nil {
		t.Error("another link cannot be opened")
	}
	if err := o.End(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	f.enter(t, l.Token)
	f.clock = f.clock.Add(2 * time.Hour)
	f.signIn(t, "token of shop")
}
