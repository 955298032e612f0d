package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// ordered makes the route of partition ordered in every place; with block, dead letters hold back their
// successors.
func (s *Store) ordered(ctx context.Context, c redis.UniversalClient, block bool) error {
	members := []any{prefix}
	if block {
		members = append(members, prefix+"!")
	}
	for place := range s.space.Places() {
		if err := c.SAdd(ctx, s.space.Base(place)+"ordered", members...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// sequences is a snapshot of an ordered route.
type sequences struct {
	now                   float64
	shadow, dead, waiting map[string]float64
	positions             map[string]string
	members               []string
	markers               map[string]float64 // ms left, by order key
}

const snapshot = `
local base, route = KEYS[1], ARGV[1]
local t = redis.call('TIME')
return {t[1] * 1000 + math.floor(t[2] / 1000), redis.call('ZRANGE', base .. 'shadow:' .. route, 0, -1, 'WITHSCORES'),
  redis.call('ZRANGE', base .. 'dead:' .. route, 0, -1, 'WITHSCORES'), redis.call('ZRANGE', base .. 'waiting:' .. route, 0, -1, 'WITHSCORES')}`

func (s *Store) sequences(ctx context.Context, c redis.UniversalClient, p keys.Partition) (q sequences, err error) {
	v, err := c.Eval(ctx, snapshot, []string{s.space.Base(p.Shard)}, p.Prefix).Slice()
	if err != nil {
		return q, err
	}
	scores := func(list any) map[string]float64 {
		m := map[string]float64{}
		some := list.([]any)
		for i := 0; i < len(some); i += 2 {
			m[some[i].(string)], _ = strconv.ParseFloat(some[i+1].(string), 64)
		}
		return m
	}
	is, err := testkit.ReadSequences(ctx, c, s.space.Base(p.Shard), p.Prefix)
	if err != nil {
		return q, err
	}
	q = sequences{now: float64(v[0].(int64)), shadow: scores(v[1]), dead: scores(v[2]), waiting: scores(v[3]), markers: is.Left,
		members: is.Members, positions: map[string]string{}}
	for _, m := range q.members {
		words := strings.Split(m, " ")
		q.positions[words[2]] = words[1]
	}
	return q, nil
}

// heads returns the head of each sequence, by order key.
func (q *sequences) heads() map[string]string {
	heads := map[string]string{}
	for _, m := range q.members { // sorted
		words := strings.Split(m, " ")
		if heads[words[0]] == "" {
			heads[words[0]] = words[2]
		}
	}
	return heads
}

// wrong returns the first violated invariant, or "".
func (q *sequences) wrong(block bool) string {
	want := map[string]bool{}
	for k := range q.shadow {
		want[k] = true
	}
	if block {
		for k := range q.dead {
			want[k] = true
		}
	}
	in := slices.Sorted(maps.Keys(q.positions))
	if !slices.Equal(in, slices.Sorted(maps.Keys(want))) {
		return fmt.Sprintf("positions of %v, pending and blocking are %v", in, slices.Sorted(maps.Keys(want)))
	}
	if len(q.members) != len(q.positions) {
		return fmt.Sprintf("%d members, %d positions", len(q.members), len(q.positions))
	}
	for _, m := range q.members {
		words := strings.Split(m, " ")
		if len(words) != 3 || len(words[1]) != 27 || words[0] != keys.OrderKey(words[2]) || q.positions[words[2]] != words[1] {
			return fmt.Sprintf("the member %q; its position is %q", m, q.positions[words[2]])
		}
	}
	for k := range q.waiting {
		if _, ok := q.shadow[k]; !ok {
			return k + " waits and is not pending"
		}
	}
	for name, head := range q.heads() {
		// On a busy machine a script's TIME is later than the time of its expiries.
		if _, waits := q.waiting[head]; waits && q.shadow[head] > q.now+max(q.markers[name], 0)+1000 {
			return fmt.Sprintf("the head %s is parked for %.0f ms, the marker ends in %.0f ms", head, q.shadow[head]-q.now, q.markers[name])
		}
	}
	return ""
}

// inFlight is a claim of the property test.
type inFlight struct {
	Claim
	till float64 // ms of Redis's clock
}

// orderWorld runs random calls on an ordered route.
type orderWorld struct {
	s     *Store
	c     redis.UniversalClient
	ctx   context.Context
	block bool
	held  []inFlight
	token int
	keys  []string
}

const shortLease = 40 * time.Millisecond

func (w *orderWorld) check(t *rapid.T, after string) sequences {
	q, err := w.s.sequences(w.ctx, w.c, partition)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := q.wrong(w.block); wrong != "" {
		t.Fatalf("after %s: %s", after, wrong)
	}
	return q
}

// won checks that each started attempt was the head of its sequence, and that nothing else of the
// sequence was in flight.
func (w *orderWorld) won(t *rapid.T, before sequences, c Claimed, lease time.Duration) {
	heads := before.heads()
	for _, x := range c.Won {
		name := keys.OrderKey(x.Key)
		if heads[name] != x.Key {
			t.Fatalf("%s started, the head is %s: %v", x.Key, heads[name], before.members)
		}
		if score := before.shadow[x.Key]; int64(score) > c.Now.UnixMilli() {
			t.Fatalf("%s started %f ms early", x.Key, score-float64(c.Now.UnixMilli()))
		}
		for _, h := range w.held {
			if keys.OrderKey(h.Key) == name && h.till > float64(c.Now.UnixMilli())+1 && h.token != x.token {
				t.Fatalf("%s started while %s is in flight for %.0f ms", x.Key, h.Key, h.till-float64(c.Now.UnixMilli()))
			}
		}
		w.held = append(w.held, inFlight{x, float64(c.Now.UnixMilli()) + float64(lease.Milliseconds())})
	}
}

func (w *orderWorld) claim(t *rapid.T) {
	before := w.check(t, "nothing")
	w.token++
	l := Lease{"i-" + strconv.Itoa(w.token), shortLease}
	var c Claimed
	var err error
	if rapid.Bool().Draw(t, "sweep") {
		c, err = w.s.Sweep(w.ctx, partition, l,
			SweepOptions{Limit: rapid.IntRange(1, 10).Draw(t, "limit"), Newest: rapid.Bool().Draw(t, "newest")})
	} else {
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(w.keys), 1, len(w.keys), rapid.ID[string]).Draw(t, "keys")
		c, err = w.s.ClaimKeys(w.ctx, partition, l, some)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.won(t, before, c, shortLease)
}

func (w *orderWorld) settle(t *rapid.T) {
	if len(w.held) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.held)-1).Draw(t, "claim")
	h := w.held[i]
	w.held = slices.Delete(w.held, i, i+1)
	x := Settlement{Claim: h.Claim, Ending: rapid.SampledFrom([]Ending{EndDelivered, EndDead, EndRetry, EndDeferred, EndPostponed,
		EndHanded}).Draw(t, "ending"), After: time.Duration(rapid.SampledFrom([]int{0, 20, 3600000}).Draw(t, "after")) * time.Millisecond}
	if x.Ending == EndHanded {
		x.After = shortLease
		x.Claim.AttemptsMade++
	}
	out, err := w.s.Settle(w.ctx, partition, []Settlement{x})
	if err != nil {
		t.Fatal(err)
	}
	if x.Ending != EndHanded || out[0].Stale {
		return
	}
	if f, err := w.s.Find(w.ctx, prefix, h.Key); err == nil {
		now, err := w.c.Time(w.ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		w.held = append(w.held, inFlight{Reported(f), float64(now.Add(shortLease).UnixMilli()) - 2})
	}
}

func (w *orderWorld) schedule(t *rapid.T) {
	var list []Request
	for _, k := range rapid.SliceOfN(rapid.SampledFrom(w.keys), 1, 4).Draw(t, "keys") {
		list = append(list, Request{Key: k, Delay: time.Duration(rapid.SampledFrom([]int{0, 0, 15, 3600000}).Draw(t, "delay")) * time.Millisecond,
			OnDuplicate: rapid.SampledFrom([]Duplicate{Reject, Replace}).Draw(t, "duplicate")})
	}
	if _, err := w.s.Schedule(w.ctx, partition, list); err != nil {
		t.Fatal(err)
	}
}

func (w *orderWorld) change(t *rapid.T) string {
	k := rapid.SampledFrom(w.keys).Draw(t, "key")
	what := rapid.SampledFrom([]string{"cancel", "reschedule", "fire", "redrive", "purge", "resend", "reopen", "restore",
		"settle"}).Draw(t, "change")
	when := When{Delay: time.Duration(rapid.SampledFrom([]int{0, 15, 3600000}).Draw(t, "when")) * time.Millisecond}
	f, err := w.s.Find(w.ctx, prefix, k)
	found := err == nil
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
	case what == "resend" && found:
		_, err = w.s.Resend(w.ctx, f, notice.Expiry{})
	case what == "reopen" && found:
		x := Settlement{Claim: Claim{Notice: f.Notice, Shard: f.Shard}, Ending: rapid.SampledFrom([]Ending{EndRetry, EndDead}).Draw(t, "to"),
			After: when.Delay}
		_, err = w.s.Reopen(w.ctx, f, x)
	case what == "restore" && !found:
		l := Letter{Notice: &notice.Notice{Key: k, Route: prefix, Due: time.Now().Add(when.Delay), Made: notice.MadeAt(time.Now())}}
		if rapid.Bool().Draw(t, "died") {
			l.Died = time.Now()
		}
		_, err = w.s.Restore(w.ctx, partition, []Letter{l})
	case what != "restore" && what != "settle":
		_, err = w.s.Amend(w.ctx, prefix, k, Amendment(what), when)
	default:
		return ""
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatalf("%s %s: %v", what, k, err)
	}
	return what + " of " + k
}

// Random calls on an ordered route: an attempt starts only at the head of its sequence, while nothing
// else of it is in flight; the sets agree with the shadow; and no parked head waits longer than needed.
func TestSequencesStayInOrder(t *testing.T) {
	s, srv := open(t)
	c, ctx := srv.Client(), t.Context()
	p := newProducer(t, s)
	rapid.Check(t, func(t *rapid.T) {
		if err := c.FlushDB(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		w := &orderWorld{s: s, c: c, ctx: ctx, block: rapid.Bool().Draw(t, "block")}
		for _, id := range []string{"O1", "O2"} {
			for _, k := range []string{"created:" + id, "paid:" + id, "paid:" + id + "~2"} {
				w.keys = append(w.keys, "app1:shop:"+k)
			}
		}
		if err := errors.Join(s.ordered(ctx, c, w.block), s.Layout.Known(ctx)); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			did := rapid.SampledFrom([]string{"schedule", "producer", "claim", "claim", "settle", "settle", "change", "wait"}).Draw(t, "step")
			switch did {
			case "schedule":
				w.schedule(t)
			case "producer":
				k := rapid.SampledFrom(w.keys).Draw(t, "key")
				if err := p.Run(ctx, c, p.keys(k), k, rapid.SampledFrom([]string{"+0", "+15", "+3600000"}).Draw(t, "when"),
					rapid.SampledFrom([]string{"keep", "replace"}).Draw(t, "mode"), "").Err(); err != nil {
					t.Fatal(err)
				}
			case "claim":
				w.claim(t)
			case "settle":
				w.settle(t)
			case "change":
				did = w.change(t)
			default:
				time.Sleep(time.Duration(rapid.SampledFrom([]int{1, 15, 45}).Draw(t, "ms")) * time.Millisecond) // sleep: due times and leases pass
			}
			w.check(t, did)
		}
	})
}

// A reshard moves the notices of a sequence with their positions. Parked ones are due at once in their
// new shard.
func TestReshardKeepsPositions(t *testing.T) {
	s, srv := open(t)
	ctx, c := t.Context(), srv.Client()
	ks := []string{"app1:shop:created:O1", "app1:shop:paid:O1", "app1:shop:refunded:O1~2"}
	if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, c, false)); err != nil {
		t.Fatal(err)
	}
	for _, k := range slices.Backward(ks) { // the due times are in the order of ks
		s.put(t, Request{Key: k, Due: time.UnixMilli(1_900_000_000_000 + int64(slices.Index(ks, k)))})
	}
	s.put(t, Request{Key: "app1:shop:paid:O2"})
	s.put(t, Request{Key: "app1:shop:refunded:O2"})
	if got, err := s.ClaimKeys(ctx, partition, Lease{"t", lease}, []string{"app1:shop:refunded:O2"}); err != nil || got.Parked != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	before, err := s.sequences(ctx, c, partition)
	if err != nil {
		t.Fatal(err)
	}

	s.grow(t, 1)
	if err := s.ordered(ctx, c, false); err != nil {
		t.Fatal(err)
	}
	s.move(t, append(ks, "app1:shop:refunded:O2", "app1:shop:paid:O2")...)
	old, err := s.sequences(ctx, c, partition)
	if err != nil || len(old.members)+len(old.positions)+len(old.waiting) > 0 {
		t.Errorf("the old shard has %+v, %v", old, err)
	}
	now, err := s.sequences(ctx, c, keys.Partition{Prefix: prefix, Shard: s.space.First()})
	if err != nil || !maps.Equal(now.positions, before.positions) || now.wrong(false) != "" {
		t.Errorf("%+v, want the positions %v; %s, %v", now, before.positions, now.wrong(false), err)
	}
	if at := now.shadow["app1:shop:refunded:O2"]; at > now.now+1 {
		t.Errorf("a parked notice is due in %f ms", at-now.now)
	}
}

