//go:build fault

package acceptance

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/keys"
	"notifier/test/record"
)

// entry is the ledger's record of one schedule call. The test fills it from the service's
// answer only.
type entry struct {
	key    string
	bad    bool // the failing node holds its shard
	due    time.Time
	at     time.Time // of the call
	took   time.Duration
	status int // 0 = no answer came
	retry  bool
}

// ledger makes single schedule calls at a steady rate and notes each.
type ledger struct {
	s      *service
	space  keys.Space
	bad    map[int]bool
	ahead  func(i int) time.Duration // from a call to its notice's due time
	prefix string

	mu      sync.Mutex
	entries []entry
	wg      sync.WaitGroup
	stop    chan struct{}
	done    chan struct{}
}

// keepLedger starts to schedule rate notices a second, each due after ahead.
func keepLedger(s *service, space keys.Space, bad map[int]bool, rate int, ahead time.Duration) *ledger {
	l := newLedger(s, space, "", func(int) time.Duration { return ahead })
	l.bad = bad
	go l.run(rate)
	return l
}

// newLedger returns a ledger that makes no calls before run. name makes its keys unique.
func newLedger(s *service, space keys.Space, name string, ahead func(i int) time.Duration) *ledger {
	return &ledger{s: s, space: space, ahead: ahead, prefix: fmt.Sprintf("app1:pay:s%d%s:", record.Seed(s.t), name), stop: make(chan struct{}),
		done: make(chan struct{})}
}

func (l *ledger) run(rate int) {
	defer close(l.done)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-l.stop:
			l.wg.Wait()
			return
		case <-tick.C:
		}
		l.wg.Go(func() { l.call(i) })
	}
}

func (l *ledger) call(i int) {
	key := l.prefix + strconv.Itoa(i)
	e := entry{key: key, bad: l.bad[l.space.Shard(key)], at: time.Now()}
	e.due = e.at.Add(l.ahead(i)).Truncate(time.Millisecond)
	n, err := l.s.api.Schedule(l.s.t.Context(), client.Request{Key: key, Due: e.due, Body: []byte(`{"paid":true}`)})
	e.took = time.Since(e.at)
	var p *client.Problem
	switch {
	case err == nil && n.Created:
		e.status = 201
	case errors.As(err, &p):
		e.status, e.retry = p.Status, p.RetryAfter > 0
	}
	l.mu.Lock()
	l.entries = append(l.entries, e)
	l.mu.Unlock()
}

// end stops the calls, waits for their answers, and returns the entries.
func (l *ledger) end() []entry {
	close(l.stop)
	<-l.done
	return l.entries
}

// reckoning compares a ledger with the receiver's requests.
type reckoning struct {
	calls, late         map[bool]spread // during the fault; the key is true for shards of the failing node
	before, beforeCalls spread          // of all, before the fault
	refused, unanswered map[bool]int
	confirmed, doubled  int
	early, failed       int           // deliveries before their due time; calls that were refused or had no answer
	most                time.Duration // the latest first delivery after its due time
	again               int           // deliveries with a later attempt than the first
	missing             []string
	after               time.Duration // longest delay of a delivery after it was possible, in the failing node's shards
}

// claiming is the longest time between a notice's due time and the fault if the fault may
// interrupt its claim.
const claiming = 500 * time.Millisecond

// window is the time of a fault.
type window struct{ from, to time.Time }

// during returns the fault during which a time is, or nil.
func during(faults []window, t time.Time) *window {
	for i, w := range faults {
		if t.After(w.from) && t.Before(w.to) {
			return &faults[i]
		}
	}
	return nil
}

// reckon waits until all confirmed notices are delivered, and compares the ledger with the
// receiver's requests.
func (l *ledger) reckon(rec *receiver, faults ...window) reckoning {
	l.s.t.Helper()
	entries := l.end()
	eventually(l.s.t.Context(), waitTimeout, func() bool { return len(missing(entries, rec)) == 0 })
	return count(entries, rec, faults...)
}

// drained waits until all entries are due and no notice is pending.
func (s *service) drained(entries []entry) {
	s.t.Helper()
	var last time.Time
	for _, e := range entries {
		last = later(last, e.due)
	}
	time.Sleep(time.Until(last)) // sleep: until the last is due
	await(s.t, 3*waitTimeout, "nothing pending any more", func() bool {
		st, err := s.api.Stats(s.t.Context())
		return err == nil && len(st.Routes) > 0 && st.Routes[0].Pending == 0
	})
}

