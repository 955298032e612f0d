package callback

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
)

func TestProbeShowsTheExchange(t *testing.T) {
	t.Parallel()
	s := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Answer", "42")
		w.WriteHeader(503)
		_, _ = w.Write([]byte("later\nplease"))
	})
	h := newHandler(t, Options{})
	r := fixedRoute(s.URL + "/n?token=hunter2")
	r.Secrets = secrets(t, vectorSecret)
	r.Headers = []notice.Header{{Name: "Authorization", Value: "Bearer hunter2"}, {Name: "X-Env", Value: "test"}}
	x := h.Probe(background(t), r, testNotice(`{"a":1}`))
	expect(t, x.Result, retry, notice.ReasonStatus5xx)
	text := x.String()
	for _, want := range []string{
		"> POST " + s.URL + "/n?token=•••\n", "> authorization: •••\n", "> x-env: test\n", "> webhook-signature: v1,", "> webhook-id: msg_",
		"> notifier-attempt: 1\n", "> content-type: application/json\n", ">\n> {\"a\":1}\n", "* connected to 127.0.0.1:",
		"< HTTP/1.1 503 Service Unavailable\n",
		"< x-answer: 42\n", "<\n< later\n< please\n", "= retry (status_5xx) after ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "hunter2") {
		t.Error(text)
	}
	if j, err := json.Marshal(x); err != nil || !strings.Contains(string(j), `"status":503`) || !strings.Contains(string(j),
		`"reason":"status_5xx"`) {
		t.Errorf("%s, %v", j, err)
	}
}

func TestProbeRefusesInvalidTargets(t *testing.T) {
	t.Parallel()
	h := newHandler(t, Options{})
	n := testNotice("x")
	n.URL = "http://user:hunter2@10.0.0.1/"
	x := h.Probe(background(t), noticeRoute(), n)
	expect(t, x.Result, dead, notice.ReasonBlocked)
	if text := x.String(); !strings.Contains(text, "ALLOW=10.0.0.1/32") || !strings.Contains(text, "http://•••@10.0.0.1/") {
		t.Error(text)
	}
	x = h.Probe(background(t), fixedRoute("http://127.0.0.1:1"), n)
	expect(t, x.Result, retry, notice.ReasonConnect)
	r := fixedRoute("http://127.0.0.1:1")
	r.CAFile = "/does/not/exist"
	x = h.Probe(background(t), r, n)
	expect(t, x.Result, retry, notice.ReasonInvalid)
}

// send-test showed "retry" for notices that the service would not retry.
func TestProbeReportsFinalResults(t *testing.T) {
	t.Parallel()
	status := 500
	s := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if status == 423 {
			w.Header().Set("Retry-After", "7")
		}
		w.WriteHeader(status)
	})
	h := newHandler(t, Options{})
	private := testNotice("x")
	private.URL = "http://10.0.0.1/"
	ladder := notice.Ladder{15 * time.Second, time.Minute}
	for _, c := range []struct {
		name   string
		status int
		ladder notice.Ladder
		says   string
		json   string
	}{
		{"delivered", 200, ladder, "", `"final":false`},
		{"retry", 500, ladder, "= the service would try again in 15s, at most 2 times\n", `"final":false`},
		{"no ladder", 500, notice.Ladder{}, "= final: the route's ladder has no retry, so the notice would be dead\n", `"final":true`},
		{"gone", 410, ladder, "= final: the notice would be dead; the service would not try again\n", `"final":true`},
		{"locked", 423, ladder, "= the service would try again in 7s, without counting an attempt\n", `"next_ms":7000`},
		{"private", 0, ladder, "= final: the notice would be dead; the service would not try again\n", `"final":true`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, n := fixedRoute(s.URL), testNotice("x")
			if status = c.status; status == 0 {
				r, n = noticeRoute(), private
			}
			r.Ladder = c.ladder
			x := h.Probe(background(t), r, n)
			text := x.String()
			if _, last, _ := strings.Cut(text, " after "); !strings.HasSuffix(last, "ms\n"+c.says) && !strings.HasSuffix(last, "s\n"+c.says) {
				t.Errorf("want %q at the end of\n%s", c.says, text)
			}
			if j, err := json.Marshal(x); err != nil || !strings.Contains(string(j), c.json) {
				t.Errorf("%s, %v", j, err)
			}
		})
	}
}
