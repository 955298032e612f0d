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

	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// historic is a Store that has a history, of at most so many endings in Redis.
func historic(t *testing.T, most int) (*Store, *testkit.Redis) {
	t.Helper()
	s, srv := open(t)
	o := s.o
	o.History = most
	o.Host = func(string) string { return "shop.example" }
	return New(o), srv
}

// endings are all of shard 0, each as "<outcome> <number> <id>".
func (s *Store) endings(t *testing.T) (list []string, all []Entry) {
	t.Helper()
	texts, err := s.c.LRange(t.Context(), s.space.Ended(0), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		e, err := ReadEntry(text)
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
				s.put(t, Request{Key: key(id), Content: notice.Content{Body: []byte(`{"id":"` + id + `"}`), Headers: []notice.Header{{Name: "X",
					Value: "1"}}}})
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
			want := []string{"delivered 1 delivered", "dead 1 dead", "dead 2 dead", "cancelled 3 dead", "cancelled 1 cancelled",
				"replaced 1 replaced",
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
	if !slices.Equal(got, []string{"replaced 1 1", "replaced 1 1"}) || string(all[0].Body) != "2" || string(all[1].Body) != "3" ||
		all[0].Host != "" {
		t.Errorf("%v %+v", got, all)
	}
	if lost, err := srv.Client().HGet(t.Context(), s.space.History(0), "lost").Int(); err != nil || lost != 2 {
		t.Errorf("%d lost, %v", lost, err)
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
	if n := srv.Client().Exists(t.Context(), s.space.Ended(0), s.space.History(0)).Val(); n != 0 || s.Layout.HandsOver() {
		t.Errorf("%d keys of history", n)
	}
}

// An instance without a history writes to the outboxes as long as other instances have a history,
// and stops after a day without one.
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
	if err := with.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended(b)
	if got, _ := plain.endings(t); !slices.Equal(got, []string{"delivered 1 2"}) {
		t.Fatalf("%v", got)
	}
	if gone, err := plain.Layout.EndHistory(t.Context()); err != nil || gone { // the day begins
		t.Fatalf("%v, %v", gone, err)
	}
	seen := func(ago time.Duration) { // as ship.lua writes it
		t.Helper()
		if err := srv.Client().HSet(t.Context(), plain.space.History(0), "seen", time.Now().Add(-ago).UnixMilli()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	seen(0)
	if gone, err := plain.Layout.EndHistory(t.Context()); err != nil || gone {
		t.Fatalf("%v, %v", gone, err)
	}
	seen(25 * time.Hour)
	if gone, err := plain.Layout.EndHistory(t.Context()); err != nil || !gone {
		t.Fatalf("%v, %v", gone, err)
	}
	ended(c)
	if got, _ := plain.endings(t); len(got) != 1 || plain.Layout.HandsOver() {
		t.Fatalf("%v", got)
	}
	// One that has it after all says so again with its next write.
	with.put(t, Request{Key: "app1:a:b:4", Delay: time.Hour, Content: body("x")})
	ended("app1:a:b:5")
	if got, _ := plain.endings(t); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// Above the bound the oldest entries of the outbox are dropped, and counted as lost.
func TestOutboxCountsWhatItsBoundDrops(t *testing.T) {
	t.Parallel()
	s, srv := historic(t, 2)
	for i := range 5 {
		key := fmt.Sprintf("app1:a:b:%d", i)
		s.put(t, Request{Key: key})
		s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndDelivered})
	}
	if lost, err := srv.Client().HGet(t.Context(), s.space.History(0), "lost").Int(); err != nil || lost != 3 {
		t.Errorf("%d lost, %v", lost, err)
	}
	if list, _ := s.endings(t); fmt.Sprint(list) != "[delivered 1 3 delivered 1 4]" {
		t.Errorf("left: %v", list)
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
	if err := New(with).Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	dies := o
	dies.Client = redis.NewClient(srv.Client().Options())
	t.Cleanup(func() { _ = dies.Client.Close() })
	killed, next := New(dies), New(o)
	for _, s := range []*Store{killed, next} {
		if err := s.Layout.Learn(t.Context()); err != nil || !s.Layout.HandsOver() {
			t.Fatal(s.Layout.HandsOver(), err)
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
	if _, err := killed.Layout.EndHistory(t.Context()); err == nil {
		t.Fatal("it was not killed")
	}
	if err := next.Layout.Known(t.Context()); err != nil { // it has just spoken to the first shard
		t.Fatal(err)
	}
	if got := says(); !slices.Equal(got, []string{"0", "0", "125", "125"}) || next.Layout.HandsOver() {
		t.Fatalf("%v", got)
	}
	// Notices that are finalized at the same time are written to the outbox if the shard's layout
	// says so.
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
	var lengths [4]int64
	for shard := range lengths {
		lengths[shard] = srv.Client().LLen(t.Context(), next.space.Ended(shard)).Val()
	}
	if lengths[0]+lengths[1] != 0 || lengths[2] == 0 || lengths[3] == 0 {
		t.Errorf("entries by shard: %v", lengths)
	}
	if err := next.Layout.Known(t.Context()); err != nil || next.Layout.HandsOver() {
		t.Fatal(next.Layout.HandsOver(), err)
	}
	if gone, err := next.Layout.EndHistory(t.Context()); err != nil || !gone {
		t.Errorf("%v, %v", gone, err)
	}
	if got := says(); !slices.Equal(got, []string{"0", "0", "0", "0"}) {
		t.Errorf("%v", got)
	}
	if gone, err := next.Layout.EndHistory(t.Context()); err != nil || gone {
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
