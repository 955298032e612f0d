package store

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/redistest"
)

// historic is a Store that has a history, of at most so many endings in Redis.
func historic(t *testing.T, most int) (*Store, *redistest.Server) {
	t.Helper()
	s, srv := open(t)
	o := s.o
	o.History = most
	o.Host = func(string) string { return "shop.example" }
	return New(o), srv
}

// endings are all of shard 0, each as "<outcome> <number> <id>".
func (s *Store) endings(t *testing.T) (list []string, all []Ended) {
	t.Helper()
	texts, err := s.Endings(t.Context(), 0, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		e, err := ReadEnded(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		_, _, id := cutLast(e.Key)
		list, all = append(list, fmt.Sprintf("%s %d %s", e.Outcome, e.Number, id)), append(all, e)
	}
	return list, all
}

func cutLast(key string) (before, sep, after string) {
	i := strings.LastIndexByte(key, ':')
	return key[:i], ":", key[i+1:]
}

func TestWhatEndsIsHandedOver(t *testing.T) {
	t.Parallel()
	for _, retention := range []time.Duration{time.Hour, 0} {
		t.Run("retention "+retention.String(), func(t *testing.T) {
			s, srv := historic(t, 1000)
			o := s.o
			o.Retention = retention
			s = New(o)
			key := func(id string) string { return "app1:a:b:" + id }
			put := func(id string) Claim {
				s.put(t, Request{Key: key(id), Content: notice.Content{Body: []byte(`{"id":"` + id + `"}`), Headers: []notice.Header{{Name: "X", Value: "1"}}}})
				return s.take(t, key(id), "t")
			}
			amend := func(id string, op Amendment) {
				if c, err := s.Amend(t.Context(), prefix, key(id), op, When{}); err != nil || !c.Done {
					t.Fatalf("%s %s: %+v, %v", op, id, c, err)
				}
			}
			die := func(c Claim) {
				c.Reason = notice.ReasonStatus
				s.end(t, Settlement{Claim: c, Ending: EndDead})
			}
			replace := func(id string) {
				s.put(t, Request{Key: key(id), OnDuplicate: Replace, Delay: time.Hour, Content: body("new")})
			}
			c := put("delivered")
			c.Add(notice.Attempt{Number: 1, At: time.Now(), Status: 200, Response: "ok"})
			s.end(t, Settlement{Claim: c, Ending: EndDelivered})
			die(put("dead"))
			amend("dead", Redrive)
			c = s.take(t, key("dead"), "t2")
			if s.end(t, Settlement{Claim: c, Ending: EndRetry, After: time.Hour}); c.Endings != 1 {
				t.Errorf("a redriven notice has ended %d times before, want 1", c.Endings)
			}
			amend("dead", Fire)
			die(s.take(t, key("dead"), "t3"))
			amend("dead", Cancel)
			put("cancelled")
			amend("cancelled", Cancel)
			s.put(t, Request{Key: key("replaced"), Delay: time.Hour, Content: body("old")})
			replace("replaced")
			die(put("replaced-dead"))
			replace("replaced-dead")
			put("settled")
			amend("settled", Cancel)
			replace("settled") // it had ended already
			want := []string{"delivered 1 delivered", "dead 1 dead", "dead 2 dead", "cancelled 3 dead", "cancelled 1 cancelled", "replaced 1 replaced",
				"dead 1 replaced-dead", "replaced 2 replaced-dead", "cancelled 1 settled"}
			got, all := s.endings(t)
			if !slices.Equal(got, want) {
				t.Fatalf("handed over:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			first := all[0]
			if first.ID() != c.ID() && first.ID() == "" || string(first.Body) != `{"id":"delivered"}` || len(first.Headers) != 1 ||
				len(first.Attempts) != 1 || first.Attempts[0].Response != "ok" || first.Host != "shop.example" || first.Route != prefix {
				t.Errorf("%+v %+v", first, first.Notice)
			}
			for i, e := range all {
				if d := time.Since(e.At); d < -time.Second || d > time.Minute || i > 0 && e.At.Before(all[i-1].At) {
					t.Errorf("%d ended at %s", i, e.At)
				}
			}
			if all[2].Reason != notice.ReasonStatus || all[1].ID() != all[3].ID() {
				t.Errorf("%+v", all[2])
			}
			// A second settle of the same claim hands nothing over.
			if out := s.end(t, Settlement{Claim: c, Ending: EndDelivered}); !out.Stale {
				t.Error("a settle that is repeated is not stale")
			}
			if n := srv.Client().LLen(t.Context(), s.space.Ended(0)).Val(); n != int64(len(want)) {
				t.Errorf("%d entries after a stale settle", n)
			}
		})
	}
}

func TestAReportOfFailureEndsADeliveryAnew(t *testing.T) {
	t.Parallel()
	s, _ := historic(t, 1000)
	const key = "app1:a:b:1"
	s.put(t, Request{Key: key, Content: body("x")})
	c := s.take(t, key, "t")
	c.Add(notice.Attempt{Number: 1, At: time.Now()})
	s.end(t, Settlement{Claim: c, Ending: EndDelivered})
	f, err := s.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	n := *f.Notice
	n.Reason = notice.ReasonStatus
	if c, err := s.Reopen(t.Context(), f, Settlement{Claim: Claim{Notice: &n}, Ending: EndDead}); err != nil || !c.Done {
		t.Fatalf("%+v, %v", c, err)
	}
	if got, _ := s.endings(t); !slices.Equal(got, []string{"delivered 1 1", "dead 2 1"}) {
		t.Errorf("%v", got)
	}
}

func TestAdoptionHandsOverWhatItEnds(t *testing.T) {
	t.Parallel()
	s, srv := historic(t, 1000)
	const replaced, cancelled = "app1:a:b:1", "app1:a:b:2"
	do := func(key string, op Operation) {
		t.Helper()
		_, seen, _, err := s.Peek(t.Context(), partition, []string{key}, 1<<10)
		if err != nil || len(seen) != 1 {
			t.Fatalf("%+v, %v", seen, err)
		}
		done, err := s.Adopt(t.Context(), partition, []Adoption{{Seen: seen[0], Op: op, Content: notice.Content{Body: seen[0].Value, Adopted: true}}})
		if err != nil || !done[0] {
			t.Fatalf("%s %s: %v, %v", op, key, done, err)
		}
	}
	set := func(key, text string, ttl time.Duration) {
		t.Helper()
		if err := srv.Client().Set(t.Context(), key, text, ttl).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(replaced, "first", time.Hour)
	do(replaced, OpAdopt)
	set(replaced, "second", time.Hour)
	do(replaced, OpAdopt)
	set(cancelled, "third", time.Hour)
	do(cancelled, OpAdopt)
	if err := srv.Client().Del(t.Context(), cancelled).Err(); err != nil {
		t.Fatal(err)
	}
	do(cancelled, OpCancel)
	set(cancelled, "fourth", time.Hour)
	do(cancelled, OpAdopt) // what it replaces was cancelled before
	got, all := s.endings(t)
	if !slices.Equal(got, []string{"replaced 1 1", "cancelled 1 2"}) || string(all[0].Body) != "first" || string(all[1].Body) != "third" {
		t.Errorf("%v %+v", got, all)
	}
}

func TestAProducersScriptHandsOverWhatItReplaces(t *testing.T) {
	t.Parallel()
	s, srv := historic(t, 2)
	const key = "app1:a:b:1"
	s.put(t, Request{Key: key, Delay: time.Hour, Content: body("0")})
	p := newProducer(t, s)
	for i := range 4 {
		if err := p.Run(t.Context(), srv.Client(), p.keys(key), key, "+100000", "replace", fmt.Sprint(i+1)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	got, all := s.endings(t)
	if !slices.Equal(got, []string{"replaced 1 1", "replaced 1 1"}) || string(all[0].Body) != "2" || string(all[1].Body) != "3" || all[0].Host != "" {
		t.Errorf("%v %+v", got, all)
	}
	if held, err := s.Hold(t.Context(), 0, Lease{"a", time.Minute}, Confirmed{}); err != nil || held != (Held{Ours: true, Left: 2, Lost: 2}) {
		t.Errorf("%+v, %v", held, err)
	}
}

func TestWithoutHistoryNothingIsHandedOver(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	p := newProducer(t, s)
	const key = "app1:a:b:1"
	s.put(t, Request{Key: key, Content: body("x")})
	s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndDelivered})
	s.put(t, Request{Key: key, OnDuplicate: Replace, Delay: time.Hour, Content: body("y")})
	if err := p.Run(t.Context(), srv.Client(), p.keys(key), key, "+1000", "replace", "z").Err(); err != nil {
		t.Fatal(err)
	}
	if n := srv.Client().Exists(t.Context(), s.space.Ended(0), s.space.History(0)).Val(); n != 0 || s.HandsOver() {
		t.Errorf("%d keys of history", n)
	}
}

// An instance without a history hands over for those that have one, from the
// moment they are known, and no more when none has been seen for a day.
func TestInstancesWithoutHistoryHandOverForOthers(t *testing.T) {
	t.Parallel()
	plain, srv := open(t)
	const a, b, c = "app1:a:b:1", "app1:a:b:2", "app1:a:b:3"
	ended := func(key string) {
		t.Helper()
		plain.put(t, Request{Key: key, Content: body("x")})
		plain.end(t, Settlement{Claim: plain.take(t, key, "t"), Ending: EndDelivered})
	}
	ended(a)
	o := plain.o
	o.History = 500
	with := New(o)
	if err := with.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended(b)
	if got, _ := plain.endings(t); !slices.Equal(got, []string{"delivered 1 2"}) {
		t.Fatalf("%v", got)
	}
	if gone, err := plain.EndHistory(t.Context()); err != nil || gone { // the day begins
		t.Fatalf("%v, %v", gone, err)
	}
	if _, err := with.Hold(t.Context(), 0, Lease{"w", time.Second}, Confirmed{}); err != nil {
		t.Fatal(err)
	}
	if gone, err := plain.EndHistory(t.Context()); err != nil || gone {
		t.Fatalf("%v, %v", gone, err)
	}
	old := time.Now().Add(-25 * time.Hour).UnixMilli()
	if err := srv.Client().HSet(t.Context(), plain.space.History(0), "seen", old).Err(); err != nil {
		t.Fatal(err)
	}
	if gone, err := plain.EndHistory(t.Context()); err != nil || !gone {
		t.Fatalf("%v, %v", gone, err)
	}
	ended(c)
	if got, _ := plain.endings(t); len(got) != 1 || plain.HandsOver() {
		t.Fatalf("%v", got)
	}
	// One that has it after all says so again with its next write.
	with.put(t, Request{Key: "app1:a:b:4", Delay: time.Hour, Content: body("x")})
	ended("app1:a:b:5")
	if got, _ := plain.endings(t); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestOnlyWhatWasReadIsForgotten(t *testing.T) {
	t.Parallel()
	s, srv := historic(t, 1000)
	add := func(id string) {
		key := "app1:a:b:" + id
		s.put(t, Request{Key: key, Content: body(id)})
		s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndDelivered})
	}
	for _, id := range []string{"1", "2", "3", "4"} {
		add(id)
	}
	hold := func(who string, keep time.Duration, done Confirmed) Held {
		t.Helper()
		h, err := s.Hold(t.Context(), 0, Lease{who, keep}, done)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	read, err := s.Endings(t.Context(), 0, 0, 3)
	if err != nil || len(read) != 3 {
		t.Fatalf("%d, %v", len(read), err)
	}
	if h := hold("a", time.Minute, Confirmed{}); !h.Ours || h.Left != 4 {
		t.Fatalf("%+v", h)
	}
	if h := hold("b", time.Minute, Confirmed{3, read[2]}); h.Ours || h.Forgotten || h.Left != 4 {
		t.Fatalf("another holds it: %+v", h)
	}
	// A replica that had one less became the master, and others ended since.
	if err := srv.Client().LRem(t.Context(), s.space.Ended(0), 1, read[1]).Err(); err != nil {
		t.Fatal(err)
	}
	if h := hold("a", time.Minute, Confirmed{3, read[2]}); !h.Ours || h.Forgotten || h.Left != 3 {
		t.Fatalf("what is confirmed does not stand there: %+v", h)
	}
	if h := hold("a", 0, Confirmed{2, read[2]}); !h.Forgotten || h.Left != 1 {
		t.Fatalf("%+v", h)
	}
	if h := hold("b", time.Minute, Confirmed{2, read[2]}); !h.Ours || h.Forgotten || h.Left != 1 {
		t.Fatalf("a confirmation that comes twice: %+v", h)
	}
	if n, err := s.Shed(t.Context(), 0, 5); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if left, oldest, lost, err := s.Backlog(t.Context(), 0); err != nil || left != 0 || oldest != "" || lost != 1 {
		t.Fatalf("%d %q %d %v", left, oldest, lost, err)
	}
}

// Above the bound the oldest entries of the outbox are dropped, and counted as lost.
func TestOutboxCountsWhatItsBoundDrops(t *testing.T) {
	t.Parallel()
	s, _ := historic(t, 2)
	for i := range 5 {
		key := fmt.Sprintf("app1:a:b:%d", i)
		s.put(t, Request{Key: key})
		s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndDelivered})
	}
	if left, _, lost, err := s.Backlog(t.Context(), 0); err != nil || left != 2 || lost != 3 {
		t.Errorf("%d left, %d lost, %v", left, lost, err)
	}
	if list, _ := s.endings(t); fmt.Sprint(list) != "[delivered 1 3 delivered 1 4]" {
		t.Errorf("left: %v", list)
	}
}

func TestAHoldLapses(t *testing.T) {
	t.Parallel()
	s, srv := historic(t, 10)
	if h, err := s.Hold(t.Context(), 0, Lease{"a", 20 * time.Millisecond}, Confirmed{}); err != nil || !h.Ours {
		t.Fatalf("%+v, %v", h, err)
	}
	for until := time.Now().Add(30 * time.Second); ; {
		h, err := s.Hold(t.Context(), 0, Lease{"b", time.Minute}, Confirmed{})
		if err != nil || time.Now().After(until) {
			t.Fatalf("%+v, %v", h, err)
		}
		if h.Ours {
			break
		}
		time.Sleep(5 * time.Millisecond) // sleep: the step of a poll until Redis's clock has passed the hold
	}
	// A clock that was an hour ahead holds nobody up.
	if err := srv.Client().HSet(t.Context(), s.space.History(0), "until", time.Now().Add(time.Hour).UnixMilli()).Err(); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Hold(t.Context(), 0, Lease{"a", time.Minute}, Confirmed{}); err != nil || !h.Ours {
		t.Fatalf("%+v, %v", h, err)
	}
}

func TestEndingsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "d", "d x app1 - app1:a:b:1 {}", "q 1763740800000000 app1 - app1:a:b:1 {}", "d 0 app1 - app1:a:b:1 {}"} {
		if e, err := ReadEnded(text); err == nil {
			t.Errorf("%q is %+v", text, e)
		}
	}
	e, err := ReadEnded(`x 1763740800000001 app1 - app1:a:b:1 what is this`)
	if err != nil || string(e.Raw) != "what is this" || e.Outcome != notice.EndDead || e.Number != 1 || e.Host != "" {
		t.Errorf("%+v, %v", e, err)
	}
	if p := (keys.Space{Namespace: "n", Shards: 4}); p.Ended(3) != "n:{3}:ended" || p.History(3) != "n:{3}:history" {
		t.Error(p.Ended(3), p.History(3))
	}
}

