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
	table, err := route.NewTable([]*route.Route{{Name: "orders", Prefix: "app1:orders", Ladder: notice.DefaultLadder}})
	if err != nil {
		t.Fatal(err)
	}
	a := &api{routes: table}
	at := time.Date(2026, 11, 21, 9, 30, 0, 7_000_000, time.FixedZone("x", 3600))
	full := notice.Content{URL: "https://u:p@h/ä?a=<b>&c", Method: "PUT", ContentType: "text/\"x\\", Body: []byte("x"),
		Ladder: notice.Ladder{time.Second, time.Minute}}
	for _, f := range []store.Found{
		{Notice: &notice.Notice{Key: "app1:orders:a:b", Route: "app1:orders", Made: at, Due: at}, State: notice.Scheduled},
		{Notice: &notice.Notice{Key: "app1:orders:a:b", Route: "app1:orders", Made: at, Due: at,
			Content: notice.Content{Body: []byte(`{"a":1}`), Ladder: notice.Ladder{}}},
			State: notice.Claimed},
		{Notice: &notice.Notice{Key: "gone:a:b:c", Route: "gone", Made: at, Due: at, Content: full, Used: 3, Redriven: 2,
			Reason:   notice.ReasonDNS,
			Attempts: []notice.Attempt{{N: 3, At: at, Duration: time.Second, Status: 500, Reason: notice.ReasonStatus5xx, Response: "\x00\"<ä"}}},
			State: notice.Dead, SettledAt: at},
	} {
		var got, want any
		if err := json.Unmarshal(append(a.appendHead(nil, f, f.InlineJSON()), '}'), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(appendJSON(nil, a.view(f)), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("by hand: %v\nby type: %v", got, want)
		}
	}
}
