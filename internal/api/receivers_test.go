package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"notifier/internal/fleet"
)

// A client with a prefix pauses and limits receivers of its own notices, and sees no pauses of others.
func TestReceiversOfAClient(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	one, all := b.as("token-of-one"), b.as("token-of-all")
	one.do("POST", "/v1/receivers/pause", `{"host":"Shop.Example.:8443"}`).is(200).
		says(`"host":"shop.example:8443"`, `"prefix":"app1"`, `"known":false`, `"paused":true`, `"changed":true`)
	one.do("POST", "/v1/receivers/pause", `{"audience":"m17","prefix":"app1:orders"}`).is(200).says(`"audience":"m17"`, `"prefix":"app1:orders"`)
	one.do("POST", "/v1/receivers/pause", `{"host":"shop.example","prefix":"app2"}`).is(403)
	all.do("POST", "/v1/receivers/pause", `{"host":"shop.example"}`).is(200)
	all.do("PUT", "/v1/receivers/limits", `{"host":"shop.example","rate":"300/m","concurrency":2}`).is(200).says(`"rate":"5/s"`, `"concurrency":2`)

	one.do("GET", "/v1/receivers", "").is(200).says(`"host":"shop.example:8443"`, `"audience":"m17"`).lacks(`"rate"`, `"host":"shop.example"`)
	all.do("GET", "/v1/receivers?host=shop.example", "").is(200).says(`"host":"shop.example"`, `"host":"shop.example:8443"`, `"rate":"5/s"`).
		lacks("m17")

	one.do("POST", "/v1/receivers/resume", `{"host":"shop.example:8443","over":"30m"}`).is(200).says(`"changed":true`, `"paused":false`)
	one.do("POST", "/v1/receivers/resume", `{"host":"shop.example:8443"}`).is(200).says(`"changed":false`)
	one.do("POST", "/v1/receivers/resume", `{"host":"shop.example"}`).is(200).says(`"changed":false`)
	all.do("PUT", "/v1/receivers/limits", `{"host":"shop.example"}`).is(200).lacks(`"rate"`)
	one.do("GET", "/v1/receivers", "").is(200).lacks("8443")

	both := `{"host":"a.example:443","audience":"m17","prefix":"app1"}`
	one.do("POST", "/v1/receivers/pause", both).is(200).says(`"host":"a.example:443","audience":"m17","prefix":"app1"`, `"paused":true`)
	one.do("GET", "/v1/receivers?contains=m17", "").is(200).says(`"host":"a.example:443","audience":"m17"`, `"paused":true`).lacks("paused_by")
	one.do("POST", "/v1/receivers/resume", `{"host":"a.example:443"}`).is(200).says(`"changed":false`)
	one.do("POST", "/v1/receivers/resume", both).is(200).says(`"changed":true`)

	for body, says := range map[string]string{
		`{}`: "want host, audience or both", `{"host":"a.example","audience":"a b"}`: "body.audience", `{"host":"a.example/x"}`: "body.host",
		`{"host":"a.example:0"}`: "port", `{"host":"a.example","until":"2020-01-01T00:00:00Z"}`: "not in the future",
		`{"audience":"a b"}`: "body.audience", `{"host":"a.example","over":"1h"}`: "needs until", `{"host":"a.example","prefix":"a:b:c:d"}`: "body.prefix",
		`{"host":"a.example","until":"2999-01-01T00:00:00Z"}`: "too far in the future", `{"host":"a.example","over":"169h"}`: "want at most 168h",
	} {
		all.do("POST", "/v1/receivers/pause", body).is(422).says(says)
	}
	all.do("PUT", "/v1/receivers/limits", `{"host":"a.example","rate":"fast","concurrency":-1}`).is(422).says("body.rate", "body.concurrency")

	all.do("GET", "/v1/audit", "").is(200).says(`"action":"pause-receiver"`, `"detail":"host/shop.example:8443/app1"`, `"action":"resume-receiver"`, "over 30m",
		`"action":"limit-receiver"`, "rate 5/s, concurrency 2")
}