// A notice that stays in its old shard, because its new one has another notice of its key, keeps its position.
func TestNoticeThatStaysInAReshardKeepsItsPosition(t *testing.T) {
	s, srv := open(t)
	ctx, c := t.Context(), srv.Client()
	const first, second = "app1:shop:created:O1", "app1:shop:paid:O1"
	if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, c, false)); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{first, second} {
		s.put(t, Request{Key: k})
	}
	before, err := s.sequences(ctx, c, partition)
	if err != nil {
		t.Fatal(err)
	}
	s.grow(t, 1)
	to := keys.Partition{Prefix: prefix, Shard: s.space.First()}
	if err := errors.Join(c.HSet(ctx, s.space.Records(to), first, `{"due":1900000000000,"made":1}`).Err(),
		c.ZAdd(ctx, s.space.Shadow(to), redis.Z{Score: 1_900_000_000_000, Member: first}).Err()); err != nil {
		t.Fatal(err)
	}
	batch, _, err := s.Layout.MoveOut(ctx, partition, to.Shard, []string{first})
	if err != nil || batch.Len() != 1 {
		t.Fatalf("%+v, %v", batch, err)
	}
	stay, err := s.Layout.MoveIn(ctx, batch)
	if err != nil || !slices.Equal(stay, []string{first}) {
		t.Fatalf("%v stay, %v", stay, err)
	}
	if err := s.Layout.MoveEnd(ctx, batch, stay); err != nil {
		t.Fatal(err)
	}
	if now, err := s.sequences(ctx, c, partition); err != nil || !maps.Equal(now.positions, before.positions) || now.wrong(false) != "" {
		t.Errorf("%+v, want the positions %v; %s, %v", now, before.positions, now.wrong(false), err)
	}
}

