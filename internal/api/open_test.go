package api_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

const card = "4111111111111111"

// openBench has a sealed route to a list, a consumer of it and one of another prefix.
func openBench(t *testing.T) *bench {
	t.Helper()
	return newBench(t, func(o *api.Options) {
		o.Clients = append([]auth.Client{{Name: "consumer", Token: "token-of-consumer", Prefix: "app1:jobs", Role: auth.Produce},
			{Name: "two", Token: "token-of-two", Prefix: "app2", Role: auth.Admin}}, rolled...)
		o.Routes.Prefix("app1:jobs").Seal = seal.PerAudience
	})
}

func openCall(key, sealed string) string { return fmt.Sprintf(`{"key":%q,"sealed":%q}`, key, sealed) }

func TestConsumerOpensTextsOfItsPrefixOnly(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	key := "app1:jobs:t:1"
	sealed := b.engine.SealText("m17", key, notice.Content{Body: []byte(`{"card":"` + card + `"}`),
		Headers: []notice.Header{{Name: "X-Card", Value: card}, {Name: "X-Token", Value: card}}})
	for _, role := range []string{"consumer", "producer", "operator", "admin"} {
		b.as("token-of-"+role).do("POST", "/v1/open", openCall(key, sealed)).is(200).says(`{"key":"` + key + `","content_type":"application/json",` +
			`"headers":{"X-Card":"` + card + `"},"headers_withheld":["X-Token"],"body":{"card":"` + card + `"}}`)
	}
	for role, want := range map[string]string{"reader": "has the role read, and this call needs produce", "two": "keys under app2:"} {
		got := b.as("token-of-"+role).do("POST", "/v1/open", openCall(key, sealed)).is(403).says(want)
		testkit.CheckSecrets(t, []string{card}, got.raw)
	}

	// A text in Redis that is not for consumers.
	key = "app1:orders:paid:1"
	sealed = b.engine.SealText("m17", key, notice.Content{URL: "https://u:" + card + "@shop.example/", Body: []byte("\xff" + card)})
	b.as("token-of-producer").do("POST", "/v1/open", openCall(key, sealed)).is(403).says("opens texts of lists and streams only")
	b.as("token-of-operator").do("POST", "/v1/open", openCall(key, sealed)).is(200).
		says(`"url":"https://u:xxxxx@shop.example/"`, `"body_base64":"`+base64.StdEncoding.EncodeToString([]byte("\xff"+card))+`"`)
}

func TestTextThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	const key = "app1:jobs:t:1"
	sealed := b.engine.SealText("m17", key, notice.Content{Body: []byte(card)})
	consumer := b.as("token-of-consumer")
	for _, x := range []struct{ key, sealed, want string }{
		{key, "", "body.sealed"}, {key, "s1a" + sealed[3:], "want the sealed text of an entry: s1c:…"}, {"x", sealed, "body.key"},
		{key, sealed[:len(sealed)-3] + "AAA", "it was changed, or is of another notice"}, {key + "0", sealed, "is of another notice"},
		{key, sealed[:4] + strings.Repeat("A", 16) + sealed[20:], "Redis has no key for this text"},
	} {
		got := consumer.do("POST", "/v1/open", openCall(x.key, x.sealed)).is(422).says(x.want)
		testkit.CheckSecrets(t, []string{card}, got.raw)
	}
	consumer.do("POST", "/v1/open?x=1", openCall(key, sealed)).is(422)
	consumer.do("POST", "/v1/open", `{"key":"`+key+`","sealed":"`+sealed+`","other":1}`).is(422).says("body.other")

	b.engine.Fail(&vault.MissingKeyError{Name: "2026-05"})
	consumer.do("POST", "/v1/open", openCall(key, sealed)).is(503).says("does not have the service key 2026-05 (NOTIFIER_SEAL_KEYS)")
	b.engine.Fail(nil)
	b.as("token-of-admin").do("DELETE", "/v1/subjects/audience:m17", "").is(200)
	got := consumer.do("POST", "/v1/open", openCall(key, sealed)).is(410).says("was forgotten on 2", `"title":"Gone"`)
	testkit.CheckSecrets(t, []string{card}, got.raw)
}

// The audit has what operators were shown, without the content, and nothing of consumers and producers.
func TestOpenedNoticesAreInTheAudit(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	schedule := func(id string) string {
		key := "app1:jobs:t:" + id
		call := `{"key":"` + key + `","delay":"1h","audience":"m17","body":{"card":"` + card + `"}}`
		got := b.as("token-of-operator").do("POST", "/v1/notices", call).is(201).says(`"sealed":true`)
		testkit.CheckSecrets(t, []string{card}, got.raw) // the operator has read nothing
		return key
	}
	entries := func() (list []string) {
		var got struct{ Items []map[string]any }
		b.as("token-of-admin").do("GET", "/v1/audit", "").is(200).into(&got)
		for _, x := range got.Items {
			testkit.CheckSecrets(t, []string{card}, fmt.Sprint(x))
			if x["action"] == "open" {
				list = append(list, fmt.Sprintf("%v %v %v %v %v %v", x["client"], x["via"], x["key"], x["prefix"], x["detail"], x["count"]))
			}
		}
		return list
	}
	one, two := schedule("1"), schedule("2")
	sealed := b.engine.SealText("m17", one, notice.Content{Body: []byte(card)})
	for range 3 {
		b.as("token-of-consumer").do("POST", "/v1/open", openCall(one, sealed)).is(200)
		b.as("token-of-reader").do("GET", "/v1/notices/"+one, "").is(200)
	}
	if list := entries(); len(list) > 0 {
		t.Errorf("%q", list)
	}
	for range 3 {
		b.as("token-of-operator").do("GET", "/v1/notices/"+one, "").is(200).says(card)
		b.as("token-of-operator").do("GET", "/v1/notices?prefix=app1", "").is(200).says(card)
		b.as("token-of-admin").do("POST", "/v1/open", openCall(one, sealed)).is(200)
	}
	b.as("token-of-operator").do("DELETE", "/v1/notices/"+two, "").is(200).says(card)
	want := []string{"operator api " + two + " <nil> <nil> 1", "admin api " + one + " <nil> <nil> 1", "operator api <nil> app1:jobs:t " +
		"in a listing 1", "operator api " + one + " <nil> <nil> 1"}
	if list := entries(); fmt.Sprint(list) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", list, want)
	}
}

// The answer to a report has no content: a consumer's reports are not audited.
func TestReportAnswersStaySealed(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	const key = "app1:jobs:t:1"
	id := b.as("token-of-admin").do("POST", "/v1/notices", `{"key":"`+key+`","audience":"m17","body":{"card":"`+card+`"}}`).is(201).id()
	b.engine.Hand(key)
	got := b.as("token-of-admin").do("POST", "/v1/notices/"+key+"/ack", `{"attempt":1,"id":"`+id+`","response":"`+card+`"}`).is(200).
		says(`"sealed":true`)
	testkit.CheckSecrets(t, []string{card}, got.raw)
	b.as("token-of-admin").do("GET", "/v1/notices/"+key, "").is(200).says(`"response":"`+card+`"`, `"body":{"card":"`+card+`"}`)
}
