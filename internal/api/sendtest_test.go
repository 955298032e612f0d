package api_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/callback"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// testsOf sends the tests of an API by a probe. Without one, each test is acknowledged.
func testsOf(o *api.Options, rules *mask.Rules, probe func(*notice.Notice) callback.Exchange) *api.TestSender {
	if probe == nil {
		probe = func(*notice.Notice) callback.Exchange {
			return callback.Exchange{Method: "POST", Status: 200, ResponseBody: "thanks", Duration: 12500 * time.Microsecond,
				Result: notice.DeliveredResult(200)}
		}
	}
	return api.NewTestSender(api.TestOptions{Routes: o.Routes, Mask: rules,
		Probe: func(_ context.Context, _ *route.Route, n *notice.Notice) callback.Exchange { return probe(n) }})
}

const shopKey = "app1:orders:t:1"

func newTesting(t *testing.T, rules *mask.Rules, probe func(*notice.Notice) callback.Exchange) *bench {
	t.Helper()
	b := newBench(t, withClients, func(o *api.Options) { o.Tests = testsOf(o, rules, probe) }).as("token-of-all")
	b.do("POST", "/v1/notices", `{"key":"`+shopKey+`","delay":"1h","url":"https://shop.example/secret-path","body":{"pin":"4711"}}`).is(201)
	return b
}

func TestSendTestShowsTheResult(t *testing.T) {
	t.Parallel()
	var sent notice.Notice
	b := newTesting(t, nil, func(n *notice.Notice) callback.Exchange {
		sent = *n
		return callback.Exchange{Status: 503, ResponseBody: "database", Duration: 12500 * time.Microsecond, Next: 15 * time.Second,
			Result: notice.Result{Outcome: notice.OutcomeRetry, Reason: notice.ReasonStatus5xx, Status: 503, Response: "database"}}
	})
	before := b.do("GET", "/v1/notices/"+shopKey, "").is(200).raw
	b.do("POST", "/v1/notices/"+shopKey+"/test", "").is(200).says(`"key":"`+shopKey+`"`, `"host":"shop.example"`, `"outcome":"retry"`,
		`"reason":"status_5xx"`, `"status":503`, `"duration_ms":12.5`, `"response":"database"`, `"final":false`, `"next_ms":15000`)
	if sent.Key != "app1:orders:test:test" || sent.URL != "https://shop.example/secret-path" || string(sent.Body) != `{"test":true}` {
		t.Errorf("sent %+v", sent)
	}
	if after := b.do("GET", "/v1/notices/"+shopKey, "").is(200).raw; after != before {
		t.Errorf("the test changed the notice: %s, before %s", after, before)
	}
	b.do("GET", "/v1/audit", "").is(200).says(`"action":"send-test"`, `"key":"`+shopKey+`"`, `"detail":"status_5xx"`)
}

func TestSendTestRefusesWhatItCannotCall(t *testing.T) {
	t.Parallel()
	b := newTesting(t, nil, nil)
	b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:1","delay":"1h"}`).is(201)
	b.do("POST", "/v1/notices", `{"key":"app2:a:b:1","delay":"1h"}`).is(201)
	for _, key := range []string{"app1:jobs:t:1", "app2:a:b:1"} { // a list, a log
		b.do("POST", "/v1/notices/"+key+"/test", "").is(409).says("does not deliver over HTTP", `"state":"scheduled"`)
	}
	b.do("POST", "/v1/notices/app1:orders:t:none/test", "").is(404).says("no notice is kept under app1:orders:t:none")
	b.do("POST", "/v1/notices/app9:orders:t:1/test", "").is(404)
	b.do("POST", "/v1/notices/"+shopKey+"/test?x=1", "").is(422)
	b.do("POST", "/v1/notices/"+shopKey+"/test", `{"url":"https://other.example/"}`).is(422).says("takes no body")

	without := newBench(t)
	without.do("POST", "/v1/notices", `{"key":"`+shopKey+`","url":"https://shop.example/"}`).is(201)
	without.do("POST", "/v1/notices/"+shopKey+"/test", "").is(409)
}

func TestSendTestShowsHostAndStatusWithinAPrefix(t *testing.T) {
	t.Parallel()
	b := newTesting(t, nil, nil)
	b.as("token-of-two").do("POST", "/v1/notices/"+shopKey+"/test", "").is(404).says("no notice is kept")
	got := b.as("token-of-one").do("POST", "/v1/notices/"+shopKey+"/test", "").is(200).says(`"host":"shop.example"`, `"status":200`)
	for _, hidden := range []string{"secret-path", "thanks", "response"} {
		if strings.Contains(got.raw, hidden) {
			t.Errorf("a client with a prefix is shown %q: %s", hidden, got.raw)
		}
	}
	b.do("POST", "/v1/notices/"+shopKey+"/test", "").is(200).says(`"response":"thanks"`)
}

func TestSendTestIsLimitedByClientAndRoute(t *testing.T) {
	t.Parallel()
	sent := 0
	b := newTesting(t, nil, func(*notice.Notice) callback.Exchange {
		sent++
		return callback.Exchange{Status: 200, Result: notice.DeliveredResult(200)}
	})
	for i := range 4 {
		b.do("POST", "/v1/notices", fmt.Sprintf(`{"key":"app1:orders:t:more-%d","delay":"1h","url":"https://shop.example/"}`, i)).is(201)
	}
	for i := range 3 {
		b.do("POST", fmt.Sprintf("/v1/notices/app1:orders:t:more-%d/test", i), "").is(200)
	}
	a := b.do("POST", "/v1/notices/app1:orders:t:more-3/test", "").is(429).says("too many tests of this route")
	if wait, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || wait < 5 || wait > 10 {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	if sent != 3 {
		t.Errorf("%d tests were sent, want 3", sent)
	}
	b.as("token-of-one").do("POST", "/v1/notices/"+shopKey+"/test", "").is(200)
	if audit := b.do("GET", "/v1/audit", "").is(200); strings.Count(audit.raw, `"action":"send-test"`) != 4 {
		t.Errorf("the audit is %s, want no entry of the refused test", audit.raw)
	}
}

func TestSendTestMasksTheResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		all   bool
		paths string
		want  string
	}{"nothing": {false, "", "pin 4711"}, "paths": {false, "$.pin", mask.Hidden}, "all": {true, "", mask.Hidden}} {
		rules, err := mask.New(c.all, c.paths)
		if err != nil {
			t.Fatal(err)
		}
		b := newTesting(t, rules, func(*notice.Notice) callback.Exchange {
			return callback.Exchange{Status: 200, ResponseBody: "pin 4711", Result: notice.DeliveredResult(200)}
		})
		if got := b.do("POST", "/v1/notices/"+shopKey+"/test", "").is(200).json()["response"]; got != c.want {
			t.Errorf("%s: the response is %q, want %q", name, got, c.want)
		}
	}
}
