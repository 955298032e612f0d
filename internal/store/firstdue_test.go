package store

import (
	"testing"
	"time"

	"notifier/internal/notice"
)

// A repeated schedule call is compared with the due time at the creation, whatever has changed the due time since.
func TestRepeatIsComparedWithDueAtCreation(t *testing.T) {
	t.Parallel()
	amend := func(op Amendment, when When) func(*testing.T, *Store, string) {
		return func(t *testing.T, s *Store, k string) {
			if c, err := s.Amend(t.Context(), prefix, k, op, when); err != nil || !c.Done {
				t.Fatalf("%s: %+v, %v", op, c, err)
			}
		}
	}
	settle := func(x Settlement) func(*testing.T, *Store, string) {
		return func(t *testing.T, s *Store, k string) {
			amend(Fire, When{})(t, s, k)
			x.Claim = s.take(t, k, "t")
			x.Claim.Add(notice.Attempt{Number: x.Claim.NextAttempt(), At: time.Now()})
			if got := s.end(t, x); got.Stale {
				t.Fatal("stale")
			}
		}
	}
	dead := settle(Settlement{Ending: EndDead})
	after := func(first, then func(*testing.T, *Store, string)) func(*testing.T, *Store, string) {
		return func(t *testing.T, s *Store, k string) {
			first(t, s, k)
			then(t, s, k)
		}
	}
	for name, move := range map[string]func(*testing.T, *Store, string){
		"reschedule": amend(Reschedule, When{Delay: time.Minute}),
		"fire":       amend(Fire, When{}),
		"retry":      settle(Settlement{Ending: EndRetry, After: time.Minute}),
		"deferral":   settle(Settlement{Ending: EndDeferred, After: time.Minute}),
		"postponed":  settle(Settlement{Ending: EndPostponed, After: time.Minute}),
		"delivery":   settle(Settlement{Ending: EndDelivered}),
		"death":      dead,
		"redrive":    after(dead, amend(Redrive, When{})),
		"resend": after(dead, func(t *testing.T, s *Store, k string) {
			f, err := s.Find(t.Context(), prefix, k)
			if err != nil {
				t.Fatal(err)
			}
			s.resend(t, f)
		}),
		"two retries": after(settle(Settlement{Ending: EndRetry, After: time.Minute}), settle(Settlement{Ending: EndRetry, After: time.Hour})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t)
			const k = "app1:a:b:1"
			due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
			s.put(t, Request{Key: k, Due: due, Content: body(`{"first":1}`)})
			move(t, s, k)
			if r := s.put(t, Request{Key: k, Due: due, Content: body(`{"first":1}`)}); r.Created || len(r.Differs) > 0 {
				t.Errorf("the same call: %+v, differs in %v", r.Notice, r.Differs)
			}
			r := s.put(t, Request{Key: k, Due: due.Add(time.Millisecond), Content: body(`{"first":1}`)})
			if len(r.Differs) != 1 || r.Differs[0] != "due" {
				t.Errorf("another due time differs in %v", r.Differs)
			}
			if r := s.put(t, Request{Key: k, Due: due.Add(time.Hour), OnDuplicate: Replace, Content: body("2")}); !r.Replaced {
				t.Fatalf("not replaced: %+v", r)
			}
			if r := s.put(t, Request{Key: k, Due: due.Add(time.Hour), Content: body("2")}); len(r.Differs) > 0 {
				t.Errorf("a repeat of the replacement differs in %v", r.Differs)
			}
		})
	}
}

func TestRepeatOfRestoredNoticeIgnoresDue(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	n := &notice.Notice{Key: "app1:a:b:1", Made: notice.MadeAt(time.Now()), Due: time.Now(), FirstDue: notice.UnknownDue, Content: body("1")}
	if r, err := s.Restore(t.Context(), partition, []Letter{{Notice: n}}); err != nil || !r[0].Created {
		t.Fatalf("%+v, %v", r, err)
	}
	if r := s.put(t, Request{Key: n.Key, Due: time.Now().Add(time.Hour), Content: body("1")}); r.Created || len(r.Differs) > 0 {
		t.Errorf("%+v, differs in %v", r.Notice, r.Differs)
	}
}
