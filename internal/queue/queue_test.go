package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
)

func sample(body, typ string) *notice.Notice {
	return &notice.Notice{Key: "app1:trans:notice:1", Made: time.UnixMilli(1763740785000), Due: time.UnixMilli(1763740800123),
		Content: notice.Content{Body: []byte(body), ContentType: typ}}
}

func TestEnvelope(t *testing.T) {
	id := sample("", "").ID()
	head := `{"id":"` + id + `","key":"app1:trans:notice:1","attempt":1,"due":"2025-11-21T16:00:00.123Z"`
	for _, c := range []struct{ name, body, typ, want string }{
		{"json", `{"a": "<b>"}`, "", `,"content_type":"application/json","body":{"a": "<b>"}}`},
		{"text", "plain \"text\"\n", "text/plain", `,"content_type":"text/plain","body":"plain \"text\"\n"}`},
		{"text without a type", "hello", "", `,"body":"hello"}`},
		{"json under another type is text", `{"a":1}`, "text/plain", `,"content_type":"text/plain","body":"{\"a\":1}"}`},
		{"what is no json under json's type", "abc", "application/json", `,"content_type":"application/json","body_base64":"YWJj"}`},
		{"bytes", "\xff\x00", "", `,"body_base64":"/wA="}`},
		{"none", "", "", `}`},
	} {
		if got := string(Envelope(sample(c.body, c.typ))); got != head+c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, head+c.want)
		}
	}
	n := sample("", "")
	n.Lost, n.Used = true, 2
	if got := string(Envelope(n)); !strings.Contains(got, `"attempt":3`) || !strings.HasSuffix(got, `,"body_lost":true}`) {
		t.Errorf("lost: %s", got)
	}
}

func TestFields(t *testing.T) {
	n := sample("\xff\x00 as it is", "application/x-thing")
	want := []string{"id", n.ID(), "key", n.Key, "attempt", "1", "due", "2025-11-21T16:00:00.123Z",
		"content_type", "application/x-thing", "body", "\xff\x00 as it is"}
	if got := Fields(n); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	n.Lost = true
	if got := Fields(n); !slices.Equal(got, append(want, "body_lost", "1")) {
		t.Errorf("lost: %q", got)
	}
}

func TestPushesAtOnceIntoAnotherSlot(t *testing.T) {
	r := &route.Route{Target: route.Target{Kind: route.KindStream, Key: "s", MaxLen: 7}}
	n := sample("x", "")
	var pushed []notice.Push
	var answer error
	h := Handler{Push: func(_ context.Context, p *notice.Push) error {
		pushed = append(pushed, *p)
		return answer
	}}
	res := h.Handle(context.Background(), r, n)
	if res.Outcome != notice.OutcomeDelivered || res.Push == nil || len(res.Push.Entry) != 0 {
		t.Fatalf("%+v: want a delivery whose push the settle need not make", res)
	}
	if len(pushed) != 1 || !pushed[0].Stream || pushed[0].Key != "s" || pushed[0].MaxLen != 7 || !slices.Equal(pushed[0].Entry, Fields(n)) {
		t.Fatalf("pushed %+v", pushed)
	}
	answer = errors.New("no")
	if res = h.Handle(context.Background(), r, n); res.Outcome != notice.OutcomeRetry || res.Reason != notice.ReasonQueue || res.Push != nil {
		t.Fatalf("%+v: want a retry", res)
	}
}