// missing returns the confirmed notices that are not delivered.
func missing(entries []entry, rec *receiver) (names []string) {
	hits := rec.byKey()
	for _, e := range entries {
		if e.status == 201 && len(hits[e.key]) == 0 {
			names = append(names, e.key)
		}
	}
	return names
}

// count compares the ledger's entries with the receiver's requests.
func count(entries []entry, rec *receiver, faults ...window) reckoning {
	r := reckoning{calls: map[bool]spread{}, late: map[bool]spread{}, refused: map[bool]int{}, unanswered: map[bool]int{},
		missing: missing(entries, rec)}
	calls, late := map[bool][]time.Duration{}, map[bool][]time.Duration{}
	var before, beforeCalls []time.Duration
	hits := rec.byKey()
	for _, e := range entries {
		if during(faults, e.at) != nil {
			calls[e.bad] = append(calls[e.bad], e.took)
		}
		switch {
		case e.status == 201:
			r.confirmed++
		case e.status == 0:
			r.unanswered[e.bad]++
		default:
			r.refused[e.bad]++
		}
		h := hits[e.key]
		if len(h) > 1 {
			r.doubled++
		}
		if len(h) == 0 {
			continue
		}
		first := h[0].at
		for _, x := range h {
			if x.at.Before(x.due) {
				r.early++
			}
			if x.at.Before(first) {
				first = x.at
			}
			if x.attempt != 1 {
				r.again++
			}
		}
		if first.Before(faults[0].from) {
			before, beforeCalls = append(before, first.Sub(e.due)), append(beforeCalls, e.took)
		}
		r.most = max(r.most, first.Sub(e.due))
		begun := later(e.due, e.at.Add(e.took)) // the earliest time of a delivery
		if during(faults, e.due) != nil {
			late[e.bad] = append(late[e.bad], first.Sub(e.due))
		}
		if w := during(faults, e.due.Add(claiming)); w != nil {
			begun = later(begun, w.to)
		}
		if e.bad {
			r.after = max(r.after, first.Sub(begun))
		}
	}
	for _, bad := range []bool{false, true} {
		r.calls[bad], r.late[bad] = spreadOf(calls[bad]), spreadOf(late[bad])
	}
	for _, bad := range []bool{false, true} {
		r.failed += r.refused[bad] + r.unanswered[bad]
	}
	r.before, r.beforeCalls = spreadOf(before), spreadOf(beforeCalls)
	return r
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (r reckoning) log(t *testing.T) {
	t.Helper()
	t.Logf("confirmed %d, missing %d, doubled %d; before the fault late %s, calls %s; during it:", r.confirmed, len(r.missing), r.doubled,
		r.before, r.beforeCalls)
	for _, bad := range []bool{false, true} {
		name := map[bool]string{false: "healthy shards", true: "the bad node's"}[bad]
		t.Logf("  %s: late %s; calls %s, refused %d, unanswered %d", name, r.late[bad], r.calls[bad], r.refused[bad], r.unanswered[bad])
	}
	t.Logf("  the bad node's were delivered at most %s after it was back, or they were due and confirmed; with an attempt used: %d",
		r.after.Round(time.Millisecond), r.again)
}

// untouched fails the test if a confirmed notice is missing or was delivered twice, or if
// the fault slowed the healthy shards. The aims are 250 ms of lateness and 50 ms for a call.
// The bounds are much wider, and still below the time of a call that waits for the failing
// node.
func (r reckoning) untouched(t *testing.T) {
	t.Helper()
	r.log(t)
	if len(r.missing) > 0 || r.doubled > 0 {
		t.Errorf("%d missing, %d doubled", len(r.missing), r.doubled)
	}
	if late := r.late[false]; late.n == 0 || late.p99 > max(2*time.Second, 5*r.before.p99) {
		t.Errorf("notices of healthy shards: late %s; before the fault %s", late, r.before)
	}
	if calls := r.calls[false]; calls.n == 0 || calls.p99 > max(2*time.Second, 5*r.beforeCalls.p99) {
		t.Errorf("schedule calls of healthy shards: %s; before the fault %s", calls, r.beforeCalls)
	}
	if r.refused[false] > 0 || r.unanswered[false] > 0 {
		t.Errorf("of the healthy shards' calls %d were refused, %d had no answer", r.refused[false], r.unanswered[false])
	}
	// The aim is 300 ms. A notice that is not claimed as soon as the node answers is claimed
	// 5 s later, or after its lease of 15 s.
	if r.after > 4*time.Second {
		t.Errorf("a delivery came %s after it could", r.after)
	}
}
