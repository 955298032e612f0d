//go:build !quick

package acceptance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/client"
)

// promise is the expected delivery of a notice, by the answers that its producer got.
type promise struct {
	body  string
	due   time.Time
	never bool // the notice was cancelled
	waits bool // the notice is due long after the test
	// more is the number of replace calls without an answer. Each may cause one more delivery.
	more int
}

// producers make calls and set plain timers while notices move between two sides. They keep
// the ledger from the answers to their calls only.
type producers struct {
	t     *testing.T
	sides [2]*house
	first atomic.Int32 // the side that gets each call first
	plain atomic.Int32 // the side on which plain timers are set

	mu       sync.Mutex
	promised map[string]promise
	open     []string // notices to change later
	wrong    []string
	moved    int // answers 503 moved

	changes chan struct{} // limits the concurrent replace and cancel calls
	others  chan struct{}
	stop    chan struct{}
	ended   sync.WaitGroup
}

func produce(t *testing.T, a, b *house) *producers {
	p := &producers{t: t, sides: [2]*house{a, b}, promised: map[string]promise{}, changes: make(chan struct{}, 16),
		others: make(chan struct{}, 64), stop: make(chan struct{})}
	p.ended.Go(func() {
		tick := time.NewTicker(time.Second / producersCalls)
		defer tick.Stop()
		var calls sync.WaitGroup
		defer calls.Wait()
		for i := 0; ; i++ {
			select {
			case <-p.stop:
				return
			case <-tick.C:
			}
			room, act := p.others, p.act(i)
			if i%6 == 3 || i%6 == 4 {
				room = p.changes
			}
			select {
			case room <- struct{}{}:
				calls.Go(func() {
					defer func() { <-room }()
					act(i)
				})
			default: // the limit of concurrent calls is reached
			}
		}
	})
	return p
}

func (p *producers) act(i int) func(int) {
	return []func(int){p.schedule, p.set, p.keepOpen, p.replace, p.cancel, p.read}[i%6]
}

// end stops the producers and waits for their calls.
func (p *producers) end() {
	close(p.stop)
	p.ended.Wait()
}

func (p *producers) promise(key string, x promise) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.promised[key] = x
}

func (p *producers) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

// ask repeats a call until a side accepts or rejects it, and returns the number of calls
// without an answer. After 503 moved, it calls the other side.
func (p *producers) ask(call func(ctx context.Context, api *client.Client) error) (unanswered int, err error) {
	at := p.first.Load()
	for until := time.Now().Add(5 * time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) { // sleep: as a producer would
		ctx, cancel := context.WithTimeout(p.t.Context(), 3*time.Second)
		err = call(ctx, p.sides[at].any().api)
		cancel()
		var answer *client.Problem
		switch {
		case err == nil:
			return unanswered, nil
		case isMoved(err):
			p.mu.Lock()
			p.moved++
			p.mu.Unlock()
			at = 1 - at
		case !errors.As(err, &answer):
			unanswered++
		case answer.Status != 503:
			return unanswered, err
		}
	}
	return unanswered, err
}

func (p *producers) schedule(i int) {
	key := fmt.Sprintf("app1:pay:load:%d", i)
	due := time.Now().Add(time.Duration(3000+rand.IntN(5000)) * time.Millisecond).Truncate(time.Millisecond)
	body := fmt.Sprintf(`{"n":%d}`, i)
	if _, err := p.ask(func(ctx context.Context, api *client.Client) error {
		_, err := api.Schedule(ctx, client.Request{Key: key, Due: due, Body: []byte(body)})
		return err
	}); err != nil {
		p.fault("%s scheduled: %v", key, err)
		return
	}
	p.promise(key, promise{body: body, due: due})
}

// set sets a plain timer in Redis.
func (p *producers) set(i int) {
	key, body := fmt.Sprintf("shop:orders:load:%d", i), fmt.Sprintf("plain-%d", i)
	life := time.Duration(5000+rand.IntN(5000)) * time.Millisecond
	from := time.Now()
	if err := p.sides[p.plain.Load()].redis.Set(p.t.Context(), key, body, life).Err(); err != nil {
		p.fault("%s set: %v", key, err)
		return
	}
	p.promise(key, promise{body: body, due: from.Add(life)})
}

