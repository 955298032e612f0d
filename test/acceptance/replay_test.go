package acceptance

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/redistest"
)

// The instance that drives a replay is killed half-way: another goes on, and by
// the receiver's log each notice came once more, with its webhook-id.
func TestAReplayOutlivesItsInstance(t *testing.T) {
	replayKilled(t, "sqlite://"+filepath.Join(t.TempDir(), "history.db"), 300, nil)
}

// replayKilled replays n notices; then, if it is not nil, plays with the instance
// that has taken over from the one that was killed.
func replayKilled(t *testing.T, database string, n int64, then func(second *service, begin func() *service, left func() int64) *service) {
	rec := listen(t, nil)
	db := redistest.Start(t)
	begin := func() *service {
		return launch(t, db.URL(), route("pay", "app1", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=128"),
			[]string{"NOTIFIER_HISTORY_URL=" + database, "NOTIFIER_TAKEOVER=1s"})
	}
	first := begin()
	from := time.Now().Add(-time.Minute)
	first.scheduleAll(int(n), func(i int) string { return line(fmt.Sprintf("app1:m:paid:%d", i), time.Now()) })
	rec.wait(waitTimeout, int(n))
	rec.once(int(n))
	await(t, waitTimeout, "the database has confirmed all", func() bool {
		return first.numbers("pay").Settled == n && db.Client().LLen(t.Context(), "notifier:{0}:ended").Val() == 0
	})
	ids := map[string]string{}
	for _, h := range rec.all() {
		ids[h.key] = h.id
	}
	// Nothing is delivered meanwhile: what comes twice then was scheduled twice,
	// and is not the attempt of an instance that was killed.
	if _, err := first.api.Pause(t.Context(), "pay"); err != nil {
		t.Fatal(err)
	}
	asked := client.ReplayRequest{Since: from, Rate: strconv.FormatInt(n/6, 10) + "/s", DryRun: true}
	dry, err := first.api.Replay(t.Context(), asked)
	if err != nil || dry.Total != n {
		t.Fatalf("%v %s", err, dry.JSON)
	}
	asked.DryRun = false
	r, err := first.api.Replay(t.Context(), asked)
	if err != nil || r.Total != n {
		t.Fatalf("%v %s", err, r.JSON)
	}
	look := func(s *service) *client.Replay {
		t.Helper()
		x, err := s.api.ReadReplay(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	await(t, waitTimeout, "a third is sent", func() bool { return look(first).Sent >= n/3 })
	first.kill()
	last := begin()
	if x := look(last); x.State != client.ReplayRunning || x.Left == 0 {
		t.Fatalf("it is over before anything happened: %s", x.JSON)
	}
	if then != nil {
		last = then(last, begin, func() int64 { return look(last).Left })
	}
	await(t, 2*waitTimeout, "the replay is done", func() bool { return look(last).State == client.ReplayDone })
	if x := look(last); x.Sent != n || len(x.Skipped) > 0 || x.Left != 0 {
		t.Errorf("%s", x.JSON)
	}
	if _, err := last.api.Resume(t.Context(), "pay"); err != nil {
		t.Fatal(err)
	}
	await(t, 2*waitTimeout, "nothing is pending", func() bool { return last.numbers("pay").Pending == 0 })
	got := map[string]int{}
	for _, h := range rec.all() {
		if h.replay == "" {
			continue
		}
		if got[h.key]++; h.replay != r.ID || h.id != ids[h.key] || h.attempt != 2 {
			t.Errorf("%+v; its id was %s", h, ids[h.key])
		}
	}
	wrong := 0
	for key := range ids {
		if got[key] != 1 {
			wrong++
		}
	}
	if wrong > 0 || len(got) != int(n) {
		t.Errorf("%d notices were not sent exactly once more; %d came", wrong, len(got))
	}
}
