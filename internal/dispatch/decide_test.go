package dispatch

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

const (
	first  = 15 * time.Second
	second = 3 * time.Minute

	refusal  = notice.ReasonStatus5xx
	rejected = notice.ReasonRejected
)

// Tests each row of Decide's two tables, and that Decide changes neither argument.
func TestDecideTables(t *testing.T) {
	delivered, failed, gone := notice.DeliveredResult(200), notice.RetryResult(refusal, "no"), notice.DeadResult(notice.ReasonGone, "")
	pushed := notice.Result{Outcome: notice.OutcomeDelivered, Push: &notice.Push{Key: "l", Entry: []string{"x"}}}
	later := func(reason notice.Reason, d time.Duration) notice.Result { return notice.DeferredResult(reason, d, "") }
	cut := notice.RetryResult(notice.ReasonInterrupted, "")
	month := failed
	month.After = 30 * maxDelay
	const lock, timeout = 2, 10 * time.Second
	for _, c := range []struct {
		name    string
		made    int  // attempts, the one handed over included
		awaited bool // the notice's report
		acks    bool // the route's consumers report
		res     notice.Result
		want    Decision
	}{
		{"delivered", 0, false, false, delivered, Decision{Ending: store.EndDelivered, Counting: CountAttempt}},
		{"delivered, pushed", 0, false, false, pushed, Decision{Ending: store.EndDelivered, Counting: CountAttempt, Locked: lock}},
		{"delivered, pushed, to report", 0, false, true, pushed,
			Decision{Ending: store.EndHanded, After: timeout, Counting: CountAttempt, Locked: lock}},
		{"retry, a step is left", 0, false, false, failed, Decision{Ending: store.EndRetry, Step: first, Counting: CountAttempt}},
		{"retry, the last step", 1, false, false, failed, Decision{Ending: store.EndRetry, Step: second, Counting: CountAttempt}},
		{"retry, Retry-After", 0, false, false, month, Decision{Ending: store.EndRetry, Step: first, After: maxDelay, Counting: CountAttempt}},
		{"retry, no step is left", 2, false, false, failed, Decision{Ending: store.EndDead, Counting: CountAttempt, Reason: refusal}},
		{"interrupted, a step is left", 0, false, false, cut, Decision{Ending: store.EndRetry, Step: first, Counting: CountAttempt}},
		{"interrupted, no step is left", 2, false, false, cut, Decision{Ending: store.EndRetry, After: minDeferral, Counting: CountAttempt}},
		{"dead", 0, false, false, gone, Decision{Ending: store.EndDead, Counting: CountAttempt, Reason: notice.ReasonGone}},
		{"deferred", 1, false, false, later(notice.ReasonBusy, time.Second),
			Decision{Ending: store.EndPostponed, After: time.Second, Locked: lock}},
		{"deferred for no time", 0, false, false, later(notice.ReasonBusy, 0), Decision{Ending: store.EndPostponed, After: minDeferral,
			Locked: lock}},
		{"deferred by a shutdown", 0, false, false, later(notice.ReasonShutdown, 0), Decision{Ending: store.EndPostponed, Locked: lock}},
		{"deferred by a lock", 0, false, false, later(notice.ReasonLocked, time.Second),
			Decision{Ending: store.EndDeferred, After: time.Second, Locked: lock + 1}},

		{"reported delivered", 1, true, true, delivered, Decision{Ending: store.EndDelivered, Counting: CountReported}},
		{"reported failed", 1, true, true, failed, Decision{Ending: store.EndRetry, Step: first, Counting: CountReported}},
		{"reported failed, no step is left", 3, true, true, failed, Decision{Ending: store.EndDead, Counting: CountReported, Reason: refusal}},
		{"reported dead", 1, true, true, gone, Decision{Ending: store.EndDead, Counting: CountReported, Reason: notice.ReasonGone}},
		{"report deferred by a lock", 1, true, true, later(notice.ReasonLocked, time.Second),
			Decision{Ending: store.EndDeferred, After: time.Second, Counting: CountUndone, Locked: lock + 1}},
	} {
		r := testRoute("a", 1)
		r.Ladder, r.Timeout, r.Jitter = notice.Ladder{first, second}, timeout, 0.5
		if c.acks {
			r.Ack.Kind = route.AckReport
		}
		made := func() *notice.Notice {
			n := &notice.Notice{Key: "a:b:c:d", AwaitsReport: c.awaited, Locked: lock}
			for i := range c.made {
				n.Add(notice.Attempt{Number: i + 1})
			}
			return n
		}
		n := made()
		if got := Decide(r, n, c.res); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if !reflect.DeepEqual(n, made()) {
			t.Errorf("%s: the notice was changed: %+v", c.name, n)
		}
	}
}