// The list adds up the running calls of all instances, and shows the state of the breaker that most concerns an operator.
func TestReceiversAtWorkAreListed(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	own := fleet.Figures{Hosts: []fleet.HostFigures{
		{Prefix: "app1:orders", Host: "shop.example:443", InFlight: 2, Breaker: "open"},
		{Prefix: "app1:orders", Host: "blue.example:443", InFlight: 1},
		{Prefix: "app2", Host: "other.example:443", InFlight: 9},
	}}
	second := fleet.Figures{Hosts: []fleet.HostFigures{
		{Prefix: "app1:orders", Host: "shop.example:443", InFlight: 3, Breaker: "half-open"},
		{Prefix: "app1:fixed", Host: "blue.example:443", Breaker: "half-open"},
	}}
	b.engine.Tell(own, fleet.Instance{ID: "second", Figures: second.Encode()})
	b.as("token-of-all").do("POST", "/v1/receivers/pause", `{"host":"shop.example","prefix":"app1"}`).is(200)

	type receiver struct {
		Host, Prefix string
		InFlight     int `json:"in_flight"`
		Breaker      string
		Paused       bool
	}
	paused := receiver{Host: "shop.example", Prefix: "app1", Paused: true}
	blue := receiver{Host: "blue.example:443", InFlight: 1, Breaker: "half-open"}
	other := receiver{Host: "other.example:443", InFlight: 9}
	shop := receiver{Host: "shop.example:443", InFlight: 5, Breaker: "open", Paused: true}
	for _, c := range []struct {
		token, query string
		want         []receiver
	}{
		{"token-of-one", "", []receiver{blue, shop, paused}},
		{"token-of-two", "", []receiver{other}},
		{"token-of-all", "", []receiver{blue, shop, paused, other}},
		{"token-of-all", "?host=shop.example", []receiver{shop, paused}},
		{"token-of-all", "?contains=SHOP.ex&state=failing", []receiver{shop}},
		{"token-of-all", "?route=fixed", []receiver{{Host: "blue.example:443", Breaker: "half-open"}, paused}},
	} {
		var got struct{ Items []receiver }
		b.as(c.token).do("GET", "/v1/receivers"+c.query, "").is(200).into(&got)
		if !slices.Equal(got.Items, c.want) {
			t.Errorf("%s%s: %+v, want %+v", c.token, c.query, got.Items, c.want)
		}
	}
}

// A page ends after limit receivers. Its cursor is valid for the same query and client only.
func TestReceiversAreListedByPages(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	var figures fleet.Figures
	for i := range 25 {
		figures.Hosts = append(figures.Hosts, fleet.HostFigures{Prefix: "app1:orders", Host: fmt.Sprintf("h%02d.example:443", i), Calls: 1})
	}
	b.engine.Tell(figures)
	one := b.as("token-of-one")
	var seen []string
	for query := "?limit=10"; query != ""; {
		var got struct {
			Items  []struct{ Host string }
			Total  int
			Cursor string
		}
		one.do("GET", "/v1/receivers"+query, "").is(200).into(&got)
		for _, x := range got.Items {
			seen = append(seen, x.Host)
		}
		if query = ""; got.Cursor != "" {
			query = "?limit=10&cursor=" + got.Cursor
			b.as("token-of-all").do("GET", "/v1/receivers"+query, "").is(400).says("query.cursor")
			one.do("GET", "/v1/receivers?contains=h&cursor="+got.Cursor, "").is(400).says("query.cursor")
		}
		if got.Total != 25 {
			t.Errorf("total %d", got.Total)
		}
	}
	if len(seen) != 25 || !slices.IsSorted(seen) {
		t.Errorf("%q", seen)
	}
	one.do("GET", "/v1/receivers?state=broken&reason=x&limit=0", "").is(422).says("query.state", "query.reason", "query.limit")
	one.do("GET", "/v1/receivers?route=jobs2", "").is(404)
	b.as("token-of-two").do("GET", "/v1/receivers?route=orders", "").is(404)
	one.do("POST", "/v1/receivers/pause", `{"host":"held.example","prefix":"app1:orders"}`).is(200)
	one.do("GET", "/v1/receivers?route=orders&state=paused", "").is(200).says(`"host":"held.example"`)
}

func (a answer) lacks(texts ...string) {
	a.t.Helper()
	for _, text := range texts {
		if strings.Contains(a.raw, text) {
			a.t.Errorf("the answer contains %q: %.300s", text, a.raw)
		}
	}
}
