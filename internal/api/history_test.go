package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/engine/enginetest"
	"notifier/internal/history"
	"notifier/internal/notice"
	_ "notifier/worker/sqlitehistory"
)

var friday = time.Date(2026, 11, 20, 12, 0, 0, 123_456_000, time.UTC)

// remembers is a history of ten endings under each of two apps, in SQLite.
func remembers(t *testing.T) *history.DB {
	t.Helper()
	d, err := history.Open(history.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "history.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	var rows []history.Row
	for i := range 10 {
		for _, app := range []string{"app1:orders", "app2:bills"} {
			body := []byte(fmt.Sprintf(`{"n": %d}`, i))
			r := history.Row{Outcome: notice.EndDelivered, Number: 1, Ended: friday.Add(time.Duration(i) * time.Minute), Host: "shop.example",
				BodyKept: true, BodySize: len(body),
				Notice: &notice.Notice{Key: fmt.Sprintf("%s:paid:%d", app, i), Route: app, Made: notice.MadeAt(friday.Add(-time.Minute)), Due: friday,
					AttemptsMade: 1,
					Content:      notice.Content{Body: body, Headers: []notice.Header{{Name: "X-A", Value: "1"}, {Name: "X-Token"}}},
					Attempts: []notice.Attempt{{Number: 1, At: friday, Duration: 1500 * time.Microsecond, Status: 200,
						Response: fmt.Sprintf("took %d", i)}}}}
			if i == 7 {
				r.Outcome, r.Reason, r.Host = notice.EndReplaced, "", "other.example"
			}
			if i == 8 {
				r.Outcome, r.Reason, r.Body = notice.EndDead, notice.ReasonGone, []byte{0xff, 0}
			}
			rows = append(rows, r)
		}
	}
	if _, err := d.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	return d
}

// sealedRow returns the entry of a notice that an engine has.
func sealedRow(t *testing.T, e *enginetest.Engine, key string) history.Row {
	t.Helper()
	f, err := e.Find(t.Context(), key)
	if err != nil || f.Sealed == "" {
		t.Fatal(f.Notice, err)
	}
	return history.Row{Notice: f.Notice, Outcome: notice.EndCancelled, Number: 1, Ended: time.Now(), Host: "shop.example", BodySize: -1,
		BodyKept: true}
}

func withHistory(h api.Historian) func(*api.Options) {
	return func(o *api.Options) { o.History = h }
}

type ending struct {
	Key, ID, Outcome, Host, Route, Reason string
	Ending                                int
	EndedAt                               string `json:"ended_at"`
	Body                                  any
	BodyBase64                            string            `json:"body_base64"`
	BodyKept                              bool              `json:"body_kept"`
	Headers                               map[string]string `json:"headers"`
	Withheld                              []string          `json:"headers_withheld"`
	Attempts                              []struct {
		Status   int
		Response string
	}
}

// endings calls GET /v1/history page by page.
func (b *bench) endings(query string) (list []ending) {
	b.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Items  []ending
			Cursor string
		}
		b.do("GET", "/v1/history?"+query+cursor, "").is(http.StatusOK).into(&page)
		list = append(list, page.Items...)
		if page.Cursor == "" {
			return list
		}
		cursor = "&cursor=" + page.Cursor
	}
}

func TestReportIsWithinTheScope(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, withHistory(remembers(t)))
	all, one := b.as("token-of-all"), b.as("token-of-one")
	type report struct {
		Since, Until string
		Total        api.ReportLine
		Items        []api.ReportLine
		Groups       int
	}
	ask := func(b *bench, query string) (r report) {
		b.do("GET", "/v1/reports/2026-11?"+query, "").is(http.StatusOK).into(&r)
		return r
	}
	if r := ask(all, "&limit=1"); r.Total.Notices != 20 || r.Total.Dead != 2 || r.Total.Replaced != 2 || r.Total.FirstAttempt != 16 ||
		r.Groups != 2 || len(r.Items) != 1 || r.Items[0].Name != "shop.example" || r.Items[0].WithinMinute != 2 {
		t.Errorf("%+v", r)
	}
	if r := ask(one, "&by=type"); r.Total.Notices != 10 || r.Groups != 1 || r.Items[0].Name != "app1:orders:paid" {
		t.Errorf("%+v", r)
	}
	if r := ask(one, "&prefix=app2"); r.Total.Notices != 0 || len(r.Items) != 0 {
		t.Errorf("%+v", r)
	}
	r := ask(all, "&zone=Asia/Kolkata&by=route")
	if r.Since != "2026-10-31T18:30:00.000Z" || r.Until != "2026-11-30T18:30:00.000Z" || r.Total.Notices != 20 || r.Groups != 2 {
		t.Errorf("%+v", r)
	}
	one.do("GET", "/v1/reports/2026-11/csv", "").is(http.StatusOK).says("shop.example,9,8,8,", "total,10,")
	for _, path := range []string{"11", "2026-13", "this?zone=Nowhere", "this?by=host", "this?limit=0"} {
		all.do("GET", "/v1/reports/"+path, "").is(http.StatusUnprocessableEntity)
	}
	newBench(t).do("GET", "/v1/reports/2026-11", "").is(http.StatusNotFound)
}

