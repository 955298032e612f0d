package jobs

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// startBulk starts a bulk change.
func (w *redirectWorld) startBulk(kind string, rule Rule, f Filter) *Job {
	w.t.Helper()
	now, err := w.s.Wire().Now(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	r := &Job{ID: NewID(kind), Kind: kind, Rule: rule, Filter: f, State: Running, Made: now, Changed: now}
	if err := w.s.Add(w.t.Context(), r, MaxJobs); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// kill makes a notice a dead letter.
func (w *redirectWorld) kill(i int) {
	w.t.Helper()
	c := w.claim(i)
	c.Add(notice.Attempt{Number: c.NextAttempt(), At: time.Now(), Reason: notice.ReasonTimeout})
	c.Reason = notice.ReasonTimeout
	out, err := w.s.Settle(w.t.Context(), w.s.Space().Partition(prefix, c.Key), []store.Settlement{{Claim: c, Ending: store.EndDead}})
	if err != nil || out[0].Stale {
		w.t.Fatalf("%+v, %v", out, err)
	}
}

// states are the states of notices 0 … n-1, by their first letters.
func (w *redirectWorld) states(n int) (text string) {
	for i := range n {
		text += string(w.find(i).State[:1])
	}
	return text
}

func TestCancelLeavesClaimedAndOtherNotices(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 2)
	for i := range 6 {
		w.put(i, address(i))
	}
	w.put(6, "https://other.example/x")
	claimed := w.claim(0)
	w.kill(1)
	due := w.find(2).Due
	if c, err := w.s.Amend(t.Context(), prefix, key(2), store.Reschedule, store.When{Delay: 3 * time.Hour}); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	rule := Rule{Prefix: "app1:a", Host: "old.example"}
	r := w.startBulk(KindCancel, rule, Filter{Until: due.Add(time.Hour), Rate: 1000})
	w.put(7, address(7)) // scheduled later
	plan, err := PlanJob(t.Context(), w.s, w.routes, r, time.Minute)
	if err != nil || plan != (JobPlan{Found: 4, InFlight: 1, Complete: true}) {
		t.Errorf("%+v, %v", plan, err)
	}
	if !drive(t.Context(), w.driver()) {
		t.Fatal("not driven")
	}
	if got := w.states(8); got != "cdscccss" {
		t.Errorf("states %s", got)
	}
	if got := w.read(r.ID); got.State != Done || got.Redirected != 3 || got.Claimed != 1 || got.Refused != 0 {
		t.Errorf("%+v", got)
	}
	w.fail(claimed)
	if f := w.find(0); f.State != notice.Scheduled {
		t.Errorf("the attempt of a claimed notice was lost: %s", f.State)
	}
}

// A notice that changes between the reading and the step is read again.
func TestCancelReadsChangedNoticesAgain(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	for i := range 3 {
		w.put(i, address(i))
	}
	r := w.startBulk(KindCancel, Rule{Prefix: "app1"}, Filter{Until: time.Now().Add(90 * time.Minute)})
	d := &changeDrive{Changer: w.driver(), r: *r, as: "x"}
	v := visitor{w.s, w.routes, &d.r, map[string]bool{}}
	p := keys.Partition{Prefix: prefix}
	all := []string{key(0), key(1), key(2)}
	got, err := v.visit(t.Context(), p, all, func(ctx context.Context, p keys.Partition, list []rewrite) ([]string, error) {
		for i, delay := range []time.Duration{time.Minute, 2 * time.Hour} {
			if c, err := w.s.Amend(ctx, prefix, key(i), store.Reschedule, store.When{Delay: delay}); err != nil || !c.Done {
				t.Fatal(c, err)
			}
		}
		return d.amend(ctx, p, list)
	})
	if err != nil || fmt.Sprint(got.left) != fmt.Sprint([]string{key(0), key(1)}) || w.states(3) != "ssc" {
		t.Errorf("%+v, %v, %s", got, err, w.states(3))
	}
	if over, err := d.pass(t.Context()); !over || err != nil || w.states(3) != "csc" || w.read(r.ID).Redirected != 2 {
		t.Errorf("%t, %v, %s, %+v", over, err, w.states(3), w.read(r.ID))
	}
}

// A redrive takes no notice twice, although redriven ones die again, and a purge only those that match.
func TestRedriveAndPurgeTakeDeadLetters(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 2)
	for i := range 6 {
		w.put(i, address(i))
	}
	for i := range 4 {
		w.kill(i)
	}
	none := w.startBulk(KindPurge, Rule{}, Filter{Cause: notice.ReasonDNS})
	if plan, err := PlanJob(t.Context(), w.s, w.routes, none, time.Minute); err != nil || plan.Found != 0 {
		t.Errorf("%+v, %v", plan, err)
	}
	drive(t.Context(), w.driver())
	r := w.startBulk(KindRedrive, Rule{Prefix: "app1"}, Filter{Cause: notice.ReasonTimeout})
	for now := r.Made; now.UnixMilli() <= r.Made.UnixMilli(); { // times of death are in ms
		var err error
		if now, err = w.s.Wire().Now(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.kill(4)
	died := false
	d := w.driver()
	d.between = func() {
		for i := range 4 {
			if f := w.find(i); !died && f.Job == r.ID {
				died = true
				w.kill(i)
			}
		}
	}
	if !drive(t.Context(), d) {
		t.Fatal("not driven")
	}
	if got := w.read(r.ID); got.State != Done || got.Redirected != 4 {
		t.Errorf("%+v", got)
	}
	if f := w.find(4); f.State != notice.Dead {
		t.Errorf("died after the job began: %s", f.State)
	}
	if _, _, err := w.s.Turn(t.Context(), r.ID, Done, Running, time.Now()); err != nil {
		t.Fatal(err)
	}
	if w.find(0).State != notice.Dead {
		w.kill(0)
	}
	if drive(t.Context(), w.driver()); w.find(0).State != notice.Dead || w.read(r.ID).Redirected != 4 {
		t.Errorf("taken twice: %+v", w.read(r.ID))
	}
	p := w.startBulk(KindPurge, Rule{Host: "old.example"}, Filter{Route: prefix})
	drive(t.Context(), w.driver())
	if w.read(p.ID).Redirected < 2 || w.find(0).State != notice.Cancelled || w.find(5).State != notice.Scheduled {
		t.Errorf("%+v, %s", w.read(p.ID), w.states(6))
	}
}

// An instance that ends, or a stop, keeps the count right, and another instance continues.
func TestCancelIsContinuedByAnotherInstance(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 2)
	const n = 450
	for i := range n {
		w.put(i, address(i))
	}
	r := w.startBulk(KindCancel, Rule{Prefix: "app1"}, Filter{})
	for _, end := range []func(kill func()){func(kill func()) { kill() }, func(func()) {
		if _, ok, err := w.s.Turn(t.Context(), r.ID, Running, Stopped, time.Now()); !ok || err != nil {
			t.Error(ok, err)
		}
	}} {
		life, kill := context.WithCancel(t.Context())
		d, steps := w.driver(), 0
		d.between = func() {
			if steps++; steps == 2 {
				end(kill)
			}
		}
		if !drive(life, d) {
			t.Fatal("not driven")
		}
		kill()
		if got := w.read(r.ID); got.State == Done || got.Redirected == 0 || got.Redirected >= n {
			t.Fatalf("%+v", got)
		}
	}
	if drive(t.Context(), w.driver()) {
		t.Error("a stopped job is driven")
	}
	if _, ok, err := w.s.Turn(t.Context(), r.ID, Stopped, Running, time.Now()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if !drive(t.Context(), w.driver()) || w.read(r.ID).State != Done || w.read(r.ID).Redirected != n {
		t.Errorf("%+v", w.read(r.ID))
	}
}

// The lease is kept during the waits of a low rate, and a stop ends them.
func TestRestKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &resting{stopsAt: 8}
		began := time.Now()
		if err := rest(t.Context(), j, 20*time.Second); err != errLost || j.kept != 8 || time.Since(began) >= 10*time.Second {
			t.Errorf("%v, kept %d times in %s", err, j.kept, time.Since(began))
		}
		j, began = &resting{stopsAt: 100}, time.Now()
		if err := rest(t.Context(), j, 20*time.Second); err != nil || time.Since(began) != 20*time.Second || j.kept < 16 {
			t.Errorf("%v, kept %d times in %s", err, j.kept, time.Since(began))
		}
	})
}