func TestDecide(t *testing.T) {
	delivered, failed := notice.DeliveredResult(200), notice.RetryResult(refusal, "no")
	reportFailed, cut := notice.RetryResult(rejected, ""), notice.RetryResult(notice.ReasonInterrupted, "")
	pushed := notice.Result{Outcome: notice.OutcomeDelivered, Push: &notice.Push{Key: "l", Entry: []string{"x"}}}
	later := func(r notice.Reason, d time.Duration) notice.Result { return notice.DeferredResult(r, d, "") }
	patient := func(r notice.Result, d time.Duration) notice.Result { r.After = d; return r }
	at := time.UnixMilli(1763740800000)

	for _, c := range []struct {
		name     string
		used     int // attempts made before, the one handed over included
		redriven int
		lapses   int // of the claim; counted by countExpired
		handed   bool
		locked   int
		report   bool          // the route's ack
		own      notice.Ladder // the notice's
		res      notice.Result

		ending     store.Ending
		after      time.Duration
		keepRecord bool
		nowUsed    int
		kept       int // attempts in the record
		last       notice.Reason
		reason     notice.Reason // why dead
		nowHanded  bool
		nowLocked  int
	}{
		{name: "delivered at first", res: delivered, ending: "d", nowUsed: 1, kept: 1},
		{name: "delivered at last", used: 2, res: delivered, ending: "d", nowUsed: 3, kept: 3},
		{name: "delivered after an expired lease", lapses: 1, res: delivered, ending: "d", nowUsed: 2, kept: 2},
		{name: "delivered after locks", locked: 7, res: delivered, ending: "d", nowUsed: 1, kept: 1},
		{name: "first failure", res: failed, ending: "r", after: first, nowUsed: 1, kept: 1, last: refusal},
		{name: "second failure", used: 1, res: failed, ending: "r", after: second, nowUsed: 2, kept: 2, last: refusal},
		{name: "last failure", used: 2, res: failed, ending: "x", nowUsed: 3, kept: 3, last: refusal, reason: refusal},
		{name: "failure beyond the ladder", used: 2, lapses: 2, res: failed, ending: "x", nowUsed: 5, kept: 5, last: refusal,
			reason: refusal},
		{name: "failure after an expired lease takes the second step", lapses: 1, res: failed, ending: "r", after: second, nowUsed: 2, kept: 2,
			last: refusal},
		{name: "failure after a redrive takes the first step", used: 3, redriven: 3, res: failed, ending: "r", after: first, nowUsed: 4, kept: 4,
			last: refusal},
		{name: "failure ends the locks", locked: 3, res: failed, ending: "r", after: first, nowUsed: 1, kept: 1, last: refusal},
		{name: "own ladder", own: notice.Ladder{time.Hour}, res: failed, ending: "r", after: time.Hour, nowUsed: 1, kept: 1, last: refusal},
		{name: "own ladder without steps", own: notice.Ladder{}, res: failed, ending: "x", nowUsed: 1, kept: 1, last: refusal,
			reason: refusal},
		{name: "retry-after beyond the step", res: patient(failed, time.Minute), ending: "r", after: time.Minute, nowUsed: 1, kept: 1,
			last: refusal},
		{name: "retry-after within the step", res: patient(failed, time.Second), ending: "r", after: first, nowUsed: 1, kept: 1, last: refusal},
		{name: "retry-after of a month", res: patient(failed, 720*time.Hour), ending: "r", after: maxDelay, nowUsed: 1, kept: 1, last: refusal},
		{name: "retry-after before now", res: patient(failed, -time.Hour), ending: "r", after: first, nowUsed: 1, kept: 1, last: refusal},
		{name: "interrupted at last", used: 2, res: cut, ending: "r", after: minDeferral, nowUsed: 3, kept: 3, last: notice.ReasonInterrupted},
		{name: "last step interrupted, granted for the last time", used: 2, lapses: 2, res: cut, ending: "r", after: minDeferral,
			nowUsed: 5, kept: 5,
			last: notice.ReasonInterrupted},
		{name: "last step interrupted, once too often", used: 2, lapses: 3, res: cut, ending: "x", nowUsed: 6, kept: 6,
			last:   notice.ReasonInterrupted,
			reason: notice.ReasonInterrupted},
		{name: "gone", res: notice.DeadResult(notice.ReasonGone, ""),
			ending: "x", nowUsed: 1, kept: 1, last: notice.ReasonGone, reason: notice.ReasonGone},

		{name: "put off", res: later(notice.ReasonBusy, time.Second), ending: "p", after: time.Second, keepRecord: true},
		{name: "deferred within the ladder", used: 1, res: later(notice.ReasonBreaker, time.Second),
			ending: "p", after: time.Second, keepRecord: true, nowUsed: 1, kept: 1},
		{name: "deferral keeps the expired leases", lapses: 2, res: later(notice.ReasonBusy, time.Second),
			ending: "p", after: time.Second, nowUsed: 2, kept: 2,
			last: notice.ReasonInterrupted},
		{name: "put off keeps the locks", locked: 2, res: later(notice.ReasonBusy, time.Second),
			ending: "p", after: time.Second, keepRecord: true, nowLocked: 2},
		{name: "put off for a month", res: later(notice.ReasonBusy, 720*time.Hour), ending: "p", after: maxDelay, keepRecord: true},
		{name: "put off for no time", res: later(notice.ReasonBusy, 0), ending: "p", after: minDeferral, keepRecord: true},
		{name: "put off for less", res: later(notice.ReasonBusy, -time.Second), ending: "p", after: minDeferral, keepRecord: true},
		{name: "stopping", res: later(notice.ReasonShutdown, 0), ending: "p", keepRecord: true},
		{name: "locked", locked: 2, res: later(notice.ReasonLocked, time.Second), ending: "f", after: time.Second, nowLocked: 3},

		{name: "pushed", res: pushed, ending: "d", nowUsed: 1, kept: 1},
		{name: "handed over", report: true, res: pushed, ending: "w", after: 10 * time.Second, nowUsed: 1, kept: 1, nowHanded: true},
		{name: "handed over keeps the locks", report: true, locked: 4, res: pushed, ending: "w", after: 10 * time.Second, nowUsed: 1, kept: 1,
			nowHanded: true, nowLocked: 4},
		{name: "reported done", used: 1, handed: true, locked: 4, report: true, res: delivered, ending: "d", nowUsed: 1, kept: 1},
		{name: "reported failed", used: 1, handed: true, report: true, res: reportFailed, ending: "r", after: first,
			nowUsed: 1, kept: 1, last: rejected},
		{name: "reported failed for the last time", used: 3, handed: true, report: true, res: reportFailed, ending: "x",
			nowUsed: 3, kept: 3, last: rejected, reason: rejected},
		{name: "reported dead", used: 1, handed: true, report: true, res: notice.DeadResult(rejected, ""), ending: "x", nowUsed: 1, kept: 1,
			last: rejected, reason: rejected},
		{name: "reported locked", used: 1, handed: true, report: true, locked: 1, res: later(notice.ReasonLocked, time.Second),
			ending: "f", after: time.Second,
			nowLocked: 2},
		{name: "reported locked at the second attempt", used: 2, handed: true, report: true, res: later(notice.ReasonLocked, time.Second),
			ending: "f",
			after:  time.Second, nowUsed: 1, kept: 1, nowLocked: 1},
		{name: "not reported", used: 1, handed: true, lapses: 1, report: true, res: notice.RetryResult(notice.ReasonUnreported, ""),
			ending: "r", after: first,
			nowUsed: 1, kept: 1, last: notice.ReasonUnreported},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := testRoute("a", 1)
			r.Ladder = notice.Ladder{first, second}
			if c.report {
				r.Ack.Kind = route.AckReport
			}
			n := &notice.Notice{Key: "a:b:c:d", Redriven: c.redriven, AwaitsReport: c.handed, Locked: c.locked,
				Content: notice.Content{Ladder: c.own}}
			for i := range c.used {
				n.Add(notice.Attempt{Number: i + 1})
			}
			claim := &store.Claim{Notice: n, Lapses: c.lapses}
			countExpired(r, claim, at)
			s := End(r, claim, c.res, notice.Attempt{At: at, Duration: time.Second}, notice.Waits{})
			if s.Ending != c.ending || s.After != c.after || s.KeepRecord != c.keepRecord {
				t.Errorf("%s after %s, keepRecord %v; want %s after %s, %v", s.Ending, s.After, s.KeepRecord, c.ending, c.after, c.keepRecord)
			}
			if n.AttemptsMade != c.nowUsed || len(n.Attempts) != c.kept || n.Reason != c.reason || n.AwaitsReport != c.nowHanded ||
				n.Locked != c.nowLocked {
				t.Errorf("%+v; want used %d, %d attempts, reason %q, handed %v, locked %d", n, c.nowUsed, c.kept, c.reason, c.nowHanded, c.nowLocked)
			}
			if k := len(n.Attempts); k > 0 && n.Attempts[k-1].Reason != c.last {
				t.Errorf("the last attempt's reason is %q, want %q", n.Attempts[k-1].Reason, c.last)
			}
			if s.Push != c.res.Push {
				t.Error("the push is lost")
			}
		})
	}
}