// keepOpen schedules a notice that replace or cancel changes later.
func (p *producers) keepOpen(i int) {
	key := fmt.Sprintf("app1:pay:open:%d", i)
	due := time.Now().Add(2 * time.Hour).Truncate(time.Millisecond)
	body := fmt.Sprintf(`{"old":%d}`, i)
	if _, err := p.ask(func(ctx context.Context, api *client.Client) error {
		_, err := api.Schedule(ctx, client.Request{Key: key, Due: due, Body: []byte(body)})
		return err
	}); err != nil {
		p.fault("%s scheduled: %v", key, err)
		return
	}
	p.promise(key, promise{body: body, due: due, waits: true})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, key)
}

// older returns the oldest notice of keepOpen, if there are at least 60; else "".
func (p *producers) older() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) < 60 {
		return ""
	}
	key := p.open[0]
	p.open = p.open[1:]
	return key
}

func (p *producers) replace(i int) {
	key := p.older()
	if key == "" {
		return
	}
	body := fmt.Sprintf(`{"new":%d}`, i)
	var due time.Time
	unanswered, err := p.ask(func(ctx context.Context, api *client.Client) error {
		due = time.Now().Add(5 * time.Second).Truncate(time.Millisecond)
		_, err := api.Schedule(ctx, client.Request{Key: key, Due: due, Body: []byte(body), OnDuplicate: client.Replace})
		return err
	})
	if err != nil {
		p.fault("%s replaced: %v", key, err)
		return
	}
	p.promise(key, promise{body: body, due: due, more: unanswered})
}

func (p *producers) cancel(int) {
	key := p.older()
	if key == "" {
		return
	}
	_, err := p.ask(func(ctx context.Context, api *client.Client) error {
		_, err := api.Cancel(ctx, key)
		return err
	})
	if err != nil {
		p.fault("%s cancelled: %v", key, err)
		return
	}
	p.promise(key, promise{never: true})
}

// read gets a notice that exists throughout the test on one of the sides.
func (p *producers) read(i int) {
	key := fmt.Sprintf("app1:pay:far:%d", cancelledFar+i%(farAhead-cancelledFar))
	var n *client.Notice
	_, err := p.ask(func(ctx context.Context, api *client.Client) (err error) {
		n, err = api.Get(ctx, key)
		return err
	})
	if err != nil || n.State != client.Scheduled || !strings.Contains(string(n.Body), key) {
		p.fault("%s read: %+v, %v", key, n, err)
	}
}

// reckon compares the ledger with the receiver's requests: each notice is delivered once,
// with its body. A second delivery is allowed only for a notice that was in flight when an
// instance was killed or stopped.
func (p *producers) reckon(rec *receiver, faults []time.Time) {
	p.t.Helper()
	missing := func() (keys []string) {
		hits := rec.byKey()
		for key, x := range p.promised {
			if !x.never && !x.waits && len(hits[key]) == 0 {
				keys = append(keys, key)
			}
		}
		return keys
	}
	eventually(p.t.Context(), waitTimeout, func() bool { return len(missing()) == 0 })
	if keys := missing(); len(keys) > 0 {
		p.t.Errorf("%d were not delivered: %v", len(keys), keys[:min(5, len(keys))])
	}
	hits, twice, late := rec.byKey(), 0, []time.Duration{}
	for key, x := range p.promised {
		list := hits[key]
		if (x.never || x.waits) && len(list) > 0 {
			p.t.Errorf("%s was delivered, but is cancelled or not due: %+v", key, list)
		}
		for _, h := range list {
			if h.body != x.body {
				p.t.Errorf("%s has the body %q, want %q", key, h.body, x.body)
			}
			late = append(late, h.late())
		}
		if len(list) <= 1+x.more {
			continue
		}
		twice++
		inFlight := false
		for _, at := range faults {
			inFlight = inFlight || list[0].at.Sub(at).Abs() < inFlightFor
		}
		if !inFlight {
			p.t.Errorf("%s was delivered %d times, and no instance was killed then: %+v", key, len(list), list)
		}
	}
	for i, text := range p.wrong {
		if i < 10 {
			p.t.Error(text)
		}
	}
	p.t.Logf("%d promises, %d answers 503 moved, %d delivered twice, in flight at a kill or stop; late %s", len(p.promised), p.moved,
		twice, spreadOf(late))
}

// inFlightFor is the longest time between a request and a kill, if the kill may have lost
// the request's answer.
const inFlightFor = 5 * time.Second
