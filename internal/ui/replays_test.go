package ui_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"notifier/internal/auth"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/ui"
)

// replayer is a list of replays in memory.
type replayer struct {
	list []*history.Replay
	err  error
	now  time.Time // zero = that of the machine
}

func (x *replayer) Make(_ context.Context, r *history.Replay, dry bool) (*jobs.ReplayPlan, error) {
	if x.err != nil {
		return nil, x.err
	}
	now := x.now
	if now.IsZero() {
		now = time.Now().UTC()
	}
	if r.Until.IsZero() {
		r.Until = now
	}
	r.Total, r.Refused = 7, map[string]int64{jobs.BodyHashed: 2}
	p := &jobs.ReplayPlan{Replay: r, Found: 9, Hosts: []jobs.Host{{Name: "shop.example", Notices: 6}, {Notices: 1}}, HostCount: 2,
		Differs: []jobs.Differs{{Route: "orders", Then: "old.example", Now: "shop.example", Notices: 3}}}
	if !dry {
		r.State, r.Made = history.ReplayRunning, now
		x.list = append(x.list, r)
	}
	return p, nil
}

func (x *replayer) List(_ context.Context, prefix string, _ int) (list []history.Replay, err error) {
	for _, r := range x.list {
		if prefix == "" || r.Prefix == prefix || strings.HasPrefix(r.Prefix, prefix+":") {
			list = append(list, *r)
		}
	}
	return list, x.err
}

func (x *replayer) Find(ctx context.Context, q history.ReplayQuery) (list []history.Replay, err error) {
	all, err := x.List(ctx, q.Prefix, 0)
	for _, r := range all {
		if r.Name == q.Name && r.Client == *q.Whose {
			list = append(list, r)
		}
	}
	return list, err
}

func (x *replayer) turn(id string, from, to history.ReplayState) (bool, error) {
	for _, r := range x.list {
		if r.ID == id && r.State == from {
			r.State = to
			return true, x.err
		}
	}
	return false, x.err
}

func (x *replayer) Stop(_ context.Context, id string) (bool, error) {
	return x.turn(id, history.ReplayRunning, history.ReplayStopped)
}

func (x *replayer) Resume(_ context.Context, id string) (bool, error) {
	return x.turn(id, history.ReplayStopped, history.ReplayRunning)
}

// fields are the names and values of a page's form with that action.
func (a answer) fields(action string) (out []string) {
	a.each(func(n *html.Node) {
		if n.Data != "form" || attr(n, "action") != action {
			return
		}
		for d := range n.Descendants() {
			if d.Data == "input" && attr(d, "name") != "csrf" {
				out = append(out, attr(d, "name"), attr(d, "value"))
			}
		}
	})
	return out
}

func TestReplayIsPreviewedStartedStoppedAndResumed(t *testing.T) {
	s, x := newSite(t), &replayer{}
	s.history, s.replays = &archive{}, x
	s = s.as(ui.Visitor{})
	s.get("/ui/replays").is(200).says("No replays", "New replay")
	s.get("/ui/replays/new").is(200).saysNot("preview-title")
	page := s.get("/ui/replays/new?preview=1&since=-6h&host=shop.example&outcome=dead&rate=20/s").is(200)
	page.says("7 notices to 2 hosts", "9 found", "shop.example 6", "none: a list or stream 1", "the history has only a hash of the body 2",
		"old.example shop.example 3", "Replay 7 notices")
	if len(x.list) != 0 {
		t.Fatal("a preview made a replay")
	}

	fields := page.fields("/ui/replays")
	to := s.post("/ui/replays", fields...).is(303).Header.Get("Location")
	if len(x.list) != 1 || x.list[0].Rate != 20 || x.list[0].Host != "shop.example" || len(x.list[0].Outcomes) != 1 ||
		x.list[0].Client != "me" {
		t.Fatalf("%+v", x.list)
	}
	path, _, _ := strings.Cut(to, "?")
	s.get(to).is(200).says("The replay is started", "running", "0 of 7 notices sent · 7 left", "ended from", "20/s", "· me")
	x.list[0].Counts = map[string]int64{jobs.Sent: 3, jobs.Pending: 1}
	s.get(path).says("57 %", "3 of 7 notices sent · 3 left", "another notice is pending under the key 1")
	s.post(path + "/stop").is(303)
	s.get(path+"?said=replay-stopped").says("The replay is stopped", "stopped", "Resume")
	s.get(s.post(path + "/stop").is(303).Header.Get("Location")).says("Nothing was changed")
	s.post(path + "/resume").is(303)
	s.get("/ui/replays").says("running", "3 of 7", "shop.example")
	s.get("/ui/audit").says("replay-stop", "replay-resume")

	s.as(ui.Visitor{Prefix: "app2"}).get(path).is(404)
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/replays").says("No replays")
	reader := s.as(ui.Visitor{Role: auth.Read})
	reader.get(path).is(200).saysNot("Stop<")
	reader.get("/ui/replays/new").is(403)
	reader.get("/ui/replays").saysNot("New replay")
}

