package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/wire"
)

// desk is what Redis knows, in memory; all offices of a test share one.
type desk struct {
	now func() time.Time

	mu    sync.Mutex
	live  map[string]time.Time // until when, by client, link and id
	links map[string]string
	until map[string]time.Time
	fail  error
}

func liveKey(client, link, id string) string { return client + "\n" + link + "\n" + id }

func (d *desk) BeginSession(_ context.Context, client, link, id string, during time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for k, end := range d.live {
		if strings.HasPrefix(k, liveKey(client, link, "")) && d.now().Before(end) {
			n++
		}
	}
	if link != "" && n >= MaxSessions {
		return &SessionsFull{time.Minute}
	}
	d.live[liveKey(client, link, id)] = d.now().Add(during)
	return d.fail
}

func (d *desk) EndSession(_ context.Context, client, link, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.live, liveKey(client, link, id))
	return d.fail
}

func (d *desk) SessionStands(ctx context.Context, client, link, id string) (bool, error) {
	text, err := d.Link(ctx, link)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now().Before(d.live[liveKey(client, link, id)]) && (link == "" || text != ""), err
}

func (d *desk) KeepLink(_ context.Context, _, id, text string, during time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links[id], d.until[id] = text, d.now().Add(during)
	return d.fail
}

func (d *desk) Link(_ context.Context, id string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.now().Before(d.until[id]) {
		delete(d.links, id)
	}
	return d.links[id], d.fail
}

func (d *desk) DropLink(_ context.Context, _, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.links, id)
	return d.fail
}

func (d *desk) CountResend(context.Context, string) (time.Duration, error) { return 0, d.fail }

// fleet is several instances with one Redis.
type fleet struct {
	*desk
	clock time.Time
	key   []byte
}

func newFleet() *fleet {
	f := &fleet{clock: time.Unix(1_800_000_000, 0), key: []byte("32 bytes of a key of this service"[:wire.KeySize])}
	f.desk = &desk{now: func() time.Time { return f.clock }, live: map[string]time.Time{}, links: map[string]string{},
		until: map[string]time.Time{}}
	return f
}

var three = []Client{{Name: "ops", Token: "token of ops", Role: Admin}, {Name: "shop", Token: "token of shop", Prefix: "app1",
	Role: Operate},
	{Name: "desk", Token: "token of desk", Prefix: "app1", Role: Read}}

func (f *fleet) office(clients ...Client) *Sessions {
	return NewSessions(SessionOptions{Keys: wire.NewKeyRing(func(context.Context) ([]byte, error) { return f.key, nil }),
		Clients:  NewClients(clients),
		Register: f.desk, Now: f.desk.now})
}

