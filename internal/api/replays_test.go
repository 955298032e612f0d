package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
)

// replayer has replays in three states, and no replays while its engine fails. It records its calls.
type replayer struct {
	api.Engine
	asked []*history.Replay
	dry   []bool
	err   error
}

func (x *replayer) answer(ctx context.Context) error {
	if _, _, err := x.Counts(ctx); err != nil {
		return fmt.Errorf("%w: %w", history.ErrUnavailable, err)
	}
	return x.err
}

func (x *replayer) Make(ctx context.Context, r *history.Replay, dry bool) (*jobs.ReplayPlan, error) {
	if r.Name == "known" && !dry {
		old, _, err := x.one(ctx, "rpl_runs")
		return &jobs.ReplayPlan{Replay: &old, Known: true}, err
	}
	if r.Name == "other" && !dry {
		return nil, jobs.ErrOtherReplay
	}
	x.asked, x.dry = append(x.asked, r), append(x.dry, dry)
	r.Total, r.Refused, r.State, r.Made, r.Changed = 7, map[string]int64{jobs.BodyHashed: 2}, history.ReplayRunning, friday, friday
	return &jobs.ReplayPlan{Replay: r, Found: 9,
			Differs: []jobs.Differs{{Route: "jobs", Then: "old.example", Now: "new.example", Notices: 3}}},
		x.answer(ctx)
}

func (x *replayer) List(ctx context.Context, prefix string, n int) ([]history.Replay, error) {
	r, _, err := x.one(ctx, "rpl_runs")
	return []history.Replay{r}, err
}

func (x *replayer) Find(ctx context.Context, q history.ReplayQuery) ([]history.Replay, error) {
	r, ok, err := x.one(ctx, q.Name)
	if !ok || err != nil || q.Prefix != "" {
		return nil, err
	}
	if q.Name == "rpl_both" { // two clients gave it
		return []history.Replay{r, r}, nil
	}
	return []history.Replay{r}, nil
}

func (x *replayer) one(ctx context.Context, id string) (r history.Replay, ok bool, err error) {
	state := map[string]history.ReplayState{"rpl_runs": history.ReplayRunning, "rpl_both": history.ReplayRunning,
		"rpl_stopped": history.ReplayStopped, "rpl_done": history.ReplayDone}[id]
	return history.Replay{ID: id, Name: id, State: state, Total: 10, Counts: map[string]int64{"sent": 3, "pending": 2}, Made: friday,
			Changed:     friday,
			ReplayAbout: history.ReplayAbout{Rate: 10. / 60, Since: friday, Until: friday, Outcomes: []notice.Ending{notice.EndDead}}}, state != "",
		x.answer(ctx)
}

func (x *replayer) Stop(ctx context.Context, id string) (bool, error) {
	return false, x.answer(ctx)
}

func (x *replayer) Resume(ctx context.Context, id string) (bool, error) {
	return false, x.answer(ctx)
}

func TestReplaysWithoutAHistory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for method, path := range map[string]string{"GET": "/v1/replays", "DELETE": "/v1/replays/x", "POST": "/v1/replays"} {
		body := ""
		if method == "POST" {
			body = `{"since":"2026-11-20T00:00:00Z"}`
		}
		if a := b.do(method, path, body).is(404); !strings.Contains(a.raw, "NOTIFIER_HISTORY_URL") {
			t.Errorf("%s %s: %s", method, path, a.raw)
		}
	}
}

