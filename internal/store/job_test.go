package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
)

// die schedules a notice and makes it a dead letter, or lets a redriven one die again.
func (s *Store) die(t *testing.T, key string) {
	t.Helper()
	if _, err := s.Find(t.Context(), prefix, key); err != nil {
		s.put(t, Request{Key: key})
	}
	c := s.take(t, key, "t")
	c.Reason = notice.ReasonGone
	s.end(t, Settlement{Claim: c, Ending: EndDead})
}

// A bulk change takes each dead letter that was there when it began once. Notices that it redrives and that die during the
// change are left, also if the clock of their Redis is set back after the beginning.
func TestBulkChangeTakesWhatWasThereOnce(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, time.Hour} { // of the clock when the change begins
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			s, em, _ := emulate(t)
			const n = 510 // more than one step
			key := func(i int) string { return fmt.Sprintf("app1:a:b:%d", i) }
			for i := range n {
				s.die(t, key(i))
			}
			em.Leap(time.Second + ahead)
			j, _, err := s.beginJob(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			em.Leap(time.Second - ahead)
			taken := map[string]int{}
			b := Bulk{Query: Query{Routes: []string{prefix}, Cursor: j.cursor(`{"p":"app1"}`)}, Op: Redrive}
			for b.Fits = func(f *Found) bool { taken[f.Key]++; return true }; ; {
				r, err := s.AmendAll(t.Context(), b)
				if err != nil {
					t.Fatal(err)
				}
				again := 0
				for i := range n {
					if s.state(t, key(i)) == notice.Scheduled {
						s.die(t, key(i))
						again++
					}
				}
				if ahead == 0 { // a notice that was not there; a clock that was set back hides that
					s.die(t, fmt.Sprintf("app1:a:c:%d", len(taken)))
				}
				if again != r.Changed || again != r.Matched {
					t.Fatalf("%d died again of %+v", again, r)
				}
				if b.Cursor = r.Cursor; b.Cursor == "" {
					break
				}
			}
			for i := range n {
				if got := taken[key(i)]; got != 1 {
					t.Fatalf("%s was redriven %d times", key(i), got)
				}
			}
			if ahead == 0 && len(taken) != n {
				t.Errorf("%d notices were redriven, %d were there", len(taken), n)
			}
		})
	}
}

// The script refuses what died after the list was read, and what another call of the same change has taken meanwhile.
func TestStepOfBulkChangeIsNotTakenTwice(t *testing.T) {
	t.Parallel()
	s, em, _ := emulate(t)
	const key = "app1:a:b:1"
	s.die(t, key)
	j, lost, err := s.beginJob(t.Context())
	if err != nil || lost != nil {
		t.Fatal(lost, err)
	}
	step := []Amended{{Prefix: prefix, Key: key}}
	redrive := func(j *job, want int) {
		t.Helper()
		if n, _, err := s.amendMany(t.Context(), Redrive, step, j); n != want || err != nil {
			t.Errorf("%d redriven, %v; want %d", n, err, want)
		}
	}
	em.Leap(-time.Minute)
	redrive(&j, 1)
	s.die(t, key)
	redrive(&j, 0) // the same change
	other := j
	other.ID = "abcdefghij"
	redrive(&other, 1)
	em.Leap(2 * time.Minute)
	s.die(t, key)
	if f, err := s.Find(t.Context(), prefix, key); err != nil || f.Job != other.ID || f.Ending() != 3 {
		t.Errorf("%+v, %v", f.Notice, err)
	}
	other.ID = "bbbbbbbbbb"
	redrive(&other, 0) // it died after the beginning
	for _, op := range []Amendment{Purge, Cancel} {
		if n, _, err := s.amendMany(t.Context(), op, step, &other); err != nil || (n == 1) != (op == Cancel) {
			t.Errorf("%s: %d changed, %v", op, n, err)
		}
	}
}

func TestCursorOfBulkChangeIsChecked(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	j := job{ID: "abcdefghij", Began: []byte{2}}
	for _, bad := range []string{"{", "{}", `{"p":"app1"}`, j.cursor(`{"p":"other"}`), job{ID: "a", Began: j.Began}.cursor(`{"p":"app1"}`),
		job{ID: j.ID}.cursor(`{"p":"app1"}`), job{ID: j.ID, Began: []byte{0x80}}.cursor(`{"p":"app1"}`)} {
		if _, err := s.AmendAll(t.Context(), Bulk{Query: Query{Routes: []string{prefix}, Cursor: bad}, Op: Redrive}); !errors.Is(err, ErrCursor) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if r, err := s.AmendAll(t.Context(), Bulk{Query: Query{Routes: []string{prefix}, Cursor: j.cursor(`{"p":"app1"}`)}, Op: Redrive}); err != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// A dry run of a redrive counts what a redrive would change.
func TestDryRunOfRedriveLeavesExpiredNoticesOut(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for i, after := range []time.Duration{0, time.Hour, time.Millisecond} {
		k := fmt.Sprintf("app1:a:b:%d", i)
		s.put(t, Request{Key: k, Content: notice.Content{ExpiresAfter: after}})
		c := s.take(t, k, "t")
		c.Reason = notice.ReasonGone
		s.end(t, Settlement{Claim: c, Ending: EndDead})
	}

	last, err := s.Find(t.Context(), prefix, "app1:a:b:2")
	for now := (time.Time{}); err == nil && !last.Expired(now); { // by the clock that decides
		now, err = s.w.Now(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}

	b := Bulk{Query: Query{Routes: []string{prefix}}, Op: Redrive, DryRun: true}
	if dry, err := s.AmendAll(t.Context(), b); err != nil || dry.Matched != 2 {
		t.Errorf("dry run: %+v, %v; want 2", dry, err)
	}

	b.DryRun = false
	if wet, err := s.AmendAll(t.Context(), b); err != nil || wet.Matched != 3 || wet.Changed != 2 {
		t.Errorf("%+v, %v; want 2 of 3", wet, err)
	}
}
