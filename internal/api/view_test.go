package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// What is written by hand says what the type says.
func TestHeadIsTheView(t *testing.T) {
	t.Parallel()
	table, err := route.NewTable([]*route.Route{{Name: "orders", Prefix: "app1:orders", Ladder: notice.DefaultLadder}})
	if err != nil {
		t.Fatal(err)
	}
	a := &api{routes: table}
	at := time.Date(2026, 11, 21, 9, 30, 0, 7_000_000, time.FixedZone("x", 3600))
	full := notice.Content{URL: "https://u:p@h/ä?a=<b>&c", Audience: "m17", Method: "PUT", ContentType: "text/\"x\\", Body: []byte("x"),
		Ladder: notice.Ladder{time.Second, time.Minute}, Headers: []notice.Header{{Name: "X-A", Value: "<1>"}, {Name: "X-Token", Value: "not shown"}}}
	for _, f := range []store.Found{
		{Notice: &notice.Notice{Key: "app1:orders:a:b", Route: "app1:orders", Made: notice.MadeAt(at), Due: at}, State: notice.Scheduled},
		{Notice: &notice.Notice{Key: "app1:orders:a:b", Route: "app1:orders", Made: notice.MadeAt(at), Due: at,
			Content: notice.Content{Body: []byte(`{"a":1}`), Ladder: notice.Ladder{}}},
			State: notice.Claimed},
		{Notice: &notice.Notice{Key: "gone:a:b:c", Route: "gone", Made: notice.MadeAt(at), Due: at, Content: full, AttemptsMade: 3, Redriven: 2, Endings: 1, Replay: "rpl_1",
			Reason:   notice.ReasonDNS,
			Attempts: []notice.Attempt{{Number: 3, At: at, Duration: time.Second, Status: 500, Reason: notice.ReasonStatus5xx, Response: "\x00\"<ä"}}},
			State: notice.Dead, SettledAt: at},
		{Notice: notice.Unread("app1:orders:a:b", "app1:orders", "garbage"), State: notice.Dead, SettledAt: at},
	} {
		var got, want any
		if err := json.Unmarshal(append(a.appendHead(nil, f, "shop", f.InlineJSON()), '}'), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(appendJSON(nil, a.view(f, "shop")), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("by hand: %v\nby type: %v", got, want)
		}
	}
}

func TestARecordThatCannotBeReadIsShownAsItStands(t *testing.T) {
	t.Parallel()
	table, err := route.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Reason string `json:"reason"`
		Body   []byte `json:"body_base64"`
	}
	f := store.Found{Notice: notice.Unread("app1:orders:a:b", "app1", "garb\xffage"), State: notice.Dead}
	if err := json.Unmarshal((&api{routes: table}).appendNotice(nil, f, "", ""), &got); err != nil {
		t.Fatal(err)
	}
	if got.Reason != "unreadable" || string(got.Body) != "garb\xffage" {
		t.Errorf("%+v", got)
	}
}
