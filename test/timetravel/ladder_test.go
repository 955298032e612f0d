package timetravel

import (
	"errors"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// The first six steps of the standard ladder, 4 h 14 min, pass in virtual time. Leaps of Redis's
// clock shorten the rest.
func TestWholeLadderIsKept(t *testing.T) {
	travel(t, func(t *testing.T, w *world) {
		const key, takes = "pay:x:y:1", 40 * time.Millisecond
		w.answer = func(string, int) (time.Duration, notice.Result) {
			return takes, notice.RetryResult(notice.ReasonStatus5xx, "no")
		}
		i := w.start(t)
		defer i.stop(t)
		made := w.now()
		if _, err := i.Schedule(t.Context(), store.Request{Key: key, Delay: 15 * time.Second}); err != nil {
			t.Fatal(err)
		}
		next := made.Add(15 * time.Second)
		for k := range len(standard) + 1 {
			if left := next.Sub(w.now()); left > time.Hour {
				w.leap(left - 10*time.Second)
			}
			time.Sleep(next.Sub(w.now()) + time.Second)
			got := w.attempts(key)
			if len(got) != k+1 {
				t.Fatalf("%d attempts a second after the due time of number %d: %+v", len(got), k+1, got)
			}
			a := got[k]
			if late := a.began.Sub(next); a.n != k+1 || late < 0 || late > 2*time.Millisecond {
				t.Errorf("attempt %d began %s after it was due", a.n, late)
			}
			if k < len(standard) {
				next = a.ended.Add(standard[k])
			}
		}
		f, err := i.Find(t.Context(), key)
		if err != nil || f.State != notice.Dead || f.AttemptsMade != 10 || len(f.Attempts) != 10 {
			t.Errorf("%+v, %v", f, err)
		}
		total := w.attempts(key)[9].began.Sub(made.Add(15 * time.Second))
		if want := standard.Total() + 9*takes; total < want || total > want+20*time.Millisecond {
			t.Errorf("from the first attempt to the last it took %s, want %s", total, want)
		}
	})
}

func TestRetentionOfMonths(t *testing.T) {
	travel(t, func(t *testing.T, w *world) {
		const day = 24 * time.Hour
		w.retention = 90 * day
		i := w.start(t)
		defer i.stop(t)
		for _, key := range []string{"pay:x:y:1", "pay:x:y:2"} {
			if _, err := i.Schedule(t.Context(), store.Request{Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		for range 89 {
			w.leap(day)
			time.Sleep(10 * time.Second)
		}
		for _, key := range []string{"pay:x:y:1", "pay:x:y:2"} {
			if f, err := i.Find(t.Context(), key); err != nil || f.State != notice.Delivered {
				t.Fatalf("after 89 days of 90: %+v, %v", f, err)
			}
		}
		// A notice that was scheduled in the meantime stays.
		if _, err := i.Schedule(t.Context(), store.Request{Key: "pay:x:y:3"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // a leap during the attempt would end its claim, and the notice be handled again
		w.leap(2 * day)
		time.Sleep(10 * time.Minute)
		for key, kept := range map[string]bool{"pay:x:y:1": false, "pay:x:y:2": false, "pay:x:y:3": true} {
			if _, err := i.Find(t.Context(), key); kept != (err == nil) || !kept && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s after 91 days: %v", key, err)
			}
		}
		for key := range map[string]bool{"pay:x:y:1": true, "pay:x:y:2": true, "pay:x:y:3": true} {
			if n := len(w.attempts(key)); n != 1 {
				t.Errorf("%s was handled %d times", key, n)
			}
		}
	})
}

// Redis's clock is set, as by NTP or by hand, forward and back, by a second up to months.
func TestWallClockLeapsLoseNothing(t *testing.T) {
	for _, leap := range []time.Duration{time.Second, -time.Second, time.Minute, -time.Minute, 3 * time.Hour, -3 * time.Hour,
		60 * 24 * time.Hour, -60 * 24 * time.Hour} {
		t.Run(leap.String(), func(t *testing.T) {
			travel(t, func(t *testing.T, w *world) {
				w.start(t)
				i := w.start(t)
				defer w.stop(t)
				var due time.Time
				for k, delay := range []time.Duration{2 * time.Second, 20 * time.Second, 40 * time.Second} {
					r, err := i.Schedule(t.Context(), store.Request{Key: key(k), Delay: delay})
					if err != nil {
						t.Fatal(err)
					}
					due = r.Due
				}
				time.Sleep(time.Second)
				w.leap(leap)
				// A notice that is due by the changed clock is found within the maximum time
				// between two sweeps; others wait until they are due.
				time.Sleep(11*time.Second + max(0, min(due.Sub(w.now()), 2*time.Minute)))
				if ahead := due.Sub(w.now()); ahead > 0 {
					for k := range 3 {
						if n := len(w.attempts(key(k))); n != 0 {
							t.Errorf("notice %d was handled %s before its time", k, ahead)
						}
					}
					w.leap(ahead)
					time.Sleep(11 * time.Second)
				}
				for k := range 3 {
					got := w.attempts(key(k))
					if len(got) != 1 {
						t.Fatalf("notice %d was handled %d times", k, len(got))
					}
					late := got[0].began.Sub(got[0].due)
					if late < 0 || late > max(leap, 0)+time.Minute {
						t.Errorf("notice %d was handled %s after it was due", k, late)
					}
				}
			})
		})
	}
}