// For each combination: an attempt counts once unless the notice is deferred, only attempts that
// count change the record, and only retries and deferrals have a delay.
func TestDecideInvariants(t *testing.T) {
	results := []notice.Result{notice.DeliveredResult(200),
		{Outcome: notice.OutcomeDelivered, Push: &notice.Push{Key: "l", Entry: []string{"x"}}},
		notice.RetryResult(notice.ReasonTimeout, strings.Repeat("x", 2000)), notice.DeadResult(notice.ReasonGone, ""),
		notice.DeferredResult(notice.ReasonBusy, time.Second, ""),
		notice.DeferredResult(notice.ReasonLocked, 0, ""), notice.DeferredResult(notice.ReasonShutdown, 0, ""),
		notice.DeferredResult(notice.ReasonUnreported, time.Second, "")}
	for _, res := range results {
		for used := range 25 {
			for _, lapses := range []int{0, 1, 30} {
				for _, flags := range []int{0, 1, 2, 3} {
					handed, report := flags&1 != 0 && used > 0, flags&2 != 0
					r := testRoute("a", 1)
					r.Jitter = 0.5
					if report {
						r.Ack.Kind = route.AckReport
					}
					n := &notice.Notice{Key: "a:b:c:d", AwaitsReport: handed}
					for i := range used {
						n.Add(notice.Attempt{Number: i + 1})
					}
					c := &store.Claim{Notice: n, Lapses: lapses}
					countExpired(r, c, time.Now())
					before := n.AttemptsMade
					s := End(r, c, res, notice.Attempt{At: time.Now(), Duration: time.Second}, notice.Waits{})
					name := fmt.Sprintf("%s, used %d, %d expired leases, handed %v, report %v", res.Outcome, used, lapses, handed, report)
					want := before + 1
					switch {
					case res.Outcome == notice.OutcomeDeferred && handed && res.Reason != notice.ReasonUnreported:
						want = before - 1
					case res.Outcome == notice.OutcomeDeferred, handed:
						want = before
					}
					if n.AttemptsMade != want || len(n.Attempts) > min(want, notice.KeptAttempts) {
						t.Fatalf("%s: used %d with %d kept, want %d", name, n.AttemptsMade, len(n.Attempts), want)
					}
					timed := s.Ending == store.EndRetry || s.Ending == store.EndDeferred || s.Ending == store.EndPostponed || s.Ending == store.EndHanded
					if !timed && s.After != 0 || s.After < 0 || s.After > maxDelay {
						t.Fatalf("%s: %s after %s", name, s.Ending, s.After)
					}
					if s.Ending == store.EndRetry && s.After == 0 {
						t.Fatalf("%s: a retry at once", name)
					}
					if s.KeepRecord && (lapses > 0 || handed || s.Ending != store.EndPostponed) {
						t.Fatalf("%s: the record would not be written", name)
					}
					if (s.Ending == store.EndDead) != (n.Reason != "") || (s.Ending == store.EndHanded) != n.AwaitsReport {
						t.Fatalf("%s: %s, dead of %q, handed %v", name, s.Ending, n.Reason, n.AwaitsReport)
					}
					for _, a := range n.Attempts {
						if len(a.Response) > notice.KeptResponse {
							t.Fatalf("%s: %d bytes of a response are kept", name, len(a.Response))
						}
					}
				}
			}
		}
	}
}

