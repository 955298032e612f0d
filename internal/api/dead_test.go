package api_test

import (
	"strings"
	"testing"

	"notifier/internal/notice"
)

func TestDeadLettersByCause(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients)
	all := b.as("token-of-all")
	all.do("GET", "/v1/dead", "").is(200).says(`"items":[]`, `"total":0`)
	for _, key := range []string{"app1:jobs:t:1", "app1:jobs:t:2", "app1:jobs:t:3"} {
		all.do("POST", "/v1/notices", `{"key":"`+key+`"}`).is(201)
	}

	b.engine.Move("app1:jobs:t:1", notice.Dead, notice.ReasonGone)
	b.engine.Move("app1:jobs:t:2", notice.Dead, notice.ReasonGone)
	b.engine.Move("app1:jobs:t:3", notice.Dead, notice.ReasonTimeout)
	all.do("GET", "/v1/dead?since=2020-01-01T00:00:00Z", "").is(200).says(`{"route":"jobs","prefix":"app1:jobs","reason":"gone","count":2,"first":"20`,
		`"reason":"timeout","count":1`, `"total":3`, `"counted":"20`)
	if a := all.do("GET", "/v1/dead?route=jobs&reason=timeout&since=2020-01-01T00:00:00Z", "").is(200).says(`"total":1`); strings.Contains(a.raw, "gone") {
		t.Errorf("another reason: %s", a.raw)
	}

	if a := b.as("token-of-two").do("GET", "/v1/dead?since=2020-01-01T00:00:00Z", "").is(200).says(`"total":0`); strings.Contains(a.raw, "app1") {
		t.Errorf("another client's dead letters: %s", a.raw)
	}

	all.do("GET", "/v1/dead?reason=nonsense", "").is(422).says("query.reason", "want one of")
}

// TestStatusOfDeadLetters checks which statuses listings and bulk calls take.
func TestStatusOfDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, query := range []string{"status=500", "reason=status_5xx&status=404", "reason=timeout&status=500", "reason=status_5xx&status=x"} {
		b.do("GET", "/v1/notices?state=dead&"+query, "").is(422).says("query.status", "such as 503 with the reason status_5xx")
		b.do("POST", "/v1/routes/orders/redrive?"+query, "").is(422).says("query.status")
	}

	b.do("GET", "/v1/notices?state=dead&reason=status_5xx&status=503", "").is(200)
	b.do("POST", "/v1/routes/orders/redrive?reason=status_5xx&status=503&dry_run=true", "").is(200).says(`"matched":0`)
}