func TestWhatAReplayIsAskedFor(t *testing.T) {
	t.Parallel()
	x := &replayer{}
	b := newBench(t, withClients, func(o *api.Options) { x.Engine, o.Replayer = o.Engine, x })
	all, one := b.as("token-of-all"), b.as("token-of-one")
	a := all.do("POST", "/v1/replays", `{"since":"2026-11-20T00:00:00Z"}`).is(201)
	for _, want := range []string{`"found":9`, `"total":7`, `"refused":{"body_hashed":2}`,
		`"then":"old.example","now":"new.example","notices":3`, `"state":"running"`, `"rate":"50/s"`, `"id":"rpl_`} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("%s is not in %s", want, a.raw)
		}
	}
	a = all.do("POST", "/v1/replays",
		`{"since":"2026-11-20T00:00:00Z","until":"2026-11-20T06:00:00Z","host":"Shop.Example","outcome":["dead"],"rate":"600/m","new_ids":true,"dry_run":true,"prefix":"app1:"}`).is(200)
	if strings.Contains(a.raw, "rpl_") || strings.Contains(a.raw, `"state"`) {
		t.Error(a.raw)
	}
	r := x.asked[1]
	if !x.dry[1] || x.dry[0] || r.Prefix != "app1" || r.Host != "shop.example" || len(r.Outcomes) != 1 || r.Outcomes[0] != notice.EndDead ||
		r.Rate != 10 || !r.NewIDs || r.Until.Sub(r.Since) != 6*time.Hour {
		t.Errorf("%+v", r)
	}
	// A client with a prefix replays its own, whatever wider it says.
	one.do("POST", "/v1/replays", `{"since":"2026-11-20T00:00:00Z"}`).is(201)
	if r := x.asked[2]; r.Prefix != "app1" || r.Client != "one" {
		t.Errorf("%+v", r)
	}
	one.do("POST", "/v1/replays", `{"since":"2026-11-20T00:00:00Z","prefix":"app2:x"}`).is(403)
	one.do("GET", "/v1/replays/rpl_runs", "").is(404) // it is of all prefixes
	one.do("DELETE", "/v1/replays/rpl_runs", "").is(404)
	if len(x.asked) != 3 {
		t.Errorf("%d were asked for", len(x.asked))
	}
	if a := all.do("POST", "/v1/replays", `{"since":"2026-11-20T00:00:00Z","id":"shop-1_A"}`).is(201); x.asked[3].Name != "shop-1_A" ||
		x.asked[3].ID == "shop-1_A" || !strings.Contains(a.raw, `"id":"shop-1_A"`) {
		t.Error(a.raw)
	}
	if a := all.do("POST", "/v1/replays", `{"since":"2026-11-20T00:00:00Z","id":"known"}`).is(200); !strings.Contains(a.raw, `"sent":3`) {
		t.Error(a.raw)
	}
	if a := all.do("POST", "/v1/replays", `{"since":"2026-11-20T00:00:00Z","id":"other"}`).is(409); !strings.Contains(a.raw, "and other parameters") {
		t.Error(a.raw)
	}
	for body, want := range map[string]string{`{}`: "start of the window", `{"since":"2026-11-20T00:00:00Z","id":"a.b"}`: "letters, digits",
		`{"since":"2026-11-20T00:00:00Z","id":""}`: "letters, digits", `{"since":"x"}`: "want a time",
		`{"since":"2026-11-20T00:00:00Z","until":"2026-11-19T00:00:00Z"}`: "not after since",
		`{"since":"2026-11-20T00:00:00Z","outcome":["cancelled"]}`:        "want delivered or dead",
		`{"since":"2026-11-20T00:00:00Z","outcome":"dead"}`:               "want an array",
		`{"since":"2026-11-20T00:00:00Z","rate":"99999/s"}`:               "at most 10000/s",
		`{"since":"2026-11-20T00:00:00Z","prefix":"a b"}`:                 "prefix",
		`{"since":"2026-11-20T00:00:00Z","host":"a b"}`:                   "want a host",
		`{"since":"2026-11-20T00:00:00Z","dry_run":1}`:                    "want true or false"} {
		if a := all.do("POST", "/v1/replays", body).is(422); !strings.Contains(a.raw, want) {
			t.Errorf("%s: %s", body, a.raw)
		}
	}
	x.err = fmt.Errorf("%w: 9: only a hash", jobs.ErrEmptyReplay)
	if a := all.do("POST", "/v1/replays", `{"since":"2026-11-20T00:00:00Z"}`).is(422); !strings.Contains(a.raw, "only a hash") {
		t.Error(a.raw)
	}
	x.err = nil
	a = all.do("GET", "/v1/replays/rpl_runs", "").is(200)
	for _, want := range []string{`"sent":3`, `"skipped":{"pending":2}`, `"left":5`, `"rate":"10/m"`} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("%s is not in %s", want, a.raw)
		}
	}
	a = all.do("GET", "/v1/audit", "").is(200)
	if strings.Count(a.raw, `"action":"replay"`) != 3 || !strings.Contains(a.raw, "7 notices that ended since 2026-11-20T00:00:00Z") {
		t.Error(a.raw)
	}
}

// named has replays of one name that several clients made.
type named struct {
	*replayer
	makers []string
	got    history.ReplayQuery
}

func (x *named) Find(ctx context.Context, q history.ReplayQuery) (list []history.Replay, err error) {
	x.got = q
	for _, client := range x.makers {
		r, _, err := x.one(ctx, "rpl_runs")
		if err != nil {
			return nil, err
		}
		if r.Client = client; client == q.Caller {
			return []history.Replay{r}, nil
		}
		if q.Whose == nil || *q.Whose == client {
			list = append(list, r)
		}
	}
	return list, nil
}

// Ids are unique within a client. A caller that sees several clients' replays must name the client.
func TestReplayOfAnotherClientIsNamed(t *testing.T) {
	t.Parallel()
	var x *named
	b := newBench(t, withClients, func(o *api.Options) {
		x = &named{replayer: &replayer{Engine: o.Engine}, makers: []string{"one", "two"}}
		o.Replayer = x
	}).as("token-of-all")
	b.do("GET", "/v1/replays/rpl_runs", "").is(409).says("several clients", "one:rpl_runs")
	b.do("GET", "/v1/replays/two:rpl_runs", "").is(200).says(`"client":"two"`, `"id":"rpl_runs"`)
	b.do("GET", "/v1/replays/all:rpl_runs", "").is(404)
	x.makers = append(x.makers, "all")
	b.do("GET", "/v1/replays/rpl_runs", "").is(200).says(`"client":"all"`)
	b.as("token-of-one").do("GET", "/v1/replays/two:rpl_runs", "")
	if x.got.Prefix != "app1" || x.got.Caller != "one" {
		t.Errorf("a client with a prefix asks for %+v", x.got)
	}
}