// Who ends the hand-over may be killed between two shards. The next one goes by what
// each shard says, whatever it has learned from the last shard it spoke to.
func TestTheEndOfAHistoryIsFinishedByAnother(t *testing.T) {
	t.Parallel()
	one, srv := open(t)
	o := one.o
	o.Space.Shards = 4
	with := o
	with.History = 500
	if err := New(with).Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	dies := o
	dies.Client = redis.NewClient(srv.Client().Options())
	t.Cleanup(func() { _ = dies.Client.Close() })
	killed, next := New(dies), New(o)
	for _, s := range []*Store{killed, next} {
		if err := s.Learn(t.Context()); err != nil || !s.HandsOver() {
			t.Fatal(s.HandsOver(), err)
		}
	}
	says := func() (list []string) {
		for shard := range 4 {
			list = append(list, srv.Client().HGet(t.Context(), next.space.Layout(shard), "history").Val())
		}
		return list
	}
	old := time.Now().Add(-25 * time.Hour).UnixMilli()
	for shard := range 4 {
		if err := srv.Client().HSet(t.Context(), next.space.History(shard), "seen", old).Err(); err != nil {
			t.Fatal(err)
		}
	}
	dies.Client.AddHook(&dying{registers: 2})
	if _, err := killed.EndHistory(t.Context()); err == nil {
		t.Fatal("it was not killed")
	}
	if err := next.Known(t.Context()); err != nil { // it has just spoken to the first shard
		t.Fatal(err)
	}
	if got := says(); !slices.Equal(got, []string{"0", "0", "125", "125"}) || next.HandsOver() {
		t.Fatalf("%v", got)
	}
	// What ends meanwhile is handed over where the shard says so.
	for i := range 40 {
		key := fmt.Sprintf("app1:a:b:%d", i)
		p := next.space.Partition(prefix, key)
		if _, err := next.Schedule(t.Context(), p, []Request{{Key: key, Content: body("x")}}); err != nil {
			t.Fatal(err)
		}
		c, err := next.ClaimKeys(t.Context(), p, Lease{"t", lease}, []string{key})
		if err != nil || len(c.Won) != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		if _, err := next.Settle(t.Context(), p, []Settlement{{Claim: c.Won[0], Ending: EndDelivered}}); err != nil {
			t.Fatal(err)
		}
	}
	waiting, err := next.Waiting(t.Context())
	if err != nil || waiting[0]+waiting[1] != 0 || waiting[2] == 0 || waiting[3] == 0 {
		t.Errorf("%v, %v", waiting, err)
	}
	if err := next.Known(t.Context()); err != nil || next.HandsOver() {
		t.Fatal(next.HandsOver(), err)
	}
	if gone, err := next.EndHistory(t.Context()); err != nil || !gone {
		t.Errorf("%v, %v", gone, err)
	}
	if got := says(); !slices.Equal(got, []string{"0", "0", "0", "0"}) {
		t.Errorf("%v", got)
	}
	if gone, err := next.EndHistory(t.Context()); err != nil || gone {
		t.Errorf("it ended twice: %v, %v", gone, err)
	}
}

// dying ends an instance once it has registered in so many shards.
type dying struct{ registers int }

func (d *dying) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *dying) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (d *dying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "eval" {
			return next(ctx, cmds)
		}
		if d.registers--; d.registers < 0 {
			for _, cmd := range cmds {
				cmd.SetErr(io.EOF)
			}
			return io.EOF
		}
		return next(ctx, cmds)
	}
}