func TestHistoryIsFoundWithinTheScope(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, withHistory(remembers(t)))
	all, one := b.as("token-of-all"), b.as("token-of-one")
	for query, want := range map[string]int{
		"limit=3":                                20,
		"prefix=app1":                            10,
		"prefix=app2:bills:paid&limit=4":         10,
		"host=Shop.Example.":                     18,
		"outcome=dead,replaced":                  4,
		"reason=gone":                            2,
		"since=2026-11-20T12:08:00Z":             4,
		"until=2026-11-20T12:01:00Z":             2,
		"key=app1:orders:paid:3":                 1,
		"key=app1:orders:paid:33":                0,
		"text=TOOK+5&since=2026-11-20":           -1,
		"text=TOOK+5&since=" + iso(friday):       2,
		"text=n%22:+5&since=" + iso(friday):      2,
		"part=app1:orders:paid:":                 10,
		"part=rders:paid:3&since=" + iso(friday): 0, // with a colon it is the beginning of a key
		"part=rders&since=" + iso(friday):        10,
		"part=app2:bi&since=" + iso(friday):      10,
		"id=msg_0123456789abcdef0123456789":      0,
	} {
		if want < 0 {
			all.do("GET", "/v1/history?"+query, "").is(http.StatusUnprocessableEntity)
			continue
		}
		if got := len(all.endings(query)); got != want {
			t.Errorf("%s: %d endings, want %d", query, got, want)
		}
	}
	for query, want := range map[string]int{"limit=3": 10, "prefix=app2": 0, "key=app2:bills:paid:1": 0, "host=shop.example": 9} {
		got := one.endings(query)
		if len(got) != want {
			t.Errorf("client one, %s: %d endings, want %d", query, len(got), want)
		}
		for _, e := range got {
			if !strings.HasPrefix(e.Key, "app1:") {
				t.Errorf("client one sees %s", e.Key)
			}
		}
	}
	// A cursor of another client, or of another query, leads nowhere.
	var page struct{ Cursor string }
	all.do("GET", "/v1/history?limit=3", "").into(&page)
	one.do("GET", "/v1/history?limit=3&cursor="+page.Cursor, "").is(http.StatusBadRequest)
	all.do("GET", "/v1/history?prefix=app1&cursor="+page.Cursor, "").is(http.StatusBadRequest)
}

func iso(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }

func TestAnEndingShowsAllThatIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, withHistory(remembers(t)))
	e := b.endings("key=app1:orders:paid:3")[0]
	if e.Outcome != "delivered" || e.Ending != 1 || e.Route != "orders" || e.Host != "shop.example" ||
		e.EndedAt != "2026-11-20T12:03:00.123Z" || !e.BodyKept ||
		len(e.Attempts) != 1 || e.Attempts[0].Response != "took 3" || e.Headers["X-A"] != "1" || len(e.Withheld) != 1 ||
		e.Headers["X-Token"] != "" ||
		!strings.HasPrefix(e.ID, "msg_") {
		t.Errorf("%+v", e)
	}
	if raw := b.do("GET", "/v1/history?key=app1:orders:paid:3", "").raw; !strings.Contains(raw, `"body":{"n": 3}`) {
		t.Errorf("the body is not byte for byte what it was: %s", raw)
	}
	if got := b.endings("id=" + e.ID); len(got) != 1 || got[0].Key != e.Key {
		t.Errorf("by webhook-id: %+v", got)
	}
	if e := b.endings("key=app1:orders:paid:8")[0]; e.BodyBase64 != "/wA=" || e.Reason != "gone" {
		t.Errorf("%+v", e)
	}
}

