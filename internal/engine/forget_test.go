package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

const forgottenAge = 20 * time.Millisecond

// sealedFor returns a request with secret content.
func sealedFor(audience string, i int, delay time.Duration) store.Request {
	return store.Request{Key: key(i), Delay: delay, Content: notice.Content{URL: "https://shop.example/",
		Audience: audience, Body: []byte(card)}}
}

func (w *world) scheduleSealed(t *testing.T, list ...store.Request) {
	t.Helper()
	for _, r := range list {
		if reply, err := w.Schedule(t.Context(), r); err != nil || !reply.Created {
			t.Fatal(reply, err)
		}
	}
}

// forget forgets an audience, and waits for the end of the job.
func (w *world) forget(t *testing.T, audience string) (f jobs.Forgotten) {
	t.Helper()
	f, err := w.ForgetSubject(t.Context(), seal.AudienceSubject(audience), "")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the end of the job", func() bool {
		f.Job, err = w.ReadRedirect(t.Context(), f.Job.ID)
		return err == nil && f.Job.State == jobs.Done
	})
	return f
}

func startSealing(t *testing.T, srv *testkit.Redis, h *sink, scope seal.Scope) *world {
	t.Helper()
	return start(t, srv, h, func(o *Options) {
		o.SealKeys, o.KeyAge, o.Logger, o.Space.Shards = testkit.ServiceKeys(t, "k"), forgottenAge, zap.NewNop(), 2
	}, sealedRoute(scope))
}

func TestForgottenAudienceIsCancelledAndUnreadable(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}, 10), make(chan struct{})
	h := newSink(10)
	h.answer = func(n *notice.Notice) notice.Result {
		if string(n.Body) != card {
			t.Errorf("the handler got %q", n.Body)
		}
		began <- struct{}{}
		<-release
		r := notice.RetryResult(notice.ReasonStatus5xx, "")
		r.Status, r.Response = 503, card
		return r
	}
	srv := testkit.SharedRedis(t)
	w, other := startSealing(t, srv, h, seal.PerAudience), startSealing(t, srv, h, seal.PerAudience)
	w.scheduleSealed(t, sealedFor("m_1", 1, 0))
	testkit.Next(t, "the attempt", began)
	w.scheduleSealed(t, sealedFor("m_1", 2, time.Hour), sealedFor("m_2", 3, time.Hour))
	f := w.forget(t, "m_1")
	if f.Keys < 1 || len(f.Missing) > 0 || f.Job.Redirected != 1 || f.Job.Claimed != 1 {
		t.Errorf("%+v", f)
	}
	again := w.forget(t, "m_1") // as after a lost answer
	if !again.At.Equal(f.At) || again.Keys != 0 || again.Job.Redirected != 0 {
		t.Errorf("again: %+v", again)
	}

	for _, e := range []*world{w, other} {
		x := e.until(t, key(2), notice.Cancelled)
		if e.Open(t.Context(), &x); x.Forgotten.Sub(f.At).Abs() > time.Minute || len(x.Body) > 0 || x.Sealed == "" {
			t.Errorf("%+v", x)
		}
		x = e.until(t, key(3), notice.Scheduled)
		if e.Open(t.Context(), &x); !x.Forgotten.IsZero() || string(x.Body) != card {
			t.Errorf("another audience: %+v", x.Notice)
		}
		if _, err := e.Schedule(t.Context(), sealedFor("m_1", 4, time.Hour)); vault.ForgottenAt(err).IsZero() {
			t.Errorf("a new notice: %v", err)
		}
	}

	close(release) // the attempt in flight ends as usual, and its retry is dead
	x := w.until(t, key(1), notice.Dead)
	if x.Reason != notice.ReasonForgotten || x.Attempts[0].Status != 503 || x.Attempts[0].Sealed == "" || len(began) > 0 {
		t.Errorf("%+v, %d more attempts", x.Notice, len(began))
	}
	if _, _, err := w.Readdress(t.Context(), key(1), notice.Address{URL: "https://new.example/"}, nil); vault.ForgottenAt(err).IsZero() {
		t.Errorf("another address: %v", err)
	}
	if _, err := w.LiftSubject(t.Context(), seal.AudienceSubject("m_1")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Redrive(t.Context(), key(1), notice.Expiry{}); err != nil {
		t.Fatal(err)
	}
	other.scheduleSealed(t, sealedFor("m_1", 5, time.Hour))
	x = w.until(t, key(5), notice.Scheduled)
	if w.Open(t.Context(), &x); string(x.Body) != card {
		t.Errorf("after the lift: %+v", x)
	}
	w.untilEnding(t, key(1), 2) // the old content stays gone
	if x := w.until(t, key(1), notice.Dead); x.Reason != notice.ReasonForgotten {
		t.Errorf("redriven after the lift: %+v", x.Notice)
	}
}

func TestForgetIDCancelsItsNoticesOnly(t *testing.T) {
	t.Parallel()
	w := startSealing(t, testkit.SharedRedis(t), newSink(1), seal.PerID)
	at := func(k string) store.Request {
		r := sealedFor("", 0, time.Hour)
		r.Key = k
		return r
	}
	w.scheduleSealed(t, at("app1:trans:paid:7"), at("app1:trans:refund:7~2"), at("app1:trans:paid:8"), at("app1:other:paid:7"))
	f, err := w.ForgetSubject(t.Context(), seal.IDSubject("app1:trans:7"), "")
	if err != nil || f.Keys != 1 || f.Job.Prefix != "app1:trans" {
		t.Fatalf("%+v, %v", f, err)
	}
	for k, want := range map[string]notice.State{"app1:trans:paid:7": notice.Cancelled, "app1:trans:refund:7~2": notice.Cancelled,
		"app1:trans:paid:8": notice.Scheduled, "app1:other:paid:7": notice.Scheduled} {
		x := w.until(t, k, want)
		if w.Open(t.Context(), &x); x.Forgotten.IsZero() != (want == notice.Scheduled) {
			t.Errorf("%s: forgotten at %s", k, x.Forgotten)
		}
	}
}

func TestForgetNamesInstancesThatMayHaveTheKeys(t *testing.T) {
	t.Parallel()
	w := startSealing(t, testkit.SharedRedis(t), newSink(1), seal.PerAudience)
	s := fleet.NewStore(w.store.Layout)
	for id, about := range map[string]string{"aaaaaaaaaaaa": `{"label":"earlier"}`, "bbbbbbbbbbbb": `{"label":"frozen","forgets":true}`,
		"cccccccccccc": `{"label":"alive","forgets":true}`} {
		if _, err := s.Publish(t.Context(), fleet.Heartbeat{ID: id, About: about}); err != nil {
			t.Fatal(err)
		}
	}
	old := float64(time.Now().Add(-time.Minute).UnixMilli())
	if err := w.srv.Client().ZAdd(t.Context(), w.store.Space().FleetSigns(), redis.Z{Member: "bbbbbbbbbbbb", Score: old}).Err(); err != nil {
		t.Fatal(err)
	}
	f, err := w.ForgetSubject(t.Context(), seal.AudienceSubject("m_1"), "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range f.Missing {
		names = append(names, x.Label)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"earlier", "frozen"}) {
		t.Errorf("%q", names)
	}
}
