package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// asked holds the arguments of a call on a key.
type asked struct {
	op    string // schedule, claim, settle, cancel, find
	body  int
	token string
	mode  store.Duplicate
	when  when
	lasts bool
	end   store.Ending
	used  int // attempts that the settle writes
}

// answered holds the reply of a call on a key.
type answered struct {
	unknown bool // the reply was lost
	done    bool // created, won, settled, cancelled
	body    int  // of the notice
	used    int
	state   notice.State
}

// about is a state of the sequential model of a key. The model has no clock: a notice due
// in 2 ms may be due, and a lease of 2 ms may have ended.
type about struct {
	state  notice.State // "", scheduled, delivered, dead, cancelled
	body   int
	used   int
	when   when
	holder string
	lasts  bool
}

// next returns the states that may follow a call with this reply.
func next(is about, in asked, out answered) []about {
	var after []about
	done, not := apply(is, in)
	if done != nil && (out.unknown || out.done && fits(*done, in, out)) {
		after = append(after, *done)
	}
	if out.unknown || not && !out.done && (in.op != "find" || out.state == is.public(out.state) && out.body == is.body &&
		out.used == is.used) {
		after = append(after, is)
	}
	return after
}

// public returns the state that a find may return. If a short lease may have ended or not,
// seen decides.
func (a about) public(seen notice.State) notice.State {
	if a.state == notice.Scheduled && a.holder != "" && (a.lasts || seen == notice.Claimed) {
		return notice.Claimed
	}
	return a.state
}

// fits reports whether the reply of a claim matches the model.
func fits(done about, in asked, out answered) bool {
	return in.op != "claim" || out.body == done.body && out.used == done.used
}

// apply returns the state after the call, or nil if the call changes nothing, and whether
// the call may change nothing.
func apply(is about, in asked) (done *about, not bool) {
	pending := is.state == notice.Scheduled
	switch in.op {
	case "schedule":
		if is.state != "" && in.mode != store.Replace {
			return nil, true
		}
		return &about{state: notice.Scheduled, body: in.body, when: in.when}, false
	case "claim":
		own := pending && is.holder == in.token
		free := pending && is.holder == "" && is.when != later
		lapsed := pending && is.holder != "" && !is.lasts
		if own || free || lapsed {
			won := is
			won.holder, won.lasts = in.token, in.lasts
			done = &won
		}
		return done, !own && (!free || is.when == soon) || own && !is.lasts
	case "settle":
		if !pending || is.holder != in.token || is.body != in.body {
			return nil, true
		}
		end := about{body: is.body, used: in.used}
		switch in.end {
		case store.EndDelivered:
			end.state = notice.Delivered
		case store.EndDead:
			end.state = notice.Dead
		default:
			end.state, end.when = notice.Scheduled, in.when
		}
		return &end, false
	case "cancel":
		if !pending && is.state != notice.Dead {
			return nil, true
		}
		return &about{state: notice.Cancelled, body: is.body, used: is.used}, false
	}
	return nil, true // find changes nothing
}

func sequential() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{about{}} },
		Step: func(is, in, out any) []any {
			var list []any
			for _, a := range next(is.(about), in.(asked), out.(answered)) {
				list = append(list, a)
			}
			return list
		},
		Equal:             func(a, b any) bool { return a == b },
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
		DescribeState:     func(is any) string { return fmt.Sprintf("%+v", is) },
	}
	return m.ToModel()
}

// history records calls and their replies, by key.
type history struct {
	sync.Mutex
	begun time.Time
	ops   map[int][]porcupine.Operation
}

// racer is one of several concurrent callers.
type racer struct {
	*lab
	id     int
	rnd    *rand.Rand
	h      *history
	bodies *int
	hands  []hand
	serial int
}

type hand struct {
	key   int
	claim store.Claim
}

const raceKeys = 4

// call makes a call, sometimes loses its request or reply, and records it.
func (r *racer) call(k int, in asked, do func(ctx context.Context) (answered, error)) answered {
	f := arrives
	if r.rnd.IntN(12) == 0 {
		f = []fate{requestLost, replyLost}[r.rnd.IntN(2)]
	}
	from := time.Since(r.h.begun).Nanoseconds()
	out, err := do(context.WithValue(context.Background(), fateOf{}, &f))
	to := time.Since(r.h.begun).Nanoseconds()
	if err != nil {
		out = answered{unknown: true} // Redis has executed the call by now, or never does
	}
	r.h.Lock()
	defer r.h.Unlock()
	r.h.ops[k] = append(r.h.ops[k], porcupine.Operation{ClientId: r.id, Input: in, Call: from, Output: out, Return: to})
	return out
}

func (r *racer) step() {
	k := r.rnd.IntN(raceKeys)
	switch x := r.rnd.IntN(10); {
	case x < 3:
		r.h.Lock()
		*r.bodies++
		in := asked{op: "schedule", body: *r.bodies, mode: []store.Duplicate{store.Reject, store.Replace}[r.rnd.IntN(2)],
			when: when(r.rnd.IntN(3))}
		r.h.Unlock()
		r.call(k, in, func(ctx context.Context) (answered, error) {
			out, err := r.store.Schedule(ctx, partition, []store.Request{{Key: key(k), Delay: in.when.delay(), OnDuplicate: in.mode,
				Content: notice.Content{Body: []byte(strconv.Itoa(in.body))}}})
			if err != nil {
				return answered{}, err
			}
			return answered{done: out[0].Created}, nil
		})
	case x < 6:
		r.claim(k)
	case x < 8 && len(r.hands) > 0:
		r.settle()
	case x == 8:
		r.call(k, asked{op: "cancel"}, func(ctx context.Context) (answered, error) {
			c, err := r.store.Amend(ctx, prefix, key(k), store.Cancel, store.When{})
			if err != nil && c.Before == "" && fateIn(ctx) == arrives {
				return answered{}, nil // the key has no notice
			}
			return answered{done: c.Done}, err
		})
	default:
		r.call(k, asked{op: "find"}, func(ctx context.Context) (answered, error) {
			f, err := r.store.FindMany(ctx, partition, []string{key(k)})
			if err != nil || f[0].Notice == nil {
				return answered{}, err
			}
			body, _ := strconv.Atoi(string(f[0].Body))
			return answered{state: f[0].State, body: body, used: f[0].AttemptsMade}, nil
		})
	}
}

