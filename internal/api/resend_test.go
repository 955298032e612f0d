package api_test

import (
	"fmt"
	"strings"
	"testing"

	"notifier/internal/notice"
)

func TestResendNeedsIDAndEnding(t *testing.T) {
	b := newBench(t)
	const path = "/v1/notices/app1:orders:t:1"
	b.do("POST", "/v1/notices", `{"key":"app1:orders:t:1","url":"https://shop.example/x","body":1}`).is(201).says(`"ending":0`)
	b.engine.Move("app1:orders:t:1", notice.Delivered, "")
	id := b.do("GET", path, "").is(200).says(`"state":"delivered"`, `"ending":1`).id()

	for body, says := range map[string]string{
		`{}`:                                      "body.id",
		`{"id":"msg_1","ending":1}`:               "body.id",
		fmt.Sprintf(`{"id":%q}`, id):              "body.ending",
		fmt.Sprintf(`{"id":%q,"ending":0}`, id):   "body.ending",
		fmt.Sprintf(`{"id":%q,"ending":"1"}`, id): "body.ending",
	} {
		b.do("POST", path+"/resend", body).is(422).says(says)
	}
	b.do("POST", path+"/resend", `{"id":"msg_0123456789abcdef0123456789","ending":1}`).is(409).says("another notice", id)
	b.do("POST", path+"/resend", fmt.Sprintf(`{"id":%q,"ending":2}`, id)).is(409).says(`"state":"delivered"`, "its current ending is 1, not 2")

	once := fmt.Sprintf(`{"id":%q,"ending":1}`, id)
	b.do("POST", path+"/resend", once).is(200).says(`"changed":true`, `"before":"delivered"`, `"state":"scheduled"`, `"resend":1`, `"resent_after":1`, `"ending":1`, id)
	b.do("POST", path+"/resend", once).is(200).says(`"changed":false`, `"before":"scheduled"`)
	b.do("POST", path+"/redrive", "").is(409).says("it waits for its next attempt")
	b.do("DELETE", path, "").is(200)
	b.do("POST", "/v1/notices/app1:orders:t:2/resend", once).is(404).says("never scheduled, was erased, or")
}

func TestResendNamesTheCallToUseInstead(t *testing.T) {
	b := newBench(t)
	for key, want := range map[string]string{"waits": "fire it", "cancelled": "on_duplicate replace"} {
		key = "app1:orders:t:" + key
		id := b.do("POST", "/v1/notices", fmt.Sprintf(`{"key":%q,"delay":"1h","url":"https://shop.example/x"}`, key)).is(201).id()
		ending := 1
		if want != "fire it" {
			b.do("DELETE", "/v1/notices/"+key, "").is(200)
		}
		b.do("POST", "/v1/notices/"+key+"/resend", fmt.Sprintf(`{"id":%q,"ending":%d}`, id, ending)).is(409).says(want)
	}
	b.engine.Move("app1:orders:t:waits", notice.Delivered, "")
	b.do("POST", "/v1/notices/app1:orders:t:waits/redrive", "").is(409).says("resend it")
}

func TestResendIsAudited(t *testing.T) {
	b := newBench(t, withClients).as("token-of-one")
	id := b.do("POST", "/v1/notices", `{"key":"app1:orders:t:1","url":"https://shop.example/x"}`).is(201).id()
	b.engine.Move("app1:orders:t:1", notice.Delivered, "")
	once := fmt.Sprintf(`{"id":%q,"ending":1}`, id)
	b.as("token-of-two").do("POST", "/v1/notices/app1:orders:t:1/resend", once).is(404)
	for range 2 {
		b.do("POST", "/v1/notices/app1:orders:t:1/resend", once).is(200)
	}
	audit := b.do("GET", "/v1/audit", "").is(200).says(`"action":"resend"`, `"key":"app1:orders:t:1"`, `"detail":"it was delivered"`)
	if n := strings.Count(audit.raw, `"action"`); n != 1 {
		t.Errorf("%d entries, want 1: %s", n, audit.raw)
	}
}