func TestInvalidReplaysAreRefused(t *testing.T) {
	s, x := newSite(t), &replayer{}
	s.history, s.replays = &archive{}, x
	s = s.as(ui.Visitor{Prefix: "app1"})
	for query, want := range map[string]string{
		"":                             "the start of a window",
		"since=-1h&until=-2h":          "not after its start",
		"since=-1h&prefix=app2":        "You may only replay notices under app1",
		"since=-1h&prefix=a:b:c:d":     "Not a prefix",
		"since=-1h&rate=fast":          "Not a rate",
		"since=-1h&rate=20000/s":       "at most 10,000/s",
		"since=-1h&host=a/b":           "Not a host",
		"since=-1h&outcome=cancelled":  "Only delivered and dead notices",
		"since=25:00":                  "25:00 is not a time",
		"since=-1h&prefix=app1:orders": "7 notices to 2 hosts",
	} {
		s.get("/ui/replays/new?preview=1&" + query).is(200).says(want)
	}
	s.get("/ui/replays/me:none").is(404)
	x.err = fmt.Errorf("%w: nothing fits", jobs.ErrEmptyReplay)
	s.get("/ui/replays/new?preview=1&since=-1h").is(200).says("The replay would send no notice")
	x.err = history.ErrUnavailable
	s.get("/ui/replays").is(503).says("The history database is unavailable")
	s.post("/ui/replays", "since", "-1h").is(503)
}

func TestPagesWithoutHistory(t *testing.T) {
	s := newSite(t)
	s.get("/ui/").saysNot("/ui/history", "/ui/replays")
	for _, path := range []string{"/ui/history", "/ui/replays", "/ui/replays/new", "/ui/replays/me:x"} {
		s.get(path).is(404).says("This instance has no history")
	}
}

func TestHistoryPage(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history, s.replays = a, &replayer{}
	s = s.as(ui.Visitor{})
	a.put("app1:orders:paid:1", notice.EndDelivered, nil)
	a.put("app1:orders:paid:2", notice.EndReplaced, nil)
	s.get("/ui/history").is(200).says("app1:orders:paid:1", "app1:orders:paid:2", "Replay")
	s.get("/ui/history?state=replaced").says("app1:orders:paid:2").saysNot("paid:1<")
	found := ""
	s.get("/ui/history?since=2026-11-17T12:00:00Z&route=orders&state=dead&host=shop.example").is(200).each(func(n *html.Node) {
		if to := attr(n, "href"); strings.HasPrefix(to, "/ui/replays/new?") {
			found = to
		}
	})
	u, err := url.Parse(found)
	if err != nil || u.Query().Encode() != (url.Values{"since": {"2026-11-17T12:00:00Z"}, "prefix": {"app1:orders"}, "outcome": {"dead"},
		"host": {"shop.example"}}).Encode() {
		t.Errorf("the search leads to the replay %q, %v", found, err)
	}
	a.err = history.ErrUnavailable
	s.get("/ui/history").is(200).says("The history database is unavailable", "History")
}
