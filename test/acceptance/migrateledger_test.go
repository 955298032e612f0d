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

// promise is what a producer was told, and so what must come of a notice.
type promise struct {
	body  string
	due   time.Time
	never bool // it was cancelled
	waits bool // it is due long after the test
	// more is how often it may come beyond once, since so many calls that put it in the
	// place of an older one had no answer.
	more int
}

// producers make calls and set plain timers while notices move between two sides, and
// keep the ledger: from what they were answered, and from nothing that the service keeps.
type producers struct {
	t     *testing.T
	sides [2]*house
	first atomic.Int32 // the side that is asked first
	plain atomic.Int32 // the side that plain timers are set on

	mu       sync.Mutex
	promised map[string]promise
	open     []string // notices to change later
	wrong    []string
	moved    int // answers 503 moved

	changes chan struct{} // as many as wait for the new side at a time
	others  chan struct{}
	stop    chan struct{}
	ended   sync.WaitGroup
}

func produce(t *testing.T, a, b *house) *producers {
	p := &producers{t: t, sides: [2]*house{a, b}, promised: map[string]promise{}, changes: make(chan struct{}, 16), others: make(chan struct{}, 64), stop: make(chan struct{})}
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
			default: // all of them wait
			}
		}
	})
	return p
}

func (p *producers) act(i int) func(int) {
	return []func(int){p.schedule, p.set, p.keepOpen, p.replace, p.cancel, p.read}[i%6]
}

// end stops them and waits for what they wait for.
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

// ask makes a call on whatever side takes it, and says how many calls had no answer. The
// error is the last answer's, if that was one.
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

// set is a producer that knows nothing but Redis.
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

// keepOpen schedules what others of these change later.
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

// older is one of those that have been open for a while; "" = none yet.
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

// read looks for what is there all the time, on the one side or the other.
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

// reckon holds the ledger against what came: all of it once, with its body, and again
// only what was in the hand of an instance at one of the times at which one was killed or
// stopped.
func (p *producers) reckon(rec *receiver, faults []time.Time) {
	p.t.Helper()
	came := func() (absent []string) {
		hits := rec.byKey()
		for key, x := range p.promised {
			if !x.never && !x.waits && len(hits[key]) == 0 {
				absent = append(absent, key)
			}
		}
		return absent
	}
	eventually(p.t.Context(), waitTimeout, func() bool { return len(came()) == 0 })
	if absent := came(); len(absent) > 0 {
		p.t.Errorf("%d never came: %v", len(absent), absent[:min(5, len(absent))])
	}
	hits, twice, late := rec.byKey(), 0, []time.Duration{}
	for key, x := range p.promised {
		list := hits[key]
		if (x.never || x.waits) && len(list) > 0 {
			p.t.Errorf("%s came, which was cancelled or is not due: %+v", key, list)
		}
		for _, h := range list {
			if h.body != x.body {
				p.t.Errorf("%s came with %q, want %q", key, h.body, x.body)
			}
			late = append(late, h.late())
		}
		if len(list) <= 1+x.more {
			continue
		}
		twice++
		inHand := false
		for _, at := range faults {
			inHand = inHand || list[0].at.Sub(at).Abs() < inHandFor
		}
		if !inHand {
			p.t.Errorf("%s came %d times, and nobody was killed then: %+v", key, len(list), list)
		}
	}
	for i, text := range p.wrong {
		if i < 10 {
			p.t.Error(text)
		}
	}
	p.t.Logf("%d promises, %d answers 503 moved, %d came twice from the hand of who was killed or stopped; late %s", len(p.promised), p.moved, twice, spreadOf(late))
}

// inHandFor is how far from the time of a kill a request may have come whose answer
// nobody has heard.
const inHandFor = 5 * time.Second
