package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
)

// deaths returns the entries of shard 0's outbox of hooks.
func (s *Store) deaths(t *testing.T) (list []Death) {
	t.Helper()
	texts, err := s.Deaths(t.Context(), 0, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		d, err := ReadDeath(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		list = append(list, d)
	}
	return list
}

func TestSettleAddsDeathOfHookedRoute(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	hook := &Death{Hook: "hooks", Facts: []byte(`{"key":"k"}`)}
	claim := func(id string) Claim {
		s.put(t, Request{Key: "app1:a:b:" + id, Content: body("1")})
		c := s.take(t, "app1:a:b:"+id, "t")
		c.Reason = notice.ReasonStatus
		return c
	}
	dead, plain, delivered, retried, stale := claim("dead"), claim("plain"), claim("delivered"), claim("retried"), claim("stale")
	stale.token = "other"
	now, err := s.w.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Settle(t.Context(), partition, []Settlement{{Claim: retried, Ending: EndRetry, After: time.Hour, Death: hook},
		{Claim: dead, Ending: EndDead, Death: hook}, {Claim: plain, Ending: EndDead}, {Claim: stale, Ending: EndDead, Death: hook},
		{Claim: delivered, Ending: EndDelivered, Death: hook}})
	if err != nil || out[0].Due.IsZero() || out[1].Stale || out[2].Stale || !out[3].Stale || out[4].Stale {
		t.Fatalf("%+v, %v", out, err)
	}
	for key, want := range map[string]notice.State{"dead": notice.Dead, "plain": notice.Dead, "delivered": notice.Delivered} {
		if got := s.state(t, "app1:a:b:"+key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}

	list := s.deaths(t)
	if len(list) != 1 {
		t.Fatalf("%d entries, want 1: %+v", len(list), list)
	}
	d := list[0]
	if d.Hook != "hooks" || d.At.Before(now) || d.At.After(now.Add(time.Minute)) {
		t.Errorf("%+v at %s, want hooks after %s", d, d.At, now)
	}
	if want := `{"settled_at":"` + notice.Stamp(d.At) + `","key":"k"}`; string(d.Body()) != want {
		t.Errorf("body %s, want %s", d.Body(), want)
	}
	if len(strings.Split(d.ID, "-")) != 3 {
		t.Errorf("id %s", d.ID)
	}

	// A redriven notice dies again: another death.
	if _, err := s.Amend(t.Context(), prefix, dead.Key, Redrive, When{}); err != nil {
		t.Fatal(err)
	}
	again := s.take(t, dead.Key, "t2")
	again.Reason = notice.ReasonStatus
	s.end(t, Settlement{Claim: again, Ending: EndDead, Death: hook})
	if list := s.deaths(t); len(list) != 2 || list[0].ID == list[1].ID {
		t.Errorf("%+v, want two deaths", list)
	}
	texts, err := s.Deaths(t.Context(), 0, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ForgetDeaths(t.Context(), 0, []string{texts[1], "another"}); err != nil {
		t.Fatal(err)
	}
	if rest, err := s.Deaths(t.Context(), 0, 0, 100); err != nil || !slices.Equal(rest, texts[:1]) {
		t.Errorf("%q, %v, want the first entry", rest, err)
	}
}

func TestReportThatEndsNoticeAddsDeath(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const key = "app1:a:b:1"
	s.put(t, Request{Key: key, Content: body("1")})
	s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndDelivered})
	f, err := s.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	n := *f.Notice
	n.Reason = notice.ReasonRejected
	for i, done := range []bool{true, false} { // the second one is of a notice that has changed since
		c, err := s.Reopen(t.Context(), f, Settlement{Claim: Claim{Notice: &n}, Ending: EndDead,
			Death: &Death{Hook: "hooks", Facts: []byte(`{"key":"with blanks"}`)}})
		if err != nil || c.Done != done {
			t.Fatalf("reopen %d: %+v, %v", i, c, err)
		}
	}
	if list := s.deaths(t); len(list) != 1 || list[0].Hook != "hooks" || string(list[0].Facts) != `{"key":"with blanks"}` {
		t.Errorf("%+v, want one death", list)
	}
}

func TestRestoreAddsNoDeath(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	n := &notice.Notice{Key: "app1:a:b:1", Route: prefix, Made: notice.MadeAt(time.Now()), Due: time.Now(), Reason: notice.ReasonStatus}
	if r, err := s.Restore(t.Context(), partition, []Letter{{n, time.Now()}}); err != nil || !r[0].Created {
		t.Fatalf("%+v, %v", r, err)
	}
	if list := s.deaths(t); len(list) > 0 {
		t.Errorf("%+v, want none", list)
	}
}

func FuzzReadDeath(f *testing.F) {
	f.Add(`1763740800000000 0123456789abcdef-1 hooks {"key":"a:b:c:d"}`)
	f.Add("1 2 3")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ReadDeath(text)
		if (err != nil) != errors.Is(err, ErrDeath) {
			t.Fatal(err)
		}
		_ = d.Body()
	})
}
