package api_test

import (
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/seal"
)

func sealedBench(t *testing.T, scope seal.Scope) *bench {
	t.Helper()
	return newBench(t, func(o *api.Options) {
		o.Clients = append([]auth.Client{{Name: "one", Token: "token-of-one", Prefix: "app1", Role: auth.Admin},
			{Name: "type", Token: "token-of-type", Prefix: "app1:orders:paid", Role: auth.Admin}}, rolled...)
		o.Routes.Prefix("app1:orders").Seal = scope
	})
}

const sealedCall = `{"key":"app1:orders:paid:KEY","delay":"1h","url":"https://shop.example/","audience":"m17","body":{"card":1}}`

func scheduleSealed(b *bench, id string) answer {
	return b.as("token-of-producer").do("POST", "/v1/notices", strings.Replace(sealedCall, "KEY", id, 1))
}

func TestForgottenAudience(t *testing.T) {
	t.Parallel()
	b := sealedBench(t, seal.PerAudience)
	scheduleSealed(b, "1").is(201)
	for _, token := range []string{"token-of-reader", "token-of-producer", "token-of-operator", "token-of-one"} {
		b.as(token).do("DELETE", "/v1/subjects/audience:m17", "").is(403)
		b.as(token).do("POST", "/v1/subjects/audience:m17/lift", "").is(403)
	}
	scheduleSealed(b, "2").is(201)

	admin := b.as("token-of-admin")
	admin.do("DELETE", "/v1/subjects/audience:m17", "").is(200).says(`"subject":"audience:m17"`, `"keys":1`, `"forgotten_at":"2`, `"job":"job_`)
	scheduleSealed(b, "3").is(410).says("forgotten on 2", "notifier forget --lift", `"title":"Gone"`)
	b.as("token-of-producer").do("POST", "/v1/notices/batch", "["+strings.Replace(sealedCall, "KEY", "3", 1)+`,{"key":"app1:jobs:t:1"}]`).
		is(207).says(`"status":410`, `"status":201`)
	for _, target := range []string{"/v1/notices/app1:orders:paid:1", "/v1/notices?prefix=app1:orders", "/v1/search?q=app1:orders:paid:1"} {
		for _, token := range []string{"token-of-admin", "token-of-operator", "token-of-producer", "token-of-reader"} {
			b.as(token).do("GET", target, "").is(200).says(`"sealed":true`, `"forgotten_at":"2`)
		}
	}
	admin.do("GET", "/v1/jobs", "").is(200).says(`"subject":"audience:m17"`)

	admin.do("POST", "/v1/subjects/audience:m17/lift", "").is(200).says(`"changed":true`)
	admin.do("POST", "/v1/subjects/audience:m17/lift", "").is(200).says(`"changed":false`)
	scheduleSealed(b, "3").is(201)
	admin.do("GET", "/v1/notices/app1:orders:paid:1", "").is(200).says(`"forgotten_at":"2`)
	admin.do("GET", "/v1/audit", "").is(200).says(`"action":"forget"`, `"action":"forget-lift"`, "audience:m17: 1 data key, job_")
}

func TestClientWithAPrefixForgetsItsIDsOnly(t *testing.T) {
	t.Parallel()
	b := sealedBench(t, seal.PerID)
	scheduleSealed(b, "1").is(201)
	before := b.engine.Changes()
	b.as("token-of-one").do("DELETE", "/v1/subjects/id:app2:orders:1", "").is(403).says("only change those under app1")
	b.as("token-of-type").do("DELETE", "/v1/subjects/id:app1:orders:1", "").is(403).says("concerns all keys under app1:orders")
	b.as("token-of-type").do("POST", "/v1/subjects/id:app1:orders:1/lift", "").is(403)
	if n := b.engine.Changes(); n != before {
		t.Errorf("%d changes by refused calls", n-before)
	}
	b.as("token-of-one").do("DELETE", "/v1/subjects/id:app1:orders:1", "").is(200).says(`"keys":1`)
	scheduleSealed(b, "1~2").is(410)
	scheduleSealed(b, "2").is(201)
}

func TestSubjectsAreChecked(t *testing.T) {
	t.Parallel()
	b := sealedBench(t, seal.PerID).as("token-of-admin")
	for subject, want := range map[string]string{"route:app1:orders": "want audience:", "m17": "want audience:", "audience:": "want audience:",
		"audience:a%20b": "audience", "id:app1:orders": "want audience:", "id:app1:orders:paid:1": "want audience:",
		"id:app1:orders:1~2": "id:app1:orders:1",
		"id:app1::1":         "want audience:"} {
		b.do("DELETE", "/v1/subjects/"+subject, "").is(422).says("path.subject", want)
		b.do("POST", "/v1/subjects/"+subject+"/lift", "").is(422).says("path.subject", want)
	}
}
