package clienttest_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"notifier/client"
	"notifier/client/clienttest"
)

// replaying compares replays, of what it has let end before.
func replaying(w *world) {
	ctx := w.t.Context()
	const prefix = "cmp:hook:re"
	for _, id := range []string{"1", "2", "gone", "secret"} {
		r := client.Request{Key: prefix + ":" + id, URL: w.shop + "/200", Body: []byte(`{"n":1}`)}
		state := client.Delivered
		switch id {
		case "gone":
			r.URL, state = w.shop+"/410", client.Dead
		case "secret":
			r.Headers = map[string]string{"X-Token": "7"}
		}
		w.schedule(r)
		w.pass(r.Key, settled(state, 1))
	}
	note := func(what string, x *client.Replay, err error) {
		if err != nil {
			w.note(what, nil, err)
			return
		}
		var shown map[string]any
		if err := json.Unmarshal(x.JSON, &shown); err != nil {
			w.t.Fatal(err)
		}
		for _, name := range []string{"since", "until", "changed_at"} {
			if shown[name] == "" {
				w.t.Errorf("%s: no %s", what, name)
			}
			shown[name] = ""
		}
		w.note(what, shown, nil)
	}
	asked := client.ReplayRequest{Since: time.Now().Add(-30 * time.Hour).Truncate(time.Second), Prefix: prefix, Rate: "600/m"}
	dry := func() (*client.Replay, error) {
		again := asked
		again.DryRun = true
		return w.c.Replay(ctx, again)
	}
	w.wait("the history has them", func() bool { x, err := dry(); return err == nil && x.Found == 4 })
	x, err := dry()
	note("dry run", x, err)
	for _, r := range []client.ReplayRequest{{}, {Since: asked.Since, Until: asked.Since}, {Since: asked.Since, Rate: "fast"}, {Since: asked.Since, Rate: "99999/s"},
		{Since: asked.Since, ID: "a.b"}, {Since: asked.Since, Prefix: "a b"}, {Since: asked.Since, Host: "a/b"}, {Since: asked.Since, Outcome: []string{"cancelled"}},
		{Since: asked.Since, Prefix: "cmp:hook:nothing", ID: "none"}, {Since: asked.Since, Prefix: prefix, Host: "other.example", ID: "none"}} {
		x, err := w.c.Replay(ctx, r)
		note(fmt.Sprintf("wrong %s %s %s %s", r.ID, r.Rate, r.Prefix, r.Host), x, err)
	}
	w.post("POST", "/v1/replays", "application/json", `{"since":7}`)
	w.post("POST", "/v1/replays", "application/json", `{"since":"2026-01-01T00:00:00Z","outcome":"dead"}`)
	w.post("POST", "/v1/replays", "application/json", `{"since":"2026-01-01T00:00:00Z","colour":"red"}`)

	over := func(id string) {
		w.wait("the replay is done", func() bool { x, err := w.c.ReadReplay(ctx, id); return err == nil && x.State == client.ReplayDone })
		x, err := w.c.ReadReplay(ctx, id)
		note("read", x, err)
	}
	// Something waits under one of the keys.
	w.schedule(client.Request{Key: prefix + ":2", URL: w.shop + "/200", Delay: 20 * time.Hour, OnDuplicate: client.Replace})
	if _, err := w.c.Pause(ctx, "hook"); err != nil {
		w.t.Fatal(err)
	}
	for _, id := range []string{"same", "same"} {
		asked.ID = id
		x, err := w.c.Replay(ctx, asked)
		if err == nil && x.State == client.ReplayDone { // as the repeated call may find it
			w.t.Errorf("%s", x.JSON)
		}
		if err != nil || x.ID != "same" || x.Total != 3 {
			w.t.Errorf("%+v, %v", x, err)
		}
	}
	over("same")
	other := asked
	other.NewIDs = true
	x, err = w.c.Replay(ctx, other)
	note("in other words", x, err)
	if _, err := w.c.Resume(ctx, "hook"); err != nil {
		w.t.Fatal(err)
	}
	for _, id := range []string{"1", "gone", "secret", "2"} {
		switch id {
		case "1":
			w.pass(prefix+":1", settled(client.Delivered, 1))
		case "gone":
			w.pass(prefix+":gone", settled(client.Dead, 1))
		}
		w.get(prefix + ":" + id)
	}
	// Again, stopped and resumed, with new ids.
	asked.ID, asked.NewIDs, asked.Outcome, asked.Rate = "anew", true, []string{client.Dead}, "5/s"
	w.wait("the history has the second death", func() bool { x, err := dry(); return err == nil && x.Total == 1 })
	x, err = w.c.Replay(ctx, asked)
	if err != nil || x.Total != 1 {
		w.t.Errorf("%+v, %v", x, err)
	}
	over("anew")
	w.pass(prefix+":gone", settled(client.Dead, 1))
	w.get(prefix + ":gone")
	for _, id := range []string{"anew", "none"} {
		x, err := w.c.StopReplay(ctx, id)
		note("stop "+id, x, err)
		x, err = w.c.ResumeReplay(ctx, id)
		note("resume "+id, x, err)
		if id == "none" {
			x, err = w.c.ReadReplay(ctx, id)
			note("read "+id, x, err)
		}
	}
	list, err := w.c.Replays(ctx)
	if err != nil || len(list.Items) != 2 || list.Items[0].ID != "anew" || list.Items[1].Sent != 2 || list.Items[1].Skipped["pending"] != 1 {
		w.t.Errorf("%+v, %v", list, err)
	}
}

// In the fake a replay keeps its rate, is stopped and goes on.
func TestAReplayKeepsItsRate(t *testing.T) {
	s := clienttest.New(clienttest.Options{Routes: []clienttest.Route{{Name: "jobs", Target: "list:jobs"}}})
	defer s.Close()
	c := s.Client()
	defer c.Close()
	from := s.Now()
	for i := range 10 {
		if _, err := c.Schedule(t.Context(), client.Request{Key: fmt.Sprintf("a:b:c:%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	s.Advance(time.Minute)
	if n := len(s.Take("jobs")); n != 10 {
		t.Fatal(n)
	}
	r, err := c.Replay(t.Context(), client.ReplayRequest{Since: from, Rate: "1/s"})
	if err != nil || r.Total != 10 {
		t.Fatal(r, err)
	}
	s.Advance(3500 * time.Millisecond)
	if list := s.Take("jobs"); len(list) != 4 || list[0].Replay != r.ID || list[0].Attempt != 2 || list[3].Due.Sub(list[0].Due) != 3*time.Second {
		t.Errorf("%+v", list)
	}
	if x, err := c.StopReplay(t.Context(), r.ID); err != nil || x.State != client.ReplayStopped || x.Left != 6 {
		t.Error(x, err)
	}
	s.Advance(time.Hour)
	if x, err := c.ResumeReplay(t.Context(), r.ID); err != nil || x.State != client.ReplayRunning || len(s.Take("jobs")) != 0 {
		t.Error(x, err)
	}
	s.Advance(time.Minute)
	if n := len(s.Take("jobs")); n != 6 {
		t.Error(n)
	}
	if x, err := c.ReadReplay(t.Context(), r.ID); err != nil || x.State != client.ReplayDone || x.Sent != 10 || x.Left != 0 {
		t.Error(x, err)
	}
}