// A reclaimed notice stays in flight for its new holder: the settle of the dead holder frees nothing, and
// its successor starts after the settle of the new one.
func TestReclaimedNoticeHoldsItsSequence(t *testing.T) {
	s, srv := open(t)
	ctx, c := t.Context(), srv.Client()
	const first, second = "app1:shop:created:O1", "app1:shop:paid:O1"
	if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, c, false)); err != nil {
		t.Fatal(err)
	}
	s.put(t, Request{Key: first})
	s.put(t, Request{Key: second})
	dead := s.take(t, first, "aaaa-1")
	parked := func() {
		t.Helper()
		if got, err := s.ClaimKeys(ctx, partition, Lease{"other", lease}, []string{second}); err != nil || len(got.Won) > 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		if n := c.ZCard(ctx, s.space.Waiting(partition)).Val(); n != 1 {
			t.Fatalf("%d wait", n)
		}
	}
	parked()
	got, err := s.TakeOver(ctx, partition, Lease{"bbbb-1", lease}, TakeOverOptions{Holder: "aaaa", Longest: lease, Limit: 10})
	if err != nil || len(got.Won) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if !s.end(t, Settlement{Claim: dead, Ending: EndDelivered}).Stale {
		t.Error("the settle of the dead holder was taken")
	}
	parked()
	if s.end(t, Settlement{Claim: got.Won[0], Ending: EndDelivered}).Stale {
		t.Error("the settle of the new holder was refused")
	}
	s.take(t, second, "other")
}

