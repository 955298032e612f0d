package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
)

func sample(body, typ string) *notice.Notice {
	return &notice.Notice{Key: "app1:trans:notice:1", Made: 1763740785000, Due: time.UnixMilli(1763740800123),
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
		{"not json under json's type", "abc", "application/json", `,"content_type":"application/json","body_base64":"YWJj"}`},
		{"bytes", "\xff\x00", "", `,"body_base64":"/wA="}`},
		{"none", "", "", `}`},
	} {
		if got := string(Envelope(sample(c.body, c.typ))); got != head+c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, head+c.want)
		}
	}
	n := sample("", "")
	n.Lost, n.AttemptsMade = true, 2
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

// pushes is a function as a Pusher.
type pushes func(ctx context.Context, p *notice.Push, keep time.Duration) error

func (f pushes) Push(ctx context.Context, p *notice.Push, keep time.Duration) error {
	return f(ctx, p, keep)
}

func TestHandlePushesToAnotherSlot(t *testing.T) {
	r := &route.Route{Target: route.Target{Kind: route.KindStream, Key: "s", MaxLen: 7}}
	n := sample("x", "")
	var pushed []notice.Push
	var answer error
	h := Handler{Pusher: pushes(func(_ context.Context, p *notice.Push, keep time.Duration) error {
		if keep <= 2*r.Lease() {
			t.Errorf("the marker stays for %s, and a lease is %s", keep, r.Lease())
		}
		pushed = append(pushed, *p)
		return answer
	})}
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

// A push without an answer is repeated with the same mark, within the attempt and after the next claim, and
// uses no attempt. While Redis is unavailable, the pushes follow each other so closely that the notice is at
// most 300 ms late once Redis answers.
func TestUnansweredPushUsesNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &route.Route{Timeout: 10 * time.Second, Target: route.Target{Kind: route.KindList, Key: "l"}}
		n := sample("x", "")
		lost, refused := fmt.Errorf("push: %w: i/o timeout", notice.ErrUnanswered), errors.New("WRONGTYPE")
		for _, c := range []struct {
			answers []error // the last one is repeated
			want    notice.Outcome
		}{
			{[]error{nil}, notice.OutcomeDelivered},
			{[]error{lost, nil}, notice.OutcomeDelivered},
			{[]error{lost, refused, lost, nil}, notice.OutcomeDelivered},
			{[]error{lost}, notice.OutcomeDeferred},
			{[]error{lost, refused}, notice.OutcomeDeferred}, // the first push may have been made
			{[]error{refused, nil}, notice.OutcomeRetry},     // the entry does not exist
		} {
			var marks []string
			var last time.Time
			h := Handler{Pusher: pushes(func(_ context.Context, p *notice.Push, _ time.Duration) error {
				if waited := time.Since(last); len(marks) > 0 && waited > 200*time.Millisecond {
					t.Errorf("%v: %s between two pushes", c.answers, waited)
				}
				last = time.Now()
				marks = append(marks, p.Mark)
				return c.answers[min(len(marks), len(c.answers))-1]
			})}
			res := h.Handle(t.Context(), r, n)
			if res.Outcome != c.want || res.Outcome == notice.OutcomeDeferred && (res.After <= 0 || res.After > 250*time.Millisecond) {
				t.Errorf("%v: %+v", c.answers, res)
			}
			if len(slices.Compact(marks)) != 1 || len(marks) > 70 { // one in 150 to 200 ms, and a few more at first
				t.Errorf("%v: pushed as %v", c.answers, marks)
			}
		}
	})
}

// The first answered push after an outage triggers all others.
func TestAnswerTriggersWaitingPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 64
		r := &route.Route{Timeout: 10 * time.Second, Target: route.Target{Kind: route.KindList, Key: "l"}}
		back := time.Now().Add(4 * time.Second)
		h := Handler{Pusher: pushes(func(context.Context, *notice.Push, time.Duration) error {
			if time.Now().Before(back) {
				return notice.ErrUnanswered
			}
			return nil
		})}
		var all sync.WaitGroup
		for i := range most {
			time.Sleep(5 * time.Millisecond) // sleep: virtual, so that they do not wait in step
			all.Go(func() {
				n := sample("x", "")
				n.Key += strconv.Itoa(i)
				if res := h.Handle(t.Context(), r, n); res.Outcome != notice.OutcomeDelivered {
					t.Errorf("%+v", res)
				}
			})
		}
		all.Wait()
		if late := time.Since(back); late > 20*time.Millisecond {
			t.Errorf("the last push was %s late", late)
		}
	})
}

func TestMarksDistinguishPushes(t *testing.T) {
	n := sample("x", "")
	seen := map[string]bool{}
	next := func(what string, inPlaceOf int) {
		t.Helper()
		mark, earlier := n.PushMark()
		if seen[mark] || len(earlier) != inPlaceOf {
			t.Errorf("%s: %s, in place of %v", what, mark, earlier)
		}
		for _, e := range earlier {
			if !seen[e] {
				t.Errorf("%s: in place of the unknown push %s", what, e)
			}
		}
		seen[mark] = true
	}
	next("the first", 0)
	n.Add(notice.Attempt{Number: 1, Reason: notice.ReasonInterrupted})
	next("after an interrupted one", 1)
	n.Add(notice.Attempt{Number: 2, Reason: notice.ReasonQueue})
	next("after an unanswered one", 2)
	n.Add(notice.Attempt{Number: 3, Reason: notice.ReasonRejected})
	next("after one that its consumer rejected", 0)
	n.Locked++
	next("after its consumer has deferred it", 0)
	n.Made++
	next("another notice under the key", 0)
}

func TestEntriesSayThatANoticeWasResent(t *testing.T) {
	n := sample(`{"a":1}`, "")
	for _, resend := range []int{0, 2} {
		n.Resend = resend
		values := map[string]any{}
		for f := range slices.Chunk(Fields(n), 2) {
			values[f[0]] = f[1]
		}
		stream, err := ParseFields(values)
		if err != nil || stream.Resend != resend {
			t.Errorf("a stream's entry: %+v, %v, want resend %d", stream, err, resend)
		}
		list, err := ParseEnvelope(string(Envelope(n)))
		if err != nil || list.Resend != resend {
			t.Errorf("a list's entry: %+v, %v, want resend %d", list, err, resend)
		}
	}
}
