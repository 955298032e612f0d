//go:build !quick

package acceptance

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"notifier/client"
)

// What dies in a replay is listed, purged and put back as any dead letter: under the
// webhook-id that it had, or that the replay has given it, and as a part of the replay.
func TestReplayedDeadLetterIsRestored(t *testing.T) {
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, h hit) {
		if h.replay != "" && h.attempt < 3 { // the attempt of the replay, not of the later redrive
			w.WriteHeader(http.StatusGone)
		}
	})
	db := newRedis(t)
	s := launch(t, db.URL(), route("pay", "app1", rec.url), []string{"NOTIFIER_HISTORY_URL=sqlite://" + filepath.Join(t.TempDir(),
		"history.db")})
	for _, same := range []bool{true, false} {
		key := map[bool]string{true: "app1:m:t:same", false: "app1:m:t:new"}[same]
		if _, err := s.api.Schedule(t.Context(), client.Request{Key: key, Body: []byte(`{"a": 1}`)}); err != nil {
			t.Fatal(err)
		}
		settles(t, s, key, client.Delivered)
		from := rec.of(key)[0]
		await(t, waitTimeout, "the row is there", func() bool {
			e, err := s.api.History(t.Context(), client.HistoryQuery{Key: key})
			return err == nil && len(e.Items) == 1
		})
		asked := client.ReplayRequest{ID: key[9:], Since: time.Now().Add(-time.Hour), Outcome: []client.State{client.Delivered}, NewIDs: !same,
			Rate: "100/s"}
		if r, err := s.api.Replay(t.Context(), asked); err != nil || r.Total < 1 {
			t.Fatal(r, err)
		}
		dead := settles(t, s, key, client.Dead)
		if dead.Replay != asked.ID || (dead.ID == from.id) != same {
			t.Errorf("%s", dead.JSON)
		}
		if _, err := s.api.Cancel(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "dead.ndjson")
		if err := os.WriteFile(file, append(dead.JSON, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		says(t, s.exec(0, "import", file, "--json"), `"put_back": 1`)
		back := settles(t, s, key, client.Dead)
		// Unchanged, except for the counted outcome of the purge.
		if back.EndedBefore != dead.EndedBefore+1 || !sameButEndings(t, back.JSON, dead.JSON) {
			t.Errorf("%s\nwas\n%s", back.JSON, dead.JSON)
		}
		if _, err := s.api.Redrive(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if same {
			settles(t, s, key, client.Delivered)
		}
		await(t, waitTimeout, "the third delivery", func() bool { return len(rec.of(key)) == 3 })
		if last := rec.of(key)[2]; last.replay != asked.ID || last.id != dead.ID || last.body != `{"a": 1}` {
			t.Errorf("%+v", last)
		}
	}
}

// settles waits until a notice is in a state.
func settles(t *testing.T, s *service, key string, state client.State) (n *client.Notice) {
	t.Helper()
	await(t, waitTimeout, key+" "+string(state), func() bool {
		var err error
		n, err = s.api.Get(t.Context(), key)
		return err == nil && n.State == state
	})
	return n
}

// sameButEndings compares two notices, but for how often they had ended before.
func sameButEndings(t *testing.T, a, b []byte) bool {
	t.Helper()
	var texts [2]string
	for i, raw := range [][]byte{a, b} {
		var v map[string]any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		delete(v, "ended_before")
		delete(v, "ending")
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	return texts[0] == texts[1]
}