// Without an ordered route no script writes a key of sequences.
func TestUnorderedRoutesHaveNoSequences(t *testing.T) {
	s, srv := open(t)
	ctx, c := t.Context(), srv.Client()
	if err := errors.Join(s.Layout.Learn(ctx), c.SAdd(ctx, s.space.ShardOrdered(0), "app2").Err()); err != nil {
		t.Fatal(err)
	}
	const k = "app1:shop:created:O1"
	s.put(t, Request{Key: k})
	s.end(t, Settlement{Claim: s.take(t, k, "t"), Ending: EndRetry})
	if _, err := s.Amend(ctx, prefix, k, Fire, When{}); err != nil {
		t.Fatal(err)
	}
	s.end(t, Settlement{Claim: s.take(t, k, "t"), Ending: EndDead})
	if found := testkit.SequenceKeys(c.Keys(ctx, srv.Namespace()+":{0}:*").Val()); len(found) > 0 {
		t.Errorf("Redis has %q", found)
	}
}

// A notice whose lease has expired can be parked, if a notice with an earlier due time has joined its
// sequence since. Its expired leases count as attempts after that too.
func TestParkedNoticeKeepsItsExpiredLeases(t *testing.T) {
	s, srv := open(t)
	ctx, c := t.Context(), srv.Client()
	const first, second = "app1:shop:created:O1", "app1:shop:paid:O1"
	if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, c, false)); err != nil {
		t.Fatal(err)
	}
	s.put(t, Request{Key: second})
	if got, err := s.ClaimKeys(ctx, partition, Lease{"dead", time.Millisecond}, []string{second}); err != nil || len(got.Won) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	early := Letter{Notice: &notice.Notice{Key: first, Route: prefix, Due: time.UnixMilli(1_700_000_000_000), Made: notice.MadeAt(time.Now())}}
	if _, err := s.Restore(ctx, partition, []Letter{early}); err != nil {
		t.Fatal(err)
	}
	parked := Claimed{}
	for parked.Parked == 0 { // until the lease has ended
		got, err := s.ClaimKeys(ctx, partition, Lease{"t", lease}, []string{second})
		if err != nil || len(got.Won) > 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		parked = got
	}
	got := Claimed{}
	for len(got.Won) == 0 { // its marker may end a ms later than the lease
		var err error
		if got, err = s.ClaimKeys(ctx, partition, Lease{"t", lease}, []string{first}); err != nil {
			t.Fatal(err)
		}
	}
	s.end(t, Settlement{Claim: got.Won[0], Ending: EndDelivered})
	if got := s.take(t, second, "u"); got.Lapses != 1 {
		t.Errorf("%d expired leases, want 1", got.Lapses)
	}
}

