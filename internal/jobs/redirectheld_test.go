package jobs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

const (
	pausedOld = "host/old.example/"
	pausedNew = "host/new.example/"
	// spreadEach is release.lua's for each pending notice.
	spreadEach = 10 * time.Millisecond
)

// hold lists a claimed notice as held by a pause for an hour, as package dispatch does.
func (w *redirectWorld) hold(c store.Claim, pause string) {
	w.t.Helper()
	out, err := w.s.Settle(w.t.Context(), w.s.Space().Partition(prefix, c.Key), []store.Settlement{{Claim: c, Ending: store.EndPostponed,
		After: time.Hour, Held: notice.HeldPaused, KeepRecord: true, Pause: pause}})
	if err != nil || out[0].Stale {
		w.t.Fatalf("%+v, %v", out, err)
	}
}

// held returns the listed notices of a shard with their pauses.
func (w *redirectWorld) held() []string {
	w.t.Helper()
	p := keys.Partition{Prefix: prefix}
	list := w.s.Wire().Redis.ZRange(w.t.Context(), w.s.Space().Held(p), 0, -1).Val()
	if n := w.s.Wire().Redis.HLen(w.t.Context(), w.s.Space().Holds(p)).Val(); int(n) != len(list) {
		w.t.Errorf("%d scores of held notices %q", n, list)
	}
	return list
}

// Held notices that a redirect changes are released, spread over some time. Their due times, attempts and ids stay. Those that
// it does not change stay held.
func TestRedirectReleasesHeldNotices(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	const n = 250
	was := map[int]store.Found{}
	for i := range n + 1 {
		url := address(i)
		if i == n {
			url = "https://old.example/other"
		}
		w.put(i, url)
		w.hold(w.claim(i), pausedOld)
		was[i] = w.find(i)
	}
	r := w.start(Rule{From: oldHooks, To: newHooks})
	if drive(t.Context(), w.driver()); w.read(r.ID).State != Done {
		t.Fatalf("%+v", w.read(r.ID))
	}

	now, err := w.s.Wire().Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	for i := range n {
		w.moved(i, was[i], 0)
		f := w.find(i)
		if at := f.NextAttemptAt(); at.After(now.Add((n + 1) * spreadEach)) {
			t.Errorf("%d is due %s after its release", i, at.Sub(now))
		} else if at.After(now.Add(n * spreadEach / 2)) {
			late++
		}
		if !f.Due.Equal(was[i].Due) {
			t.Errorf("the due time of %d was %s, is %s", i, was[i].Due, f.Due)
		}
	}
	if late < n/4 || late > n*3/4 {
		t.Errorf("%d of %d are due in the second half of the time", late, n)
	}
	if got, want := w.held(), []string{pausedOld + " " + key(n)}; !slices.Equal(got, want) {
		t.Errorf("held are %q, want %q", got, want)
	}
	if f, before := w.find(n), was[n]; f.Score() != before.Score() {
		t.Errorf("the score of the other one was %v, is %v", before.Score(), f.Score())
	}
}

// A single held notice is due at once. A notice that its claim has redirected, and that is held by a pause of the new host, is
// released when its record is written, and claimed with the same address.
func TestRedirectReleasesOneNoticeAtOnce(t *testing.T) {
	t.Parallel()
	for _, pause := range []string{pausedOld, pausedNew} {
		w := newRedirectWorld(t, 1)
		w.put(0, address(0))
		was := w.find(0)
		if pause == pausedOld {
			w.hold(w.claim(0), pause)
		}
		r := w.start(Rule{From: oldHooks, To: newHooks})
		if pause == pausedNew {
			c := w.claim(0)
			if c.URL != newHooks+"/0?q=0" {
				t.Fatalf("claimed with %s", c.URL)
			}
			w.hold(c, pause)
		}
		if drive(t.Context(), w.driver()); w.read(r.ID).State != Done {
			t.Fatalf("%+v", w.read(r.ID))
		}
		w.moved(0, was, 0)
		c, err := w.s.ClaimKeys(t.Context(), keys.Partition{Prefix: prefix}, store.Lease{Token: "t2", For: time.Minute}, []string{key(0)})
		if err != nil || len(c.Won) != 1 || c.Won[0].Held != notice.HeldPaused || c.Won[0].URL != newHooks+"/0?q=0" {
			t.Errorf("%s: %+v, %v", pause, c, err)
		}
		if got := w.held(); len(got) > 0 {
			t.Errorf("%s: held are %q", pause, got)
		}
	}
}

// Notices of a sequence are claimed one after the other, each with the new address, whether the driver has visited them or
// not. The redirect changes no position.
func TestRedirectKeepsSequences(t *testing.T) {
	t.Parallel()
	for _, visited := range []bool{false, true} {
		for _, heldFirst := range []bool{false, true} {
			w := newRedirectWorld(t, 1)
			ctx, c, base := t.Context(), w.s.Wire().Redis, w.s.Space().Base(0)
			if err := c.SAdd(ctx, base+"ordered", prefix).Err(); err != nil {
				t.Fatal(err)
			}
			p, ks := keys.Partition{Prefix: prefix}, []string{"app1:a:b:S", "app1:a:b:S~1", "app1:a:b:S~2"}
			for i, k := range ks {
				if _, err := w.s.Schedule(ctx, p, []store.Request{{Key: k, Content: notice.Content{URL: address(i)}}}); err != nil {
					t.Fatal(err)
				}
			}
			members := func() []string {
				is, err := testkit.ReadSequences(ctx, c, base, prefix)
				if err != nil {
					t.Fatal(err)
				}
				return is.Members
			}
			claim := func(token string) store.Claimed {
				t.Helper()
				got, err := w.s.ClaimKeys(ctx, p, store.Lease{Token: token, For: time.Minute}, ks)
				if err != nil {
					t.Fatal(err)
				}
				ApplyRedirects(w.routes, &got)
				return got
			}
			if heldFirst { // its successors are parked behind it
				got := claim("t0")
				if len(got.Won) != 1 || got.Parked != 2 {
					t.Fatalf("%+v", got)
				}
				w.hold(got.Won[0], pausedOld)
			}

			before := members()
			r := w.start(Rule{From: oldHooks, To: newHooks})
			if visited {
				if drive(ctx, w.driver()); w.read(r.ID).State != Done {
					t.Fatalf("%+v", w.read(r.ID))
				}
				if after := members(); !slices.Equal(after, before) {
					t.Errorf("the sequence was %q, is %q", before, after)
				}
			} else if heldFirst { // the hour has passed
				if ch, err := w.s.Amend(ctx, prefix, ks[0], store.Fire, store.When{}); err != nil || !ch.Done {
					t.Fatal(ch, err)
				}
			}

			for i, k := range ks {
				got := claim(fmt.Sprintf("t%d", i+1))
				if len(got.Won) != 1 || got.Won[0].Key != k || got.Won[0].URL != fmt.Sprintf("%s/%d?q=%d", newHooks, i, i) {
					t.Fatalf("visited %t, held %t, claim %d: %+v", visited, heldFirst, i, got)
				}
				x := store.Settlement{Claim: got.Won[0], Ending: store.EndDelivered}
				x.Claim.Add(notice.Attempt{Number: 1, Status: 200})
				if out, err := w.s.Settle(ctx, p, []store.Settlement{x}); err != nil || out[0].Stale {
					t.Fatalf("%+v, %v", out, err)
				}
			}
			if got := w.held(); len(got) > 0 {
				t.Errorf("held are %q", got)
			}
		}
	}
}