type resting struct {
	job
	kept, stopsAt int
}

func (r *resting) keep(context.Context) (bool, error) {
	r.kept++
	return r.kept < r.stopsAt, nil
}

// A redrive leaves the dead letters that had expired when it began, and so does its dry run.
func TestRedriveLeavesExpiredLetters(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	for i := range 2 {
		w.put(i, address(i))
	}
	if _, err := w.s.Schedule(t.Context(), keys.Partition{Prefix: prefix}, []store.Request{{Key: key(2), Delay: time.Hour,
		Content: notice.Content{URL: address(2), ExpiresAfter: time.Minute}}}); err != nil {
		t.Fatal(err)
	}
	w.kill(0)
	w.kill(2)
	now, err := w.s.Wire().Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &Job{ID: NewID(KindRedrive), Kind: KindRedrive, Rule: Rule{Prefix: "app1"}, State: Running, Made: now.Add(2 * time.Hour)}
	plan, err := PlanJob(t.Context(), w.s, w.routes, r, time.Minute)
	if err != nil || plan != (JobPlan{Found: 2, Refused: 1, Complete: true}) {
		t.Errorf("%+v, %v", plan, err)
	}
	if err := w.s.Add(t.Context(), r, MaxJobs); err != nil {
		t.Fatal(err)
	}
	if !drive(t.Context(), w.driver()) {
		t.Fatal("not driven")
	}
	if got := w.read(r.ID); got.State != Done || got.Redirected != 1 || got.Refused != 1 || w.states(3) != "ssd" {
		t.Errorf("%+v, %s", got, w.states(3))
	}
}