func (r *racer) claim(k int) {
	r.serial++
	in := asked{op: "claim", token: fmt.Sprintf("r%d-%d", r.id, r.serial), lasts: r.rnd.IntN(2) == 0}
	c := call{token: in.token, lasts: in.lasts}
	for range 2 { // a call whose reply was lost is repeated with the same token
		out := r.call(k, in, func(ctx context.Context) (answered, error) {
			got, err := r.store.ClaimKeys(ctx, partition, c.lease(), []string{key(k)})
			if err != nil || len(got.Won) == 0 {
				return answered{}, err
			}
			won := got.Won[0]
			r.hands = append(r.hands, hand{k, won})
			body, _ := strconv.Atoi(string(won.Body))
			return answered{done: true, body: body, used: won.AttemptsMade}, nil
		})
		if !out.unknown {
			return
		}
	}
}

func (r *racer) settle() {
	i := r.rnd.IntN(len(r.hands))
	h := r.hands[i]
	r.hands = slices.Delete(r.hands, i, i+1)
	n := *h.claim.Notice
	n.Attempts = slices.Clone(n.Attempts)
	n.Add(notice.Attempt{Number: n.AttemptsMade + 1, At: n.Due, Status: 200})
	body, _ := strconv.Atoi(string(n.Body))
	in := asked{op: "settle", token: h.claim.Token(), body: body, used: n.AttemptsMade, when: when(1 + r.rnd.IntN(2)),
		end: []store.Ending{store.EndDelivered, store.EndDead, store.EndRetry, store.EndRetry}[r.rnd.IntN(4)]}
	h.claim.Notice = &n
	for range 2 {
		out := r.call(h.key, in, func(ctx context.Context) (answered, error) {
			s, err := r.store.Settle(ctx, partition, []store.Settlement{{Claim: h.claim, Ending: in.end, After: in.when.delay()}})
			if err != nil {
				return answered{}, err
			}
			return answered{done: !s[0].Stale}, nil
		})
		if !out.unknown {
			return
		}
	}
}

// race runs several concurrent callers. It returns the number of calls, and the keys whose
// history no order of the calls explains.
func race(l *lab, seed uint64, steps int) (calls int, wrong []int, err error) {
	if err := l.plain.FlushDB(context.Background()).Err(); err != nil {
		return 0, nil, fmt.Errorf("empty Redis: %w", err)
	}
	const racers = 6
	h := &history{begun: time.Now(), ops: map[int][]porcupine.Operation{}}
	bodies := 0
	var wg sync.WaitGroup
	for id := range racers {
		r := &racer{lab: l, id: id, rnd: rand.New(rand.NewPCG(seed, uint64(id))), h: h, bodies: &bodies}
		wg.Go(func() {
			for range steps / racers {
				r.step()
			}
		})
	}
	wg.Wait()
	for k := range raceKeys {
		calls += len(h.ops[k])
		switch porcupine.CheckOperationsTimeout(sequential(), h.ops[k], 2*time.Minute) {
		case porcupine.Illegal:
			wrong = append(wrong, k)
		case porcupine.Unknown:
			return calls, nil, fmt.Errorf("the history of key %d, %d calls, was not decided", k, len(h.ops[k]))
		}
	}
	return calls, wrong, nil
}

// stepsOfARace keeps histories short enough for a fast check.
const stepsOfARace = 600

func TestConcurrentCallsAreLinearizable(t *testing.T) {
	l, begun := newLab(t, onePrefix, mutation{}), time.Now()
	from, calls := seed(*seedFlag), 0
	t.Logf("seed %d: to run this again, -sim.seed=%d -sim.steps=%d", from, from, *stepsFlag)
	for s := from; calls < *stepsFlag/4; s++ {
		n, wrong, err := race(l, s, stepsOfARace)
		if err != nil || len(wrong) > 0 {
			t.Fatalf("seed %d: no order of the calls explains the replies for the keys %v; %v", s, wrong, err)
		}
		calls += n
	}
	t.Logf("%d calls", calls)
	summarize(&summary.lines,
		"- %d calls from seed %d on, of six at once on four keys, every twelfth without a reply, in %.0f s: each key's history has an order.",
		calls, from, time.Since(begun).Seconds())
}

// TestConcurrentCallsOfMutantsAreNotLinearizable shows that the check can fail.
func TestConcurrentCallsOfMutantsAreNotLinearizable(t *testing.T) {
	for _, m := range mutations {
		if !slices.Contains([]string{"a settle does not check the token", "a replace leaves the old notice's claim",
			"a cancel leaves the claim"}, m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			l := newLab(t, onePrefix, m)
			for s := range uint64(100) {
				_, wrong, err := race(l, s+1, stepsOfARace)
				if err != nil {
					t.Fatal(err)
				}
				if len(wrong) > 0 && l.wire.changed {
					t.Logf("found in race %d, on keys %v", s+1, wrong)
					return
				}
			}
			t.Error("not found in 100 races")
		})
	}
}