func TestWhatRedisKeepsNoLongerIsReadFromHistory(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, withHistory(remembers(t)))
	all, two := b.as("token-of-all"), b.as("token-of-two")
	for id, state := range map[string]string{"3": "delivered", "7": "replaced", "8": "dead"} {
		var n struct {
			Key, State, Route string
			Attempts          []any
			SettledAt         string `json:"settled_at"`
		}
		all.do("GET", "/v1/notices/app1:orders:paid:"+id, "").is(http.StatusOK).into(&n)
		if n.State != state || n.Route != "orders" || len(n.Attempts) != 1 || !strings.HasPrefix(n.SettledAt, "2026-11-20T12:0"+id) {
			t.Errorf("%+v", n)
		}
	}
	all.do("GET", "/v1/notices/app1:orders:paid:99", "").is(http.StatusNotFound)
	two.do("GET", "/v1/notices/app1:orders:paid:3", "").is(http.StatusNotFound)
}

// oneEnding is a history of one ending that is there as long as its engine is.
type oneEnding struct{ api.Engine }

func (h oneEnding) Find(ctx context.Context, _ history.Query) (history.Page, error) {
	if _, _, err := h.Counts(ctx); err != nil {
		return history.Page{}, fmt.Errorf("%w: %w", history.ErrUnavailable, err)
	}
	return history.Page{Rows: []history.Row{{Outcome: notice.EndReplaced, Number: 1, Ended: friday,
		Notice: &notice.Notice{Key: "app1:jobs:t:old", Made: 1, Due: friday}}}}, nil
}

func (h oneEnding) Latest(context.Context, string) (history.Row, bool, error) {
	return history.Row{}, false, nil
}

func (h oneEnding) Erase(ctx context.Context, _ history.Erasure) (history.Erased, error) {
	if _, _, err := h.Counts(ctx); err != nil {
		return history.Erased{}, err
	}
	return history.Erased{Rows: 2, Redis: 1}, nil
}

// broken is a history that does not answer.
func (h oneEnding) MonthReport(ctx context.Context, _ history.ReportQuery) (*history.Report, error) {
	if _, _, err := h.Counts(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", history.ErrUnavailable, err)
	}
	return &history.Report{Total: history.Line{Notices: 1}, Groups: 1, Lines: []history.Line{{Notices: 1, Name: "shop.example"}}}, nil
}

type broken struct{ err error }

func (h broken) MonthReport(context.Context, history.ReportQuery) (*history.Report, error) {
	return nil, h.err
}

func (h broken) Find(context.Context, history.Query) (history.Page, error) {
	return history.Page{}, h.err
}

func (h broken) Latest(context.Context, string) (history.Row, bool, error) {
	return history.Row{}, false, h.err
}

func TestAHistoryThatGivesNoAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{fmt.Errorf("%w: find: dial tcp: refused", history.ErrUnavailable), http.StatusServiceUnavailable, "does not answer"},
		{fmt.Errorf("%w: version 9", history.ErrNewer), http.StatusServiceUnavailable, "newer than this instance"},
		{fmt.Errorf("%w: more than 10s", history.ErrSlow), http.StatusUnprocessableEntity, "took too long"},
		{errors.New("history: find: syntax"), http.StatusServiceUnavailable, "does not answer"},
	} {
		b := newBench(t, withHistory(broken{c.err}))
		for _, path := range []string{"/v1/history", "/v1/notices/app1:orders:paid:1"} {
			if a := b.do("GET", path, "").is(c.status); !strings.Contains(a.raw, c.text) || strings.Contains(a.raw, "refused") {
				t.Errorf("%s, %v: %s", path, c.err, a.raw)
			}
		}
	}
	b := newBench(t)
	if a := b.do("GET", "/v1/history", "").is(http.StatusNotFound); !strings.Contains(a.raw, "NOTIFIER_HISTORY_URL") {
		t.Error(a.raw)
	}
	b.do("GET", "/v1/notices/app1:orders:paid:1", "").is(http.StatusNotFound)
}

func TestWrongSearches(t *testing.T) {
	t.Parallel()
	b := newBench(t, withHistory(remembers(t)))
	for query, at := range map[string]string{
		"key=app1:orders":                  "query.key",
		"key=app1:orders:paid:1&prefix=ap": "query.prefix",
		"prefix=a:b:c:d":                   "query.prefix",
		"host=a/b":                         "query.host",
		"outcome=sent":                     "query.outcome",
		"reason=bad":                       "query.reason",
		"text=x":                           "query.since",
		"limit=0":                          "query.limit",
		"part=4711":                        "query.since",
		"part=app1:orders":                 "query.since",
		"id=4711":                          "query.id",
		"since=yesterday":                  "query.since",
		"state=dead":                       "query.state",
		"text=" + strings.Repeat("x", 201): "query.text",
	} {
		a := b.do("GET", "/v1/history?"+query, "")
		if a.status != http.StatusUnprocessableEntity && a.status != http.StatusBadRequest || !strings.Contains(a.raw, at) {
			t.Errorf("%s: %d %s", query, a.status, a.raw)
		}
	}
}