func TestSpent(t *testing.T) {
	lost := func(from, n int) (list []notice.Attempt) {
		for i := range n {
			list = append(list, notice.Attempt{Number: from + i, Reason: notice.ReasonInterrupted})
		}
		return list
	}
	for _, c := range []struct {
		name string
		n    notice.Notice
		want bool
	}{
		{"new", notice.Notice{}, false},
		{"the last attempt is to come", notice.Notice{AttemptsMade: 2}, false},
		{"none left", notice.Notice{AttemptsMade: 3}, true},
		{"redriven", notice.Notice{AttemptsMade: 3, Redriven: 3}, false},
		{"interrupted, within the grant", notice.Notice{AttemptsMade: 5, Attempts: lost(3, 3)}, false},
		{"interrupted, beyond the grant", notice.Notice{AttemptsMade: 6, Attempts: lost(3, 4)}, true},
		{"interrupted before the redrive", notice.Notice{AttemptsMade: 6, Redriven: 3, Attempts: lost(1, 3)}, true},
		{"no ladder", notice.Notice{AttemptsMade: 1, Content: notice.Content{Ladder: notice.Ladder{}}}, true},
		{"no ladder, lost", notice.Notice{AttemptsMade: 1, Attempts: lost(1, 1), Content: notice.Content{Ladder: notice.Ladder{}}}, false},
	} {
		if got := spent(testRoute("a", 1), &c.n); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
