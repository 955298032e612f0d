//go:build fault

package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/testkit"
	"notifier/test/record"
)

// How TestMigrationReversedLosesNothing goes about it.
const (
	turnFar      = 20_000 // notices that wait far ahead
	turnMovers   = 14     // movers that are killed, each in a direction that chance decides
	turnCallers  = 8
	turnInstance = 5 // before this mover, an instance of each side is killed
)

// known is a notice as its producer knows it.
type known struct {
	id   string
	sent bool // a call that creates it had no answer, so that its id is not known yet
	due  bool // it falls due during the test
}

// turner calls both sides while notices move to and fro, and notes each answer that denies
// a notice which exists.
type turner struct {
	t     *testing.T
	sides [2]*house

	mu      sync.Mutex
	notices map[string]*known
	keys    []string
	wrong   []string
	moved   int
	calls   int
}

func (w *turner) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// call makes a call on one of the sides. The answer is nil if there was none, or if the
// call is to be repeated.
func (w *turner) call(method, path, body string) *answer {
	side := rand.IntN(2)
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	a, err := w.sides[side].any().call(ctx, "", method, path, body)
	if err != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if a.status == http.StatusServiceUnavailable {
		w.moved++
		return nil
	}
	return &a
}

// schedule schedules a notice: a new one that falls due soon, or one that exists, again.
func (w *turner) schedule(i int) {
	key, due := fmt.Sprintf("app1:pay:turn:%d", i), time.Now().Add(time.Duration(2500+rand.IntN(4000))*time.Millisecond)
	body := line(key, due)
	w.mu.Lock()
	n := &known{due: true}
	w.notices[key] = n
	w.mu.Unlock()
	for until := time.Now().Add(2 * waitTimeout); time.Now().Before(until); time.Sleep(20 * time.Millisecond) { // sleep: as a producer would
		sent := n.sent
		n.sent = true
		a := w.call("POST", "/v1/notices", body)
		if a == nil {
			continue
		}
		var got client.Notice
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != http.StatusCreated && !(sent && a.status == http.StatusOK) {
			w.fault("%s scheduled: %d %s", key, a.status, a.body)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		n.id = got.ID
		w.keys = append(w.keys, key+" "+body)
		return
	}
	w.fault("%s was not scheduled in %s", key, 2*waitTimeout)
}

// again repeats a call that was answered: it finds the notice, and creates none.
func (w *turner) again() {
	w.mu.Lock()
	if len(w.keys) == 0 {
		w.mu.Unlock()
		return
	}
	key, body, _ := strings.Cut(w.keys[rand.IntN(len(w.keys))], " ")
	id := w.notices[key].id
	w.mu.Unlock()
	if a := w.call("POST", "/v1/notices", body); a != nil && (a.status != http.StatusOK || !strings.Contains(a.body, id)) {
		w.fault("%s with id %s scheduled again: %d %s", key, id, a.status, a.body)
	}
}

// look reads a notice that exists, or moves its due time, or fires it.
func (w *turner) look() {
	key := fmt.Sprintf("app1:pay:far:%d", rand.IntN(turnFar))
	method, path, body := "GET", "/v1/notices/"+key, ""
	if rand.IntN(2) == 0 {
		method, body = "PATCH", `{"delay":"3h"}`
	}
	w.mu.Lock()
	id := w.notices[key].id
	w.mu.Unlock()
	if a := w.call(method, path, body); a != nil && (a.status != http.StatusOK || !strings.Contains(a.body, id)) {
		w.fault("%s %s with id %s: %d %s", method, key, id, a.status, a.body)
	}
}

// Notices move between two servers while producers call both sides and both sides deliver.
// Movers are killed at random points, and the next mover continues or reverses the move. No
// call reports an existing notice as not found; 503 moved is the only refusal. No notice is
// created twice. A second delivery has the same webhook-id, and the notice was in flight on
// a killed instance.
func TestMigrationReversedLosesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(record.Seed(t), 3))
	rec := listen(t, nil)
	first, second := testkit.StartRedis(t), testkit.StartRedis(t)
	a, b := newHouse(t, first.Client(), first.URL(), "standalone"), newHouse(t, second.Client(), second.URL(), "standalone",
		"NOTIFIER_SHARDS=3")
	routes := route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=2s")
	for range 2 {
		a.open(routes...)
		b.open(routes...)
	}
	w := &turner{t: t, sides: [2]*house{a, a}, notices: map[string]*known{}}
	due := time.Now().Add(2 * time.Hour)
	a.all[0].scheduleAll(turnFar, func(i int) string { return line(fmt.Sprintf("app1:pay:far:%d", i), due) })
	for i := range turnFar {
		key := fmt.Sprintf("app1:pay:far:%d", i)
		w.notices[key] = &known{id: a.all[0].id(key)}
	}

	// B is open and unrelated to A until a mover closes it, so no producer calls it before.
	for b.redis.HGet(t.Context(), b.space().Meta(), "side").Val() == "" {
		a.killedMover(b, random)
	}
	w.sides[1] = b
	stop, callers := make(chan struct{}), sync.WaitGroup{}
	for c := range turnCallers {
		callers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(15 * time.Millisecond):
				}
				switch i % 4 {
				case 0:
					callers.Go(func() { w.schedule(c*1_000_000 + i) })
				case 1:
					w.again()
				default:
					w.look()
				}
			}
		})
	}

	var faults []time.Time
	turns, from := 0, 0
	for i := range turnMovers {
		if i == turnInstance {
			for _, h := range w.sides {
				faults = append(faults, time.Now())
				h.killLast()
				h.open(routes...)
			}
		}
		was := from
		if from = random.IntN(2); from != was {
			turns++
		}
		w.sides[from].killedMover(w.sides[1-from], random)
	}
	close(stop)
	callers.Wait()
	from = random.IntN(2)
	target := w.sides[1-from]
	w.sides[from].migrate(target)

	w.reckon(rec, faults)
	await(t, 4*waitTimeout, "nothing is left behind", func() bool {
		w.sides[from].migrate(target)
		return len(w.sides[from].kept("app1:pay")) == 0
	})
	missing := 0
	for key, n := range w.notices {
		if got, err := target.any().api.Get(t.Context(), key); err != nil || got.ID != n.id {
			if missing++; missing <= 5 {
				t.Errorf("%s with id %s is %+v on the last side, %v", key, n.id, got, err)
			}
		}
	}
	t.Logf("%d movers killed, %d turns, %d notices, %d calls of which %d were to be repeated", turnMovers, turns, len(w.notices),
		w.calls, w.moved)
}

