package ui_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/ui"
)

// archive is a history in memory.
type archive struct {
	rows   []history.Row // the latest first
	err    error
	report history.ReportQuery // the last one
}

func (a *archive) Find(_ context.Context, q history.Query) (history.Page, error) {
	var p history.Page
	for _, r := range a.rows {
		switch {
		case q.Key != "" && r.Key != q.Key, !keys.HasPrefix(r.Key, q.Prefix), q.Host != "" && r.Host != q.Host, q.ID != "" && r.ID() != q.ID,
			!strings.Contains(r.Key, q.Part), q.Reason != "" && r.Reason != q.Reason,
			q.Route != "" && r.Route != q.Route, !q.Since.IsZero() && r.Ended.Before(q.Since),
			!q.Until.IsZero() && !r.Ended.Before(q.Until), len(q.Outcomes) > 0 && !slices.Contains(q.Outcomes, r.Outcome):
		default:
			p.Rows = append(p.Rows, r)
		}
	}
	return p, a.err
}

func (a *archive) Count(ctx context.Context, q history.Query, _ int) (int, bool, error) {
	p, err := a.Find(ctx, q)
	return len(p.Rows), err == nil, err
}

func (a *archive) Types(_ context.Context, prefix string, _ int) (list []string, all bool, err error) {
	for _, r := range a.rows {
		if t := r.Key[:strings.LastIndexByte(r.Key, ':')]; keys.HasPrefix(r.Key, prefix) && !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list, true, a.err
}

func (a *archive) MonthReport(_ context.Context, q history.ReportQuery) (*history.Report, error) {
	a.report = q
	r := &history.Report{Groups: 1}
	for _, row := range a.rows {
		if !keys.HasPrefix(row.Key, q.Prefix) {
			continue
		}
		r.Lines = append(r.Lines, history.Line{Name: row.Host, Notices: 6, Delivered: 3, First: 3, Dead: 1, Cancelled: 2, Timed: 3,
			Median: 12 * time.Millisecond})
	}
	return r, a.err
}

func (a *archive) Has(_ context.Context, names []history.Name) (map[history.Name]bool, error) {
	got := map[history.Name]bool{}
	for _, r := range a.rows {
		if n := (history.Name{ID: r.ID(), Number: r.Number}); slices.Contains(names, n) {
			got[n] = true
		}
	}
	return got, a.err
}

func (a *archive) put(key string, outcome notice.Ending, change func(*history.Row)) {
	at := time.Now().Add(-time.Duration(len(a.rows))*time.Hour - 90*time.Second).UTC()
	r := history.Row{Outcome: outcome, Number: 1, Ended: at, Host: "shop.example", BodyKept: true, BodySize: 8,
		Notice: &notice.Notice{Key: key, Route: "app1:orders",
			Made: notice.MadeAt(at), Due: at, AttemptsMade: 1, Content: notice.Content{URL: "https://shop.example/x", Body: []byte(`{"a": 1}`)},
			Attempts: []notice.Attempt{{Number: 1, At: at, Status: 200, Response: "<b>thanks</b> secretsum"}}}}
	if outcome == notice.EndDead {
		r.Reason, r.Attempts[0].Reason, r.Attempts[0].Status = notice.ReasonGone, notice.ReasonGone, 410
	}
	if change != nil {
		change(&r)
	}
	a.rows = append(a.rows, r)
}

// A notice that only the history has is shown and found by its key. The page of a current notice links to
// the earlier finalized notices of its key.
func TestFinalizedNoticeIsShownFromTheHistory(t *testing.T) {
	s, a := newSite(t), &archive{}
	const old, both, one = "app1:orders:paid:old", "app1:orders:paid:both", "app1:orders:paid:one"
	s.get("/ui/notices/" + old).is(404)
	s.history = a
	s = s.as(ui.Visitor{})
	a.put(old, notice.EndDelivered, func(r *history.Row) { r.Number = 2 })
	a.put(old, notice.EndDead, nil)
	a.put(both, "replaced", nil)
	a.put(one, notice.EndCancelled, func(r *history.Row) { r.BodyKept, r.Body, r.BodyHash = false, nil, []byte{0xab, 0xcd} })
	page := s.get("/ui/notices/" + old).is(200)
	page.says("From the history", "It is no longer in Redis", "Delivered 1m3", "<b>thanks</b> secretsum", `"a": 1`, "Finalized notices of this key", "(no. 2)", "dead", "HTTP 410 · gone").
		saysNot("Redrive", "Cancel the notice", "Current notice")
	if location := s.get("/ui/notices?q=" + old).is(303).Header.Get("Location"); location != "/ui/notices/"+old {
		t.Error(location)
	}
	s.get("/ui/notices/"+one).is(200).says("Cancelled", "not kept, SHA-256 abcd", "8 bytes")
	s.keep(both, notice.Content{URL: "https://shop.example/x"}, time.Hour)
	s.get("/ui/notices/"+both).is(200).says("Due in", "Finalized notices of this key, in the history").saysNot("From the history")
	s.get("/ui/notices/"+both+"?ended").is(200).says("From the history", "Replaced", "by another notice of the key", "Current notice")
	s.get("/ui/notices/app1:orders:paid:none").is(404).says("No notice is kept under this key")
	s.get("/ui/notices/app1:orders:paid:none?ended").is(404).says("The history has no finalized notice of this key")
	s.get("/ui/notices?q=app1:orders:paid:none").is(200).says("No notice matches")
	a.err = fmt.Errorf("%w: x", history.ErrUnavailable)
	s.get("/ui/notices/"+old).is(503).says("The notice is not in Redis", "The history database is unavailable")
	s.get("/ui/notices/" + both).is(200) // Redis has it
	a.err = history.ErrNewer
	s.get("/ui/notices/" + old).is(503).says("newer than this instance")
}

func TestHistoryIsShownWithinTheScope(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	const key, other = "app1:orders:paid:1", "app2:x:paid:1"
	a.put(key, notice.EndDelivered, nil)
	a.put(key, notice.EndDead, func(r *history.Row) { r.Host, r.URL, r.Audience = "other.example", "https://other.example/", "m2" })
	a.put(other, notice.EndDelivered, nil)
	for _, path := range []string{"", "?ended"} {
		s.as(ui.Visitor{Prefix: "app1"}).get("/ui/notices/" + other + path).is(404)
		s.as(ui.Visitor{Prefix: "app1"}).get("/ui/notices/" + key + path).is(200).says("HTTP 410 · gone")
		s.as(ui.Visitor{Prefix: "app1", Host: "shop.example"}).get("/ui/notices/"+key+path).is(200).saysNot("HTTP 410 · gone", "other.example")
		s.as(ui.Visitor{Prefix: "app1", Audience: "m2"}).get("/ui/notices/" + key + path).is(200).says("other.example").saysNot("Delivered")
		s.as(ui.Visitor{Prefix: "app1", Audience: "m3"}).get("/ui/notices/" + key + path).is(404)
	}
}

// Entries of the history are masked like notices. Without the body that was sent, no response is shown,
// since it may repeat the body.
func TestHistoryIsMasked(t *testing.T) {
	rules, err := mask.New(false, "$.a")
	if err != nil {
		t.Fatal(err)
	}
	s, a := newSite(t), &archive{}
	s.history, s.mask = a, rules
	s = s.as(ui.Visitor{})
	const kept, lost, secret = "app1:orders:paid:kept", "app1:orders:paid:lost", "app1:orders:paid:secret"
	sum := func(r *history.Row) { r.Body = []byte(`{"a": "secretsum"}`) }
	a.put(kept, notice.EndDelivered, sum)
	a.put(lost, notice.EndDelivered, func(r *history.Row) { r.Body, r.BodyKept = nil, false })
	a.put(secret, notice.EndDelivered, func(r *history.Row) {
		r.Body, r.Headers, r.Withheld = nil, []notice.Header{{Name: "X-Token"}}, []string{"X-Token"}
	})
	for _, key := range []string{kept, lost, secret} {
		s.get("/ui/notices/" + key).is(200).saysNot("secretsum")
	}
	s.get("/ui/notices/"+lost).says("•••", "not kept ( NOTIFIER_HISTORY_BODIES )")
}
