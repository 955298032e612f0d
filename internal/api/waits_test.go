package api_test

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// sequence is an API with an ordered route. The notice waits is parked behind the notice first.
func sequence(t *testing.T, first, waits string) *bench {
	t.Helper()
	table, err := route.NewTable([]*route.Route{{Name: "shop", Prefix: "app1:shop", Target: route.Target{Kind: route.KindLog},
		Ladder: notice.DefaultLadder, Timeout: 10 * time.Second, Concurrency: 64, Ack: route.Ack{Kind: route.Ack2xx}, Order: route.OrderSkip}})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, engine: enginetest.New(t, table)}
	b.handler = api.New(api.Options{Engine: b.engine, Routes: table, Version: "test", Loopback: true, Clients: []auth.Client{
		{Name: "all", Token: "token-of-all", Role: auth.Admin},
		{Name: "paid", Token: "token-of-paid", Prefix: "app1:shop:paid", Role: auth.Admin}}})
	b.token = "token-of-all"
	if err := b.engine.Store().Layout.AddOrdered(t.Context(), []string{"app1:shop"}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{first, waits} {
		b.do("POST", "/v1/notices", `{"key":"`+key+`"}`).is(201)
	}
	got, err := b.engine.Store().ClaimKeys(t.Context(), keys.Partition{Prefix: "app1:shop"}, store.Lease{Token: "park", For: time.Minute},
		[]string{waits})
	if err != nil || got.Parked != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	return b
}

// A parked notice names the notice that it waits for, to clients whose prefix covers that one, and no time of
// its next attempt.
func TestParkedNoticeNamesTheOneItWaitsFor(t *testing.T) {
	t.Parallel()
	const first, waits = "app1:shop:created:O1", "app1:shop:paid:O1"
	b := sequence(t, first, waits)
	for _, target := range []string{"/v1/notices/" + waits, "/v1/notices?prefix=app1:shop:paid"} {
		a := b.do("GET", target, "").is(200).says(`"state":"scheduled"`, `"waits":true,"waits_for":"`+first+`"`)
		if strings.Contains(a.raw, "next_attempt_at") {
			t.Errorf("the next attempt has a time: %s", a.raw)
		}
		if a := b.as("token-of-paid").do("GET", target, "").is(200).says(`"waits":true`); strings.Contains(a.raw, "created:") {
			t.Errorf("a client sees a key outside of its prefix: %s", a.raw)
		}
	}
	if a := b.do("GET", "/v1/notices/"+first, "").is(200).says(`"next_attempt_at"`); strings.Contains(a.raw, "waits") {
		t.Errorf("the head waits: %s", a.raw)
	}

	b.engine.Move(first, notice.Delivered, "")
	if a := b.do("GET", "/v1/notices/"+waits, "").is(200).says(`"next_attempt_at"`); strings.Contains(a.raw, "waits") {
		t.Errorf("the new head waits: %s", a.raw)
	}
}

// The answers to a repeated call and to fire show a parked notice as waiting, and not the end of its park as the
// time of its next attempt.
func TestAnswersToCallsShowParkedNotices(t *testing.T) {
	t.Parallel()
	const first, waits = "app1:shop:created:O1", "app1:shop:paid:O1"
	b := sequence(t, first, waits)
	for _, call := range []struct{ target, body string }{
		{"/v1/notices", `{"key":"` + waits + `","on_duplicate":"keep"}`},
		{"/v1/notices/batch", `[{"key":"` + waits + `","on_duplicate":"keep"}]`},
		{"/v1/notices/" + waits + "/fire", ""},
	} {
		a := b.as("token-of-all").do("POST", call.target, call.body).is(200).says(`"waits":true,"waits_for":"` + first + `"`)
		if strings.Contains(a.raw, "next_attempt_at") {
			t.Errorf("%s: the next attempt has a time: %s", call.target, a.raw)
		}
		if a := b.as("token-of-paid").do("POST", call.target, call.body).is(200).says(`"waits":true`); strings.Contains(a.raw, "created:") {
			t.Errorf("%s: a client sees a key outside of its prefix: %s", call.target, a.raw)
		}
	}
	for _, target := range []string{"/v1/notices", "/v1/notices/batch"} {
		if a := b.as("token-of-all").do("POST", target, `{"key":"`+first+`","on_duplicate":"keep"}`).is(200); strings.Contains(a.raw, "waits") {
			t.Errorf("%s: the head waits: %s", target, a.raw)
		}
	}
}

// A listing with a parked notice can be restored.
func TestRestoreTakesAParkedNotice(t *testing.T) {
	t.Parallel()
	const first, waits = "app1:shop:created:O1", "app1:shop:paid:O1"
	b := sequence(t, first, waits)
	line := b.do("GET", "/v1/notices/"+waits, "").is(200).says(`"waits_for"`).raw
	b.engine.Drop(waits)
	b.do("POST", "/v1/notices/restore", line, "Content-Type", "application/x-ndjson").is(201)
	b.do("GET", "/v1/notices/"+waits, "").is(200).says(`"state":"scheduled"`)
}

// With waiting=true, a listing has parked notices only.
func TestListOfWaitingNotices(t *testing.T) {
	t.Parallel()
	const first, waits = "app1:shop:created:O1", "app1:shop:paid:O1"
	b := sequence(t, first, waits)
	for _, query := range []string{"waiting=true", "waiting=true&state=scheduled", "waiting=true&prefix=app1:shop:paid"} {
		if a := b.do("GET", "/v1/notices?"+query, "").is(200).says(`"waits_for":"` + first + `"`); strings.Contains(a.raw, `"key":"`+first) {
			t.Errorf("%s lists a notice that does not wait: %s", query, a.raw)
		}
	}
	if a := b.do("GET", "/v1/notices?waiting=false", "").is(200); strings.Count(a.raw, `"key"`) != 2 {
		t.Errorf("not all are listed: %s", a.raw)
	}
	b.do("GET", "/v1/notices?waiting=true&prefix=app1:shop:created", "").is(200).says(`"items":[]`)
	b.do("GET", "/v1/notices?waiting=true&state=dead", "").is(422).says("query.waiting", "leave state out")
	b.do("GET", "/v1/notices?waiting=yes", "").is(422).says("query.waiting", "want true or false")
}
