package jobs

import (
	"errors"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// A notice is resent from the history only if the entry has all of it. The reason says what is missing.
func TestResendFromHistoryNamesTheReason(t *testing.T) {
	table, err := route.NewTable([]*route.Route{{Name: "pay", Prefix: "app1:pay", Target: route.Target{Kind: route.KindNotice}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(r *history.Row)
		want   Reason
	}{
		"whole":          {func(*history.Row) {}, Reason{}},
		"hashed body":    {func(r *history.Row) { r.BodyKept, r.Body, r.BodyHash = false, nil, []byte{1} }, bodyHashed},
		"dropped body":   {func(r *history.Row) { r.BodyKept, r.Body = false, nil }, bodyDropped},
		"secret header":  {func(r *history.Row) { r.Withheld = []string{"Authorization"} }, secretLost},
		"url's password": {func(r *history.Row) { r.URL = "https://user@shop.example/" }, secretLost},
		"damaged":        {func(r *history.Row) { r.Damaged = []string{"headers"} }, NoRecord},
		"no route":       {func(r *history.Row) { r.Key = "app2:pay:a:1" }, noRoute},
		"no url":         {func(r *history.Row) { r.URL = "" }, unfit},
	} {
		row := &history.Row{Outcome: notice.EndDead, Number: 1, BodyKept: true, Notice: &notice.Notice{Key: "app1:pay:a:1",
			Made: notice.MadeAt(time.Now()), AttemptsMade: 3,
			Content: notice.Content{URL: "https://shop.example/", Body: []byte("1")}}}
		c.change(row)
		n, err := FromRow(table, row)
		var r *Refusal
		switch errors.As(err, &r); {
		case c.want == Reason{}:
			if err != nil || n.Resend != 1 || n.Redriven != 3 || n.Endings != 1 {
				t.Errorf("%s: %+v, %v", name, n, err)
			}
		case r == nil || r.Reason != c.want || r.State != notice.Dead:
			t.Errorf("%s: %v, want the reason %q", name, err, c.want.Text())
		}
	}
}

// A replay and a resend from the history send a notice without its expiry. A repeated schedule call is compared with it all the same.
func TestSendingFromHistoryHasNoExpiry(t *testing.T) {
	table, err := route.NewTable([]*route.Route{{Name: "pay", Prefix: "app1:pay", Target: route.Target{Kind: route.KindNotice}}})
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1700000000000)
	for _, first := range []notice.Content{{Expires: at}, {Expires: at, ExpiresAfter: time.Hour},
		{Expires: at.Add(time.Hour), FirstExpires: at.UnixMilli()}, {Expires: at, FirstExpires: notice.NoExpiry}} {
		first.URL, first.Body = "https://shop.example/", []byte("1")
		row := &history.Row{Outcome: notice.EndDead, Number: 1, BodyKept: true, Notice: &notice.Notice{Key: "app1:pay:a:1",
			Made: notice.MadeAt(time.Now()), Content: first}}
		resent, err := FromRow(table, row)
		if err != nil {
			t.Fatal(err)
		}
		replayed := itemOf(table, &history.Replay{}, &history.ReplayItem{Row: row}, 0)
		for _, n := range []*notice.Notice{resent, replayed.Notice} {
			if n.Expired(at.Add(2*time.Hour)) || n.ExpiresAfter != 0 || len(n.Diff(&first)) > 0 {
				t.Errorf("of %+v: %+v, differs in %v", first, n.Content, n.Diff(&first))
			}
		}
	}
}
