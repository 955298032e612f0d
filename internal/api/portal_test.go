package api_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
	"notifier/internal/wire"
)

// opened is what the pages see of a link.
func (b *bench) opened(link string, clients []auth.Client) (*auth.Session, error) {
	b.t.Helper()
	u, err := url.Parse(link)
	if err != nil || u.Host != "localhost:8080" || !strings.HasPrefix(u.Path, auth.LinkPath) || u.RawQuery != "" {
		b.t.Fatalf("%q, %v", link, err)
	}
	office := auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(make([]byte, wire.KeySize)),
		Clients:  auth.NewClients(clients),
		Register: b.engine})
	_, s, err := office.Enter(b.t.Context(), strings.TrimPrefix(u.Path, auth.LinkPath))
	return s, err
}

func TestPortalLinks(t *testing.T) {
	t.Parallel()
	var clients []auth.Client
	b := newBench(t, withClients, func(o *api.Options) {
		o.Keys = wire.FixedKey(make([]byte, wire.KeySize))
		clients = o.Clients
	})
	all, one, two := b.as("token-of-all"), b.as("token-of-one"), b.as("token-of-two")
	a := one.do("POST", "/v1/portal-links", `{"prefix":"app1:orders","host":"Shop.Example.","audience":"m17","resend":true,"label":"Shop Blue","ttl":"2h"}`).is(201).
		says(`"host":"shop.example"`, `"audience":"m17"`, `"prefix":"app1:orders"`).json()
	if a["warning"] != nil {
		t.Errorf("%v", a)
	}
	link, id := a["url"].(string), a["id"].(string)
	s, err := b.opened(link, clients)
	if err != nil || s.Caller != (auth.Caller{Name: "one", Prefix: "app1:orders", Role: auth.Read}) || s.Host != "shop.example" ||
		s.Audience != "m17" || s.Label != "Shop Blue" || !s.Resend {
		t.Fatalf("%+v, %v", s, err)
	}
	if left := time.Until(s.Expires); left < 119*time.Minute || left > 2*time.Hour {
		t.Errorf("it ends in %s", left)
	}
	one.do("POST", "https://localhost:8080/v1/portal-links", `{"prefix":"app1"}`).is(201).says(`"url":"https://localhost:8080/ui/portal/`,
		"it shows all notices under app1")
	for _, prefix := range []string{"app", "app2", "app12", "app2:a"} {
		one.do("POST", "/v1/portal-links", `{"prefix":"`+prefix+`"}`).is(403).says("under app1")
	}
	all.do("POST", "/v1/portal-links", `{"prefix":"app2:a","audience":"x","ttl":60}`).is(201)
	all.do("POST", "/v1/portal-links", `{"prefix":"app2:a","host":"shop.example","label":"Laden Größe 5","resend":true}`).is(201).
		says(`"label":"Laden Größe 5"`, `"resend":true`)
	one.do("POST", "/v1/portal-links", `{"prefix":"app1","audience":"m17","resend":true}`).is(422).says("body.resend", "needs host")
	for _, label := range []string{" a", `a\nb`, `a\u202eb`, strings.Repeat("a", 101)} {
		one.do("POST", "/v1/portal-links", `{"prefix":"app1","label":"`+label+`"}`).is(422).says("body.label")
	}
	for _, body := range []string{`{}`, `{"prefix":""}`, `{"prefix":"a:b:c:d"}`, `{"prefix":"app1:"}`, `{"prefix":7}`,
		`{"prefix":"app1","host":"https://shop.example"}`,
		`{"prefix":"app1","host":"shop.example:443"}`, `{"prefix":"app1","audience":"a b"}`, `{"prefix":"app1","ttl":"59s"}`,
		`{"prefix":"app1","ttl":"721h"}`,
		`{"prefix":"app1","ttl":"soon"}`, `{"prefix":"app1","notice":"x"}`} {
		one.do("POST", "/v1/portal-links", body).is(422)
	}
	// Who cannot see the prefix cannot tell whether there is such a link.
	two.do("DELETE", "/v1/portal-links/"+id, "").is(404)
	two.do("DELETE", "/v1/portal-links/AAAAAAAAAAAAAAAA", "").is(404)
	one.do("DELETE", "/v1/portal-links/..%2F..%2Fkey", "").is(404)
	if _, err := b.opened(link, clients); err != nil {
		t.Errorf("%v", err)
	}
	all.do("DELETE", "/v1/portal-links/"+id, "").is(200).says(`"revoked":true`)
	if s, err := b.opened(link, clients); err == nil {
		t.Errorf("opened after it was revoked: %+v", s)
	}
	one.do("DELETE", "/v1/portal-links/"+id, "").is(404)
	got := told(all.entries("prefix=app1:orders"))
	for _, want := range []string{"one api 192.0.2.1 portal-link app1:orders done link " + id +
		", of host shop.example, of audience m17, with resend, until 20",
		"all api 192.0.2.1 portal-revoke app1:orders done link " + id} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nis not in\n%s", want, got)
		}
	}
	if strings.Contains(got, strings.TrimPrefix(link, "http://localhost:8080/ui/portal/")) {
		t.Error("the link itself is in the audit")
	}
}

// fillLinks gives a client its share of links.
func fillLinks(e *enginetest.Engine, client string) {
	w, later := e.Store().Wire(), float64(time.Now().Add(time.Hour).UnixMilli())
	var list []redis.Z
	for i := range auth.MaxLinks {
		list = append(list, redis.Z{Score: later, Member: i})
	}
	if err := w.Redis.ZAdd(context.Background(), w.Space.ClientLinks(client), list...).Err(); err != nil {
		panic(err)
	}
}

func TestLinkBeyondTheShareIsAConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, func(o *api.Options) { o.Keys = wire.FixedKey(make([]byte, wire.KeySize)) })
	fillLinks(b.engine, "one")
	b.as("token-of-one").do("POST", "/v1/portal-links", `{"prefix":"app1"}`).is(409).says("this client has 100000 links",
		"DELETE /v1/portal-links/{id}")
	b.as("token-of-two").do("POST", "/v1/portal-links", `{"prefix":"app2"}`).is(201)
}
