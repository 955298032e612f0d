package client_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/client"
)

func TestRecurrenceRequestFormatsTimes(t *testing.T) {
	at := time.Date(2031, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600))
	text := "x"
	for want, r := range map[string]client.RecurrenceRequest{
		`{}`: {Key: "a:b:c:n"},
		`{"cron":"0 2 * * *","zone":"Asia/Shanghai","body":[1, 2]}`: {Cron: "0 2 * * *", Zone: "Asia/Shanghai", Body: json.RawMessage(`[1, 2]`)},
		`{"body":[1, 2]}`: {Body: json.RawMessage(`[1, 2]`)},
		`{"times":3,"missed":"all","missed_most":5,"overlap":"skip","paused":true,"body_text":"x","every":"15m0s",` +
			`"anchor":"2031-01-02T02:04:05.006Z","from":"2031-01-02T02:04:05.006Z","until":"2031-01-02T02:04:06.006Z","expires":"1h0m0s",` +
			`"last_tick":"2031-01-02T02:04:05.006Z"}`: {
			Every: 15 * time.Minute, Anchor: at, From: at, Until: at.Add(time.Second), Times: 3, Missed: client.MissedAll, MissedMost: 5,
			Overlap: client.OverlapSkip, Paused: true, BodyText: &text, Expires: time.Hour, LastTick: at},
	} {
		if got, err := r.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	if _, err := (client.RecurrenceRequest{Body: []byte("{")}).MarshalJSON(); err == nil {
		t.Error("a body that is not JSON was accepted")
	}
}

func TestRecurrenceCalls(t *testing.T) {
	c, _ := serve(t, nil)
	ctx := t.Context()
	r := client.RecurrenceRequest{Key: "app1:jobs:daily:n0", Cron: "0 2 * * *", Zone: "Asia/Shanghai", Body: json.RawMessage(`{"a": 1}`)}
	plan, err := c.PlanRecurrence(ctx, r)
	if err != nil || len(plan.Next) != 5 || plan.Created {
		t.Fatalf("%+v, %v", plan, err)
	}
	if _, err := c.ReadRecurrence(ctx, r.Key); err == nil {
		t.Error("a plan was stored")
	}
	made, err := c.PutRecurrence(ctx, r)
	if err != nil || !made.Created || !made.Next[0].Equal(plan.Next[0]) || string(made.Body) != `{"a": 1}` {
		t.Fatalf("%+v, %v", made, err)
	}
	for i := 1; i < 5; i++ {
		if _, err := c.PutRecurrence(ctx, client.RecurrenceRequest{Key: fmt.Sprint("app1:jobs:daily:n", i), Every: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.Recurrences(ctx, client.RecurrenceFilter{Prefix: "app1:jobs", Limit: 3})
	if err != nil || len(page.Items) != 3 || page.Cursor == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	page, err = c.Recurrences(ctx, client.RecurrenceFilter{Prefix: "app1:jobs", Limit: 3, Cursor: page.Cursor})
	if err != nil || len(page.Items) != 2 || page.Cursor != "" {
		t.Fatalf("%+v, %v", page, err)
	}
	if x, err := c.PauseRecurrence(ctx, r.Key); err != nil || !x.Paused {
		t.Errorf("%+v, %v", x, err)
	}
	if x, err := c.ResumeRecurrence(ctx, r.Key); err != nil || x.Paused {
		t.Errorf("%+v, %v", x, err)
	}
	if n, err := c.RunRecurrence(ctx, r.Key); err != nil || !strings.HasPrefix(n.Key, r.Key+"~") || string(n.Body) != `{"a": 1}` {
		t.Errorf("%+v, %v", n, err)
	}
	if err := c.DeleteRecurrence(ctx, r.Key); err != nil {
		t.Error(err)
	}
	if _, err := c.ReadRecurrence(ctx, r.Key); err == nil {
		t.Error("it was not deleted")
	}
}