// reckon compares the producers' notices with the receiver's hits.
func (w *turner) reckon(rec *receiver, faults []time.Time) {
	t := w.t
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, text := range w.wrong {
		if i < 10 {
			t.Error(text)
		}
	}
	if len(w.wrong) > 10 {
		t.Errorf("and %d more", len(w.wrong)-10)
	}
	came := func() (absent []string) {
		hits := rec.byKey()
		for key, n := range w.notices {
			if n.due && len(hits[key]) == 0 {
				absent = append(absent, key)
			}
		}
		return absent
	}
	eventually(t.Context(), waitTimeout, func() bool { return len(came()) == 0 })
	if absent := came(); len(absent) > 0 {
		t.Errorf("%d never came: %v", len(absent), absent[:min(5, len(absent))])
	}
	twice := 0
	for key, list := range rec.byKey() {
		n := w.notices[key]
		if n == nil || !n.due {
			t.Errorf("%s came, and is not due: %+v", key, list)
			continue
		}
		inFlight := false
		for _, h := range list {
			if h.id != n.id {
				t.Errorf("%s came under id %s, and was scheduled under %s", key, h.id, n.id)
			}
			if h.due.After(h.at) {
				t.Errorf("%s came early: %+v", key, h)
			}
			for _, at := range faults {
				inFlight = inFlight || h.at.Sub(at).Abs() < inFlightFor
			}
		}
		if len(list) > 1 {
			if twice++; !inFlight {
				t.Errorf("%s came %d times, and no instance was killed then: %+v", key, len(list), list)
			}
		}
	}
	t.Logf("%d came twice", twice)
}