func (f *fleet) signIn(t *testing.T, token string) (string, *Session) {
	t.Helper()
	cookie, s, err := f.office(three...).SignIn(t.Context(), token, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	return cookie, s
}

// refused checks that a cookie is none to several instances.
func refused(t *testing.T, what, cookie string, offices ...*Sessions) {
	t.Helper()
	for i, o := range offices {
		if s, err := o.Check(t.Context(), cookie); !errors.Is(err, ErrNoSession) || s != nil {
			t.Errorf("%s: instance %d takes it: %+v, %v", what, i, s, err)
		}
	}
}

func TestASessionIsGoodAtEveryInstance(t *testing.T) {
	f := newFleet()
	cookie, made := f.signIn(t, " token of shop\n")
	for range 3 {
		s, err := f.office(three...).Check(t.Context(), cookie)
		if err != nil || s.Caller != (Caller{Name: "shop", Prefix: "app1", Role: Operate}) || s.Expires != f.clock.Add(Life) ||
			s.CSRF() != made.CSRF() || !s.Confirms(made.CSRF()) || s.Anonymous() {
			t.Fatalf("%+v, %v", s, err)
		}
		for _, wrong := range []string{"", "x", made.CSRF() + "x", made.ID} {
			if s.Confirms(wrong) {
				t.Errorf("%q confirms", wrong)
			}
		}
	}
	other, second := f.signIn(t, "token of shop")
	if other == cookie || second.ID == made.ID || made.Confirms(second.CSRF()) {
		t.Error("two sessions are one")
	}
	if _, s := f.signIn(t, "token of desk"); s.Role != Read {
		t.Errorf("%+v", s)
	}
	if strings.Contains(cookie, "token") || len(cookie) > 300 {
		t.Errorf("%s", cookie)
	}
	// The client's rights are those of the current configuration.
	narrower := f.office(Client{Name: "shop", Token: "token of shop", Prefix: "app1:a", Role: Read})
	if s, err := narrower.Check(t.Context(), cookie); err != nil || s.Prefix != "app1:a" || s.Role != Read {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestWrongTokensSignNobodyIn(t *testing.T) {
	o := newFleet().office(three...)
	for _, token := range []string{"", "token", "token of", "Token of ops", "token of opsx"} {
		if cookie, s, err := o.SignIn(t.Context(), token, token); !errors.Is(err, ErrToken) || cookie != "" || s != nil {
			t.Errorf("%q: %q, %+v, %v", token, cookie, s, err)
		}
	}
	if _, _, err := o.Visit(t.Context()); !errors.Is(err, ErrNoSession) {
		t.Errorf("a visit where there are clients: %v", err)
	}
}

// Cookies that were forged, changed, or made for something else.
func TestForgedCookies(t *testing.T) {
	f := newFleet()
	cookie, made := f.signIn(t, "token of shop")
	a, b := f.office(three...), f.office(three...)
	text, sum, _ := strings.Cut(cookie, ".")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	edited := func(edit func(m map[string]any)) string {
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		edit(m)
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(out) + "." + sum
	}
	for i := range cookie {
		changed := []byte(cookie)
		if changed[i]++; string(changed) != cookie {
			refused(t, "one character changed", string(changed), a, b)
		}
	}
	link, err := a.MakeLink(t.Context(), made.Caller, LinkScope{Prefix: "app1:a"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for what, forged := range map[string]string{
		"empty": "", "a dot": ".", "no sum": text, "an empty sum": text + ".", "another's sum": text + "." + made.CSRF(),
		"too long": cookie + strings.Repeat("A", maxText),
		"padded":   cookie + "=", "twice": cookie + "." + sum, "the token": "token of shop", "the id": made.ID, "the csrf token": made.CSRF(),
		"of another client": edited(func(m map[string]any) { m["c"] = "ops" }), "of nobody": edited(func(m map[string]any) { delete(m, "c") }),
		"of a client that is none": edited(func(m map[string]any) { m["c"] = "root" }),
		"longer":                   edited(func(m map[string]any) { m["x"] = 1e12 }),
		"another id":               edited(func(m map[string]any) { m["id"] = "another" }),
		"of a link":                edited(func(m map[string]any) { m["l"] = link.ID }),
		"the link itself":          link.Token, "not base64": "%%%." + sum, "not JSON": base64.RawURLEncoding.EncodeToString([]byte("{")) + "." +
			sum,
	} {
		refused(t, what, forged, a, b)
	}
	// Signed with another key of the service.
	f.key = []byte("another 32 bytes of key for this"[:wire.KeySize])
	refused(t, "of another service", cookie, a, b)
}

// Sessions end when they are ended, when their time is over, and with the token.
func TestSessionsEndEverywhere(t *testing.T) {
	f := newFleet()
	a, b := f.office(three...), f.office(three...)
	cookie, s := f.signIn(t, "token of shop")
	other, _ := f.signIn(t, "token of shop")
	if err := b.End(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	refused(t, "signed out", cookie, a, b)
	if _, err := a.Check(t.Context(), other); err != nil {
		t.Errorf("another session of the client ended too: %v", err)
	}
	// As long as the cookie would have been good it is refused.
	f.clock = f.clock.Add(Life - time.Second)
	refused(t, "signed out, later", cookie, a, b)
	changed := f.office(Client{Name: "shop", Token: "a new token of shop", Prefix: "app1", Role: Operate})
	renamed := f.office(Client{Name: "till", Token: "token of shop", Prefix: "app1", Role: Operate})
	refused(t, "after the token was changed", other, changed, renamed, f.office())
	if _, err := a.Check(t.Context(), other); err != nil {
		t.Errorf("%v", err)
	}
	f.clock = f.clock.Add(time.Second)
	refused(t, "after its time", other, a, b)
}

// Whom it is not known of whether he has signed out is not let in.
func TestWhatCannotBeCheckedLetsNobodyIn(t *testing.T) {
	f := newFleet()
	o := f.office(three...)
	cookie, s := f.signIn(t, "token of ops")
	scope := LinkScope{Prefix: "app1"}
	link, err := o.MakeLink(t.Context(), s.Caller, scope, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	f.fail = errors.New("redis is not available")
	if got, err := o.Check(t.Context(), cookie); !errors.Is(err, f.fail) || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if err := o.End(t.Context(), s); !errors.Is(err, f.fail) {
		t.Errorf("%v", err)
	}
	if _, err := o.MakeLink(t.Context(), s.Caller, scope, time.Hour); !errors.Is(err, f.fail) {
		t.Errorf("%v", err)
	}
	if cookie, got, err := o.Enter(t.Context(), link.Token); !errors.Is(err, f.fail) || cookie != "" || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
	f.fail, f.key = nil, nil
	_, err = o.MakeLink(t.Context(), s.Caller, scope, time.Hour)
	for what, err := range map[string]error{"make a link": err, "sign in": second(o.SignIn(t.Context(), "token of ops", "")),
		"enter": second(o.Enter(t.Context(), link.Token)), "check": first(o.Check(t.Context(), cookie))} {
		if !errors.Is(err, wire.ErrKeyUnreadable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func first(_ *Session, err error) error            { return err }
func second(_ string, _ *Session, err error) error { return err }

func TestWithoutClients(t *testing.T) {
	f := newFleet()
	o := f.office()
	cookie, made, err := o.Visit(t.Context())
	if err != nil || !made.Anonymous() || !o.Open() {
		t.Fatalf("%+v, %v", made, err)
	}
	f.fail = errors.New("asked Redis for nothing")
	s, err := o.Check(t.Context(), cookie)
	if err != nil || s.Caller != Local() || !s.Confirms(made.CSRF()) {
		t.Errorf("%+v, %v", s, err)
	}
	f.fail = nil
	refused(t, "an anonymous session where there are clients now", cookie, f.office(three...))
	link, err := o.MakeLink(t.Context(), Caller{}, LinkScope{Prefix: "app1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cookie, s, err = o.Enter(t.Context(), link.Token)
	if err != nil || s.Prefix != "app1" || s.Role != Read || s.Anonymous() {
		t.Errorf("%+v, %v", s, err)
	}
	refused(t, "an open service's link where there are clients now", cookie, f.office(three...))
}

// Wrong tokens from one address do not lock out others behind the same proxy.
func TestFailedSignInsDoNotLockOutOthers(t *testing.T) {
	o := newFleet().office(three...)
	try := func(token string) error {
		_, _, err := o.SignIn(t.Context(), token, "192.0.2.1")
		return err
	}
	for range 10 {
		if err := try("wrong"); !errors.Is(err, ErrToken) {
			t.Fatal(err)
		}
	}
	var tooMany *TooMany
	if err := try("wrong"); !errors.As(err, &tooMany) || tooMany.Seconds() != 6 || !strings.Contains(err.Error(), "6 s") {
		t.Errorf("%v", err)
	}
	if err := try("token of ops"); err != nil {
		t.Errorf("a correct token: %v", err)
	}
}
