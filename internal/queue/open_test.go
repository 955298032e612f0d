package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/client"
	"notifier/internal/notice"
	"notifier/internal/testkit"
)

const card = "4111111111111111"

// opener is an API that opens entries, or fails with err.
type opener struct {
	err  error
	said string // the last report
}

func (o *opener) Open(_ context.Context, key, _ string) (*client.Opened, error) {
	return &client.Opened{Key: key, ContentType: "application/json", Body: []byte(`"` + card + `"`)}, o.err
}

func (o *opener) Get(context.Context, string) (*client.Notice, error) {
	return nil, errors.New("not asked")
}

func (o *opener) report(what string, r client.Report) (*client.Notice, error) {
	o.said = what + " " + r.Response
	if r.Permanent {
		o.said = "permanent " + o.said
	}
	return &client.Notice{}, nil
}

func (o *opener) Ack(_ context.Context, _ string, r client.Report) (*client.Notice, error) {
	return o.report("ack", r)
}

func (o *opener) Nack(_ context.Context, _ string, r client.Report) (*client.Notice, error) {
	return o.report("nack", r)
}

func (o *opener) Defer(_ context.Context, _ string, r client.Report) (*client.Notice, error) {
	return o.report("defer", r)
}

// An entry that never opens makes a dead letter. Any other error uses no attempt.
func TestConsumerReportsEntriesThatDoNotOpen(t *testing.T) {
	problem := func(status int) error { return &client.Problem{Status: status, Title: "t"} }
	for _, x := range []struct {
		err    error
		worked bool
		want   string
	}{
		{nil, true, "nack " + card},
		{problem(410), false, "permanent nack cannot open the sealed entry: "},
		{problem(422), false, "permanent nack cannot open the sealed entry: "},
		{problem(403), false, "defer "}, {problem(404), false, "defer "}, {problem(503), false, "defer "},
		{errors.New("refused"), false, "defer "},
	} {
		api := &opener{err: x.err}
		core, logs := observer.New(zap.DebugLevel)
		worked := false
		c := NewConsumer(ConsumerOptions{API: api, Logger: zap.New(core), Timeout: time.Second, Worker: works(func(e *Received) notice.Result {
			worked = true
			if string(e.Body) != `"`+card+`"` || e.ContentType != "application/json" {
				t.Errorf("%+v", e)
			}
			return notice.Result{Outcome: notice.OutcomeRetry, Response: card}
		})})
		c.work = t.Context()
		c.one(&Received{Entry: Entry{ID: "msg_1", Key: "app1:a:b:1", Attempt: 1, Sealed: "s1c:x:y"}})
		if got := api.said[:min(len(api.said), len(x.want))]; got != x.want || worked != x.worked {
			t.Errorf("%v: %s, worked %t, want %s", x.err, api.said, worked, x.want)
		}
		for _, e := range logs.All() {
			for _, v := range e.ContextMap() {
				if text, ok := v.(string); ok {
					testkit.CheckSecrets(t, []string{card}, text)
				}
			}
		}
	}
}

// works is a function as a Worker.
type works func(e *Received) notice.Result

func (f works) Run(_ context.Context, e *Received) notice.Result { return f(e) }
