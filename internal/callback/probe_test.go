package callback

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/notice"
)

func TestProbeShowsTheExchange(t *testing.T) {
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

func TestProbeOfWhatCannotBeCalled(t *testing.T) {
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
