package api_test

import (
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/notice"
)

func TestReaddressChangesURLAndHeaders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const key, path = "app1:orders:t:1", "/v1/notices/app1:orders:t:1"
	const asked = `{"key":"app1:orders:t:1","delay":"1h","url":"https://old.example/a?q=secret","headers":{"x-a":"1","Authorization":"Bearer x"},"body":1}`
	id := b.do("POST", "/v1/notices", asked).is(201).id()

	moved := b.do("PATCH", path, `{"url":"https://new.example/b"}`).is(200).says(id, `"url":"https://new.example/b"`,
		`"scheduled_url":"https://old.example/a"`, `"x-a":"1"`, `"changed":true`, `"before":"scheduled"`)
	if strings.Contains(moved.raw, "secret") || strings.Contains(moved.raw, "uthorization") {
		t.Errorf("shows the query of the old address, or keeps its credentials: %s", moved.raw)
	}
	b.do("POST", "/v1/notices", asked).is(200).says(id, `"created":false`, `"url":"https://new.example/b"`)
	b.do("POST", "/v1/notices", strings.Replace(asked, "old.example", "new.example", 1)).is(409).says("url")
	b.do("POST", "/v1/notices", strings.Replace(asked, `"1"`, `"2"`, 1)).is(409).says("headers")

	b.do("PATCH", path, `{"headers":{"X-B":"2","Cookie":"c"},"delay":"2h"}`).is(200).says(`"X-B":"2"`, "Cookie")
	f, err := b.engine.Find(t.Context(), key)
	if err != nil || len(f.Headers) != 2 || f.URL != "https://new.example/b" {
		t.Errorf("%+v, %v", f.Notice, err)
	}
	b.do("PATCH", path, `{"url":"https://other.example/","keep_headers":true}`).is(200)
	if f, _ = b.engine.Find(t.Context(), key); len(f.Headers) != 2 {
		t.Errorf("keep_headers: %+v", f.Headers)
	}
	b.do("GET", "/v1/audit", "").is(200).says(`"action":"readdress"`, "from https://old.example/a to https://new.example/b", "with new headers")

	b.do("PATCH", path, `{"url":"https://old.example/a?q=secret","headers":{"x-a":"1","Authorization":"Bearer x"}}`).is(200)
	if f, _ = b.engine.Find(t.Context(), key); f.Scheduled != nil {
		t.Errorf("as scheduled again: %+v", f.Scheduled)
	}
}

func TestReaddressRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, func(o *api.Options) {
		o.Clients = append(o.Clients, auth.Client{Name: "producer", Token: "token-of-producer", Role: auth.Produce})
	}).as("token-of-all")
	const path = "/v1/notices/app1:orders:t:1"
	b.do("POST", "/v1/notices", `{"key":"app1:orders:t:1","delay":"1h","url":"https://old.example/a"}`).is(201)
	b.do("POST", "/v1/notices", `{"key":"app1:fixed:t:1","delay":"1h"}`).is(201)
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1","delay":"1h"}`).is(201)
	b.do("POST", "/v1/notices", `{"key":"app2:a:b:1","delay":"1h"}`).is(201)
	before := b.engine.Changes()

	for _, key := range []string{"app1:fixed:t:1", "app1:jobs:t:1", "app2:a:b:1"} {
		b.do("PATCH", "/v1/notices/"+key, `{"url":"https://new.example/"}`).is(422).says("the target of route")
		b.do("PATCH", "/v1/notices/"+key, `{"headers":{"a":"b"}}`).is(422)
	}
	for body, says := range map[string]string{
		`{"url":"http://127.0.0.1/"}`:    "may not be called",
		`{"url":"ftp://new.example/"}`:   "http or https",
		`{"url":7}`:                      "url",
		`{"headers":{"webhook-id":"1"}}`: "reserved",
		`{"url":"https://new.example/","due":"2031-01-01T00:00:00Z","delay":1}`: "delay and due",
		`{"keep_headers":true}`: "want delay or due, url, or headers",
	} {
		b.do("PATCH", path, body).is(422).says(says)
	}
	b.as("token-of-producer").do("PATCH", path, `{"url":"https://new.example/"}`).is(403).says("operate")
	b.as("token-of-producer").do("PATCH", path, `{"headers":{}}`).is(403)
	b.as("token-of-two").do("PATCH", path, `{"url":"https://new.example/"}`).is(404)
	b.do("PATCH", "/v1/notices/app1:orders:t:absent", `{"url":"https://new.example/"}`).is(404)
	if audited := b.do("GET", "/v1/audit", "").is(200).raw; b.engine.Changes() != before || strings.Contains(audited, "readdress") {
		t.Errorf("a refused call has changed something, or is in the audit: %s", audited)
	}

	b.engine.Move("app1:orders:t:1", notice.Claimed, "")
	b.do("PATCH", path, `{"url":"https://new.example/"}`).is(409).says(`"state":"claimed"`)

	const second = "/v1/notices/app1:orders:t:2"
	b.do("POST", "/v1/notices", `{"key":"app1:orders:t:2","url":"https://old.example/a"}`).is(201)
	b.engine.Move("app1:orders:t:2", notice.Dead, notice.ReasonGone)
	b.do("PATCH", second, `{"url":"https://new.example/","delay":1}`).is(409).says(`"state":"dead"`)
	b.do("PATCH", second, `{"url":"https://new.example/"}`).is(200).says(`"before":"dead"`, `"state":"dead"`, "new.example")
	b.do("POST", second+"/redrive", "").is(200).says(`"url":"https://new.example/"`, `"scheduled_url":"https://old.example/a"`)
	b.engine.Move("app1:orders:t:2", notice.Delivered, "")
	b.do("PATCH", second, `{"url":"https://new.example/"}`).is(409).says(`"state":"delivered"`)
}