// In the last millisecond of a lease, a claim by another instance neither wins nor parks the notice. A
// notice in flight that counts as parked would be woken, and start before its retry is due.
func TestClaimInTheLastMillisecondOfALeaseDoesNotPark(t *testing.T) {
	s, srv := open(t)
	ctx, c := t.Context(), srv.Client()
	const first, second = "app1:shop:created:O1", "app1:shop:paid:O1"
	if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, c, false)); err != nil {
		t.Fatal(err)
	}
	s.put(t, Request{Key: second})
	claim := s.take(t, second, "t")
	ends := float64(time.Now().UnixMilli()-1000) + 1.0/1024
	early := Letter{Notice: &notice.Notice{Key: first, Route: prefix, Due: time.UnixMilli(1_700_000_000_000), Made: notice.MadeAt(time.Now())}}
	if _, err := s.Restore(ctx, partition, []Letter{early}); err != nil {
		t.Fatal(err)
	}
	// The score says that the lease has ended, and the claim still exists.
	if err := c.ZAdd(ctx, s.space.Shadow(partition), redis.Z{Score: ends, Member: second}).Err(); err != nil {
		t.Fatal(err)
	}
	got, err := s.ClaimKeys(ctx, partition, Lease{"u", lease}, []string{second})
	if err != nil || got.Lost != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if s.end(t, Settlement{Claim: claim, Ending: EndRetry, After: time.Hour}).Stale {
		t.Fatal("the settle was refused")
	}
	s.end(t, Settlement{Claim: s.take(t, first, "t"), Ending: EndDelivered})
	if got, err := s.ClaimKeys(ctx, partition, Lease{"v", lease}, []string{second}); err != nil || got.Stale != 1 {
		t.Errorf("an hour before its retry is due: %+v, %v", got, err)
	}
}

// Ids that are only a suffix have nothing in common, so they are separate sequences.
func TestIDsThatAreOnlyASuffixAreSeparateSequences(t *testing.T) {
	s, srv := open(t)
	ctx, c := t.Context(), srv.Client()
	ks := []string{"app1:shop:paid:~1", "app1:shop:paid:~2"}
	if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, c, false)); err != nil {
		t.Fatal(err)
	}
	for _, k := range ks {
		s.put(t, Request{Key: k})
	}
	if got, err := s.ClaimKeys(ctx, partition, Lease{"t", lease}, ks); err != nil || len(got.Won) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
