//go:build !quick

package browser

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/notice"
)

// What failed yesterday between 10 and 11, as a file: failures of that hour, of the hours around it and of another day, in Redis
// and in the history only.
func TestSupportDownloadsWhatFailedYesterday(t *testing.T) {
	at := "sqlite://" + filepath.Join(t.TempDir(), "history.db")
	s := start(t, "NOTIFIER_HISTORY_URL", at)
	d, err := history.Open(history.Options{URL: at})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	day := func(ago int) time.Time { return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -ago) }
	yesterday := day(1)
	died := diedAround(yesterday, "")
	died["before"] = yesterday.Add(-14 * time.Hour)
	if today := day(0); time.Since(today) > 12*time.Hour { // midnight may pass before the search, and then yesterday is this day
		maps.Copy(died, diedAround(today, "-today"))
	}
	var lines bytes.Buffer
	var rows []history.Row
	for name, at := range died {
		n := &notice.Notice{Key: "shop:paid:notice:redis-" + name, Made: notice.MadeAt(at.Add(-time.Hour))}
		if err := json.NewEncoder(&lines).Encode(map[string]any{"key": n.Key, "url": "https://shop.example/x", "state": "dead",
			"due": at.Add(-time.Minute), "created_at": n.Made.Time(), "id": n.ID(), "settled_at": at, "reason": "status_5xx", "attempts_made": 1,
			"attempts": []map[string]any{{"n": 1, "at": at, "status": 500, "duration_ms": 9, "reason": "status_5xx"}}}); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, failedRow("shop:paid:notice:past-"+name, notice.EndDead, at))
	}
	rows = append(rows, failedRow("shop:paid:notice:past-delivered", notice.EndDelivered, died["first"]))
	s.restore(lines.String(), len(died))
	if _, err := d.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}

	b := browse(t, s)
	b.open("/ui/")
	c := &clicker{tab: b}
	c.submits("input[name=q]", "failed yesterday 10-11")
	c.sees("redis-first")
	c.sees("past-last")
	c.sees("Download CSV")
	to := js[string](b, `document.querySelector("a[download]").href`)
	c.n++ // the browser saves the file of this link
	if c.n > 3 {
		t.Errorf("%d clicks, want at most 3", c.n)
	}
	res, err := http.Get(to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	table, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(table) == 0 {
		t.Fatalf("%v %s", err, text)
	}
	var got []string
	for _, line := range table[1:] {
		got = append(got, line[slices.Index(table[0], "key")])
	}
	slices.Sort(got)
	of := func(day string) []string {
		return []string{"shop:paid:notice:past-first" + day, "shop:paid:notice:past-last" + day, "shop:paid:notice:redis-first" + day,
			"shop:paid:notice:redis-last" + day}
	}
	if passed := !day(1).Equal(yesterday); !slices.Equal(got, of("")) && !(passed && slices.Equal(got, of("-today"))) {
		t.Errorf("the file has %q, want %q", got, of(""))
	}
}

// diedAround returns times in the hour from 10 of a day and around it.
func diedAround(day time.Time, suffix string) map[string]time.Time {
	return map[string]time.Time{"early" + suffix: day.Add(9*time.Hour + 59*time.Minute), "first" + suffix: day.Add(10 * time.Hour),
		"last" + suffix: day.Add(11*time.Hour - time.Millisecond), "after" + suffix: day.Add(11 * time.Hour)}
}

func failedRow(key string, outcome notice.Ending, at time.Time) history.Row {
	n := &notice.Notice{Key: key, Route: "shop:paid", Made: notice.MadeAt(at.Add(-time.Hour)), Due: at, AttemptsMade: 1,
		Content:  notice.Content{URL: "https://shop.example/x", Body: []byte(`{}`)},
		Attempts: []notice.Attempt{{Number: 1, At: at, Status: 500, Reason: notice.ReasonStatus5xx}}}
	r := history.Row{Notice: n, Outcome: outcome, Number: 1, Ended: at, Host: "shop.example", BodyKept: true, BodySize: 2}
	if outcome == notice.EndDead {
		r.Reason = notice.ReasonStatus5xx
	}
	return r
}
