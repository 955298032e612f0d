package store

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

const (
	prefix = "app1"
	lease  = 30 * time.Second
)

var partition = keys.Partition{Prefix: prefix}

// open returns a Store on its own database.
func open(t *testing.T) (*Store, *testkit.Redis) {
	t.Helper()
	srv := testkit.SharedRedis(t)
	return on(t, srv.URL(), srv.Namespace()), srv
}

func on(t testing.TB, url, namespace string) *Store {
	t.Helper()
	c, err := wire.Open(wire.Address{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := New(Options{Client: c.Commander, Space: keys.Space{Namespace: namespace, Shards: 1}, Prefixes: []string{prefix},
		Retention: time.Hour, Retain: 1000})
	if err := s.w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Store) put(t *testing.T, r Request) Reply {
	t.Helper()
	out, err := s.Schedule(t.Context(), partition, []Request{r})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func (s *Store) state(t *testing.T, key string) notice.State {
	t.Helper()
	f, err := s.Find(t.Context(), prefix, key)
	if errors.Is(err, ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return f.State
}

func (s *Store) take(t *testing.T, key, token string) Claim {
	t.Helper()
	c, err := s.ClaimKeys(t.Context(), partition, Lease{token, lease}, []string{key})
	if err != nil || len(c.Won) != 1 {
		t.Fatalf("claim %s: %+v, %v", key, c, err)
	}
	return c.Won[0]
}

func (s *Store) end(t *testing.T, x Settlement) Settled {
	t.Helper()
	out, err := s.Settle(t.Context(), partition, []Settlement{x})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func body(s string) notice.Content { return notice.Content{Body: []byte(s)} }

func TestDuplicates(t *testing.T) {
	s, _ := open(t)
	first := s.put(t, Request{Key: "app1:a:b:1", Delay: time.Hour, Content: body(`{"a":1}`)})
	if !first.Created || first.Due.Sub(first.Made.Time()).Truncate(time.Millisecond) != time.Hour {
		t.Fatalf("%+v", first)
	}
	again := s.put(t, Request{Key: "app1:a:b:1", Delay: time.Minute, Content: body(`{"a":1}`)})
	if again.Created || len(again.Differs) > 0 || !again.Due.Equal(first.Due) || again.ID() != first.ID() {
		t.Errorf("the same again: %+v", again)
	}
	other := s.put(t, Request{Key: "app1:a:b:1", Content: notice.Content{Body: []byte(`{"a":2}`), ContentType: "text/x"}})
	if other.Created || !reflect.DeepEqual(other.Differs, []string{"body", "content_type"}) {
		t.Errorf("another content: %+v", other)
	}
	keep := s.put(t, Request{Key: "app1:a:b:1", OnDuplicate: Keep, Content: body(`{"a":2}`)})
	if keep.Created || len(keep.Differs) > 0 || string(keep.Body) != `{"a":1}` {
		t.Errorf("keep: %+v", keep)
	}
	repl := s.put(t, Request{Key: "app1:a:b:1", OnDuplicate: Replace, Delay: time.Minute, Content: body(`{"a":3}`)})
	if !repl.Created || !repl.Replaced {
		t.Errorf("replace: %+v", repl)
	}
	f, err := s.Find(t.Context(), prefix, "app1:a:b:1")
	if err != nil || string(f.Body) != `{"a":3}` || f.ID() == first.ID() {
		t.Errorf("after replace: %+v, %v", f, err)
	}
}

func TestOneClaimWins(t *testing.T) {
	s, _ := open(t)
	s.put(t, Request{Key: "app1:a:b:1"})
	s.put(t, Request{Key: "app1:a:b:far", Delay: time.Hour})
	c := s.take(t, "app1:a:b:1", "t1")
	if c.NextAttempt() != 1 || c.Lapses != 0 {
		t.Errorf("%+v", c)
	}
	second, err := s.ClaimKeys(t.Context(), partition, Lease{"t2", lease}, []string{"app1:a:b:1", "app1:a:b:far", "app1:a:b:none"})
	if err != nil || len(second.Won) != 0 || second.Stale != 3 {
		t.Errorf("%+v, %v: want three stale, since a claim moves the score", second, err)
	}
	far, err := s.Find(t.Context(), prefix, "app1:a:b:far")
	if err != nil {
		t.Fatal(err)
	}
	if e := second.Early; len(e) != 2 || e[0].Key != "app1:a:b:1" || e[1] != (Early{"app1:a:b:far", far.Due}) {
		t.Errorf("early: %+v; want the claimed one, and the one that is due at %s", e, far.Due)
	}
	if got := s.state(t, "app1:a:b:1"); got != notice.Claimed {
		t.Errorf("it is %s", got)
	}
}

func TestSettlements(t *testing.T) {
	for ending, want := range map[Ending]notice.State{EndDelivered: notice.Delivered, EndDead: notice.Dead, EndRetry: notice.Scheduled,
		EndDeferred: notice.Scheduled, EndPostponed: notice.Scheduled, EndHanded: notice.Claimed} {
		t.Run(string(ending), func(t *testing.T) {
			s, srv := open(t)
			s.put(t, Request{Key: "app1:a:b:1", Content: body(`{"a": 1}`)})
			c := s.take(t, "app1:a:b:1", "t1")
			before := c.Due
			if ending == EndDead {
				c.Reason = notice.ReasonGone
			}
			c.Add(notice.Attempt{Number: 1, At: c.Due, Status: 500})
			got := s.end(t, Settlement{Claim: c, Ending: ending, After: time.Minute})
			if got.Stale || s.state(t, c.Key) != want {
				t.Errorf("%s: %+v, now %s, want %s", ending, got, s.state(t, c.Key), want)
			}
			f, _ := s.Find(t.Context(), prefix, c.Key)
			if f.AttemptsMade != 1 || string(f.Body) != `{"a": 1}` || f.ID() != c.ID() {
				t.Errorf("%s: the record is %+v", ending, f.Notice)
			}
			switch want {
			case notice.Scheduled:
				if d := f.NextAttemptAt().Sub(before); d < time.Minute {
					t.Errorf("%s: the next attempt comes after %s", ending, d)
				}
				if f.Due.Equal(before) != (ending == EndPostponed) {
					t.Errorf("%s: due at %s, before at %s", ending, f.Due, before)
				}
				if v := srv.Client().Get(t.Context(), c.Key).Val(); v != "2" {
					t.Errorf("%s: the timer holds %q, want the number of the coming attempt", ending, v)
				}
			case notice.Dead:
				if f.Reason != notice.ReasonGone || f.SettledAt.IsZero() {
					t.Errorf("dead: %+v", f)
				}
			}
			if again := s.end(t, Settlement{Claim: c, Ending: EndDelivered}); !again.Stale {
				t.Errorf("%s: a second settle was taken", ending)
			}
		})
	}
}

func TestDeferringLeavesTheRecord(t *testing.T) {
	s, _ := open(t)
	s.put(t, Request{Key: "app1:a:b:1", Content: notice.Content{URL: "http://m/", Body: []byte("x")}})
	c := s.take(t, "app1:a:b:1", "t1")
	s.end(t, Settlement{Claim: c, Ending: EndDeferred, After: time.Second})
	f, err := s.Find(t.Context(), prefix, c.Key)
	if err != nil || f.URL != "http://m/" || string(f.Body) != "x" || f.AttemptsMade != 0 || f.Made != c.Made ||
		f.Due.Sub(c.Due) < time.Second {
		t.Errorf("%+v, %v", f.Notice, err)
	}
}

// A deferred notice keeps its due time, so its lateness counts from there. It is claimed again when
// the deferral ends, not before.
func TestWhatIsGivenBackKeepsItsDueTime(t *testing.T) {
	s, srv := open(t)
	for key, whole := range map[string]bool{"app1:a:b:1": false, "app1:a:b:2": true} {
		s.put(t, Request{Key: key, Content: notice.Content{URL: "http://m/"}})
		c := s.take(t, key, "t1")
		if whole { // as where an attempt that was interrupted has been counted
			c.Add(notice.Attempt{Number: 1, At: c.Due, Reason: notice.ReasonInterrupted})
		}
		due := c.Due
		got := s.end(t, Settlement{Claim: c, Ending: EndPostponed, After: time.Hour, KeepRecord: !whole})
		f, err := s.Find(t.Context(), prefix, key)
		if err != nil || !f.Due.Equal(due) || f.State != notice.Scheduled || f.URL != "http://m/" || (f.AttemptsMade == 1) != whole {
			t.Errorf("%s: %+v, %v; want it due at %s as before", key, f.Notice, err, due)
		}
		if at := srv.Client().ZScore(t.Context(), s.space.Shadow(partition), key).Val(); int64(at) != got.Due.UnixMilli() ||
			got.Due.Sub(due) < time.Hour {
			t.Errorf("%s: the next attention at %f, returned %s, want an hour after %s", key, at, got.Due, due)
		}
	}
}

func TestASettleAfterTheClaimIsGone(t *testing.T) {
	s, srv := open(t)
	s.put(t, Request{Key: "app1:a:b:1"})
	c := s.take(t, "app1:a:b:1", "t1")
	// The lease has expired or Redis has lost the claim, and no other claim was made since.
	srv.Client().Del(t.Context(), s.space.Claim(c.Key))
	if got := s.end(t, Settlement{Claim: c, Ending: EndDelivered}); got.Stale {
		t.Error("it was refused although no other claim was made since")
	}

	s.put(t, Request{Key: "app1:a:b:2"})
	c = s.take(t, "app1:a:b:2", "t1")
	for range 2 { // replaced, also by the same content at the same due time
		s.put(t, Request{Key: "app1:a:b:2", OnDuplicate: Replace, Due: c.Due})
	}
	if got := s.end(t, Settlement{Claim: c, Ending: EndDelivered}); !got.Stale {
		t.Error("an old claim settled the notice that replaced its own")
	}
	if s.state(t, "app1:a:b:2") != notice.Scheduled {
		t.Error("the new notice is not scheduled")
	}
}

func TestALapsedClaimIsCountedAndSweptAtOnce(t *testing.T) {
	s, srv := open(t)
	s.put(t, Request{Key: "app1:a:b:1"})
	for want := range 3 {
		c, err := s.Sweep(t.Context(), partition, Lease{fmt.Sprint("t", want), time.Millisecond}, SweepOptions{Grace: time.Hour, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for len(c.Won) == 0 { // the lease of the last claim has a millisecond to go
			if c, err = s.Sweep(t.Context(), partition, Lease{fmt.Sprint("t", want), time.Millisecond}, SweepOptions{Grace: time.Hour,
				Limit: 10}); err != nil {
				t.Fatal(err)
			}
		}
		if c.Won[0].Lapses != want {
			t.Errorf("%d lapses, want %d", c.Won[0].Lapses, want)
		}
	}
	_ = srv
}

func TestSweepHeedsTheGraceAndItsBound(t *testing.T) {
	s, _ := open(t)
	var reqs []Request
	for i := range 20 {
		reqs = append(reqs, Request{Key: fmt.Sprintf("app1:a:b:%02d", i), Delay: 2 * time.Millisecond})
	}
	if _, err := s.Schedule(t.Context(), partition, reqs); err != nil {
		t.Fatal(err)
	}
	c, err := s.Sweep(t.Context(), partition, Lease{"t", lease}, SweepOptions{Grace: time.Hour, Limit: 20})
	if err != nil || len(c.Won) != 0 {
		t.Fatalf("within the grace: %+v, %v", c, err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if c, err = s.Sweep(t.Context(), partition, Lease{"t", lease}, SweepOptions{Limit: 15, Newest: true}); err != nil ||
			time.Now().After(deadline) {
			t.Fatal(err, "nothing came due")
		}
		if len(c.Won) > 0 {
			break
		}
	}
	if len(c.Won) != 15 || !c.More || c.Won[0].Key != "app1:a:b:19" {
		t.Errorf("%d won, more %v, first %s; want 15 from the newest end", len(c.Won), c.More, c.Won[0].Key)
	}
	if c, _ = s.Sweep(t.Context(), partition, Lease{"t", lease}, SweepOptions{Limit: 15}); len(c.Won) != 5 || c.More {
		t.Errorf("%d left, more %v", len(c.Won), c.More)
	}
}

func TestAmendments(t *testing.T) {
	type row struct {
		op    Amendment
		state notice.State
		done  bool
		after notice.State
	}
	for _, r := range []row{
		{Cancel, notice.Scheduled, true, notice.Cancelled}, {Cancel, notice.Claimed, true, notice.Cancelled},
		{Cancel, notice.Dead, true, notice.Cancelled}, {Cancel, notice.Delivered, false, notice.Delivered},
		{Cancel, notice.Cancelled, false, notice.Cancelled},
		{Reschedule, notice.Scheduled, true, notice.Scheduled}, {Reschedule, notice.Claimed, false, notice.Claimed},
		{Reschedule, notice.Dead, false, notice.Dead}, {Reschedule, notice.Delivered, false, notice.Delivered},
		{Fire, notice.Scheduled, true, notice.Scheduled}, {Fire, notice.Claimed, false, notice.Claimed},
		{Fire, notice.Dead, false, notice.Dead}, {Fire, notice.Cancelled, false, notice.Cancelled},
		{Redrive, notice.Dead, true, notice.Scheduled}, {Redrive, notice.Scheduled, false, notice.Scheduled},
		{Redrive, notice.Delivered, false, notice.Delivered},
	} {
		t.Run(fmt.Sprint(r.op, " of ", r.state), func(t *testing.T) {
			s, srv := open(t)
			k := "app1:a:b:1"
			due := time.Hour
			if r.state != notice.Scheduled {
				due = 0
			}
			s.put(t, Request{Key: k, Delay: due})
			switch r.state {
			case notice.Claimed:
				s.take(t, k, "t")
			case notice.Delivered:
				s.end(t, Settlement{Claim: s.take(t, k, "t"), Ending: EndDelivered})
			case notice.Dead:
				s.end(t, Settlement{Claim: s.take(t, k, "t"), Ending: EndDead})
			case notice.Cancelled:
				if _, err := s.Amend(t.Context(), prefix, k, Cancel, When{}); err != nil {
					t.Fatal(err)
				}
			}
			c, err := s.Amend(t.Context(), prefix, k, r.op, When{Delay: 2 * time.Hour})
			if err != nil || c.Done != r.done || c.Before != r.state || c.State != r.after || s.state(t, k) != r.after {
				t.Errorf("%s of %s: %+v, %v, now %s; want done %v, %s", r.op, r.state, c, err, s.state(t, k), r.done, r.after)
				return
			}
			if c.InFlight != (r.state == notice.Claimed) {
				t.Errorf("%s of %s: in flight %v", r.op, r.state, c.InFlight)
			}
			timer := srv.Client().PTTL(t.Context(), k).Val()
			if r.op == Reschedule && r.done && (timer < 110*time.Minute || c.Due.Sub(c.Made.Time()) < 2*time.Hour) {
				t.Errorf("rescheduled: timer %s, %+v", timer, c.Notice)
			}
			if (r.op == Cancel || r.op == Fire) && r.done && timer > 0 {
				t.Errorf("%s left a timer", r.op)
			}
		})
	}
	s, _ := open(t)
	if _, err := s.Amend(t.Context(), prefix, "app1:a:b:none", Cancel, When{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
}

func TestListPagesOverEqualScores(t *testing.T) {
	s, _ := open(t)
	due := time.Now().Add(time.Hour)
	want := map[string]bool{}
	for i := range 250 {
		k := fmt.Sprintf("app1:m%d:b:%03d", i%2, i)
		want[k] = true
		s.put(t, Request{Key: k, Due: due})
	}
	q := Query{Routes: []string{prefix}, Limit: 7, State: notice.Scheduled}
	got := map[string]bool{}
	for pages := 0; ; pages++ {
		p, err := s.List(t.Context(), q)
		if err != nil || pages > 300 {
			t.Fatal(err, pages)
		}
		for _, f := range p.Items {
			if got[f.Key] {
				t.Errorf("%s twice", f.Key)
			}
			got[f.Key] = true
		}
		if pages == 3 { // the cursor's entry is removed
			if _, err := s.Amend(t.Context(), prefix, p.Items[len(p.Items)-1].Key, Cancel, When{}); err != nil {
				t.Fatal(err)
			}
		}
		if q.Cursor = p.Cursor; q.Cursor == "" {
			break
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d of %d seen", len(got), len(want))
	}
	p, err := s.List(t.Context(), Query{Routes: []string{prefix}, Prefix: "app1:m1", Limit: 1000, State: notice.Scheduled})
	if err != nil || len(p.Items) < 124 || len(p.Items) > 125 {
		t.Errorf("%d under app1:m1, %v", len(p.Items), err)
	}
	// A nan went to Redis, whose refusal was a 500. Go reads forms of numbers that Redis does not.
	for _, bad := range []string{"x", "{}", `{"p":"other"}`, `{"p":"app1","s":-1}`, `{"p":"app1","s":1}`, `{"p":"app1","z":4}`,
		`{"p":"app1","v":"nan","k":"a"}`,
		`{"p":"app1","v":"-inf","k":"a"}`, `{"p":"app1","v":"1e999","k":"a"}`, `{"p":"app1","v":"1"}`, `{"p":"app1","k":"a"}`} {
		if _, err := s.List(t.Context(), Query{Routes: []string{prefix}, Cursor: bad, Limit: 1}); !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %q: %v", bad, err)
		}
	}
}

func TestAmendAllRedrives(t *testing.T) {
	s, _ := open(t)
	for i := range 10 {
		k := fmt.Sprintf("app1:a:b:%d", i)
		s.put(t, Request{Key: k})
		c := s.take(t, k, "t")
		c.Reason = notice.ReasonTimeout
		if i%2 == 0 {
			c.Reason = notice.ReasonGone
		}
		s.end(t, Settlement{Claim: c, Ending: EndDead})
	}
	q := Query{Routes: []string{prefix}, Reason: notice.ReasonGone}
	dry, err := s.AmendAll(t.Context(), Bulk{Query: q, Op: Redrive, DryRun: true})
	if err != nil || dry.Matched != 5 || dry.Changed != 0 {
		t.Fatalf("%+v, %v", dry, err)
	}
	wet, err := s.AmendAll(t.Context(), Bulk{Query: q, Op: Redrive})
	if err != nil || wet.Changed != 5 {
		t.Fatalf("%+v, %v", wet, err)
	}
	c, _, err := s.Counts(t.Context(), []string{prefix})
	if err != nil || c[0].Dead != 5 || c[0].Pending != 5 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestTrim(t *testing.T) {
	s, _ := open(t)
	s.o.Retain = 3
	for i := range 10 {
		k := fmt.Sprintf("app1:a:b:%d", i)
		s.put(t, Request{Key: k})
		s.end(t, Settlement{Claim: s.take(t, k, "t"), Ending: EndDelivered})
	}
	if n, _, err := s.Trim(t.Context(), 0, []Trim{{prefix, time.Hour}}, 100); err != nil || n != 0 {
		t.Fatalf("%d, %v: too many, but young", n, err)
	}
	n, _, err := s.Trim(t.Context(), 0, []Trim{{Prefix: prefix}}, 100)
	if err != nil || n != 7 {
		t.Fatalf("%d, %v", n, err)
	}
	if s.state(t, "app1:a:b:0") != "" || s.state(t, "app1:a:b:9") != notice.Delivered {
		t.Error("the oldest should go and the newest stay")
	}
	s.o.Retention = -time.Hour // everything is older
	if n, _, err = s.Trim(t.Context(), 0, []Trim{{Prefix: prefix}}, 2); err != nil || n != 2 {
		t.Errorf("%d, %v: the bound is 2", n, err)
	}
}

// Several prefixes are trimmed at once, up to a bound in all, and one that cannot be
// read is no reason for the others to grow.
func TestTrimSeveral(t *testing.T) {
	s, srv := open(t)
	s.o.Retain = 3
	settled := func(prefix string) string { return s.space.Settled(keys.Partition{Prefix: prefix}) }
	if err := srv.Client().Set(t.Context(), settled("app2"), "not a zset", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"app1", "app3"} {
		for i := range 10 {
			if err := srv.Client().ZAdd(t.Context(), settled(prefix), redis.Z{Score: float64(time.Now().UnixMilli() - 1000),
				Member: fmt.Sprint(i)}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	list := []Trim{{Prefix: "app1"}, {Prefix: "app2"}, {Prefix: "app3"}, {Prefix: "app4"}}
	for _, want := range []int{10, 4, 0} {
		if n, _, err := s.Trim(t.Context(), 0, list, 10); n != want || want < 10 && !errors.As(err, new(redis.Error)) {
			t.Errorf("%d forgotten, want %d; %v", n, want, err)
		}
	}
	list[2].Young = time.Minute
	s.o.Retain = 1
	if n, _, err := s.Trim(t.Context(), 0, list, 10); n != 2 || err == nil {
		t.Errorf("%d forgotten, want 2: those of app3 are too young; %v", n, err)
	}
}

func TestARestartedRedisHasNoScripts(t *testing.T) {
	srv := testkit.StartRedis(t)
	s := on(t, srv.URL(), "notifier")
	s.put(t, Request{Key: "app1:a:b:1"})
	srv.Client().ScriptFlush(t.Context())
	s.put(t, Request{Key: "app1:a:b:2"})
	srv.Kill()
	if _, err := s.Schedule(t.Context(), partition, []Request{{Key: "app1:a:b:3"}}); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("%v, want wire.ErrUnavailable", err)
	}
	srv.Restart()
	s.put(t, Request{Key: "app1:a:b:4"})
}

func TestAFullRedisDeliversAndTakesNothingNew(t *testing.T) {
	srv := testkit.StartRedis(t)
	s := on(t, srv.URL(), "notifier")
	s.put(t, Request{Key: "app1:a:b:1"})
	srv.Client().ConfigSet(t.Context(), "maxmemory", "1")
	if _, err := s.Schedule(t.Context(), partition, []Request{{Key: "app1:a:b:2"}}); !errors.Is(err, wire.ErrFull) {
		t.Errorf("%v, want wire.ErrFull", err)
	}
	if got := s.end(t, Settlement{Claim: s.take(t, "app1:a:b:1", "t"), Ending: EndDelivered}); got.Stale {
		t.Error("not settled")
	}
}

func TestOpenDoesNotRepeatPasswords(t *testing.T) {
	for _, c := range [][2]string{{"standalone", "redis://u:hunter2@h:x/0"}, {"sentinel", "redis://u:hunter2@h:1/0"}, {"cluster",
		"http://u:hunter2@h"},
		{"moon", "redis://u:hunter2@h/0"}} {
		if _, err := wire.Open(wire.Address{Mode: c[0], URL: c[1]}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// Looks for fewer than a call has won find, one after another, all of it.
func TestLooksForAFewFindAll(t *testing.T) {
	s, srv := open(t)
	ctx := t.Context()
	for i := range 30 {
		s.put(t, Request{Key: fmt.Sprintf("app1:a:b:%02d", i)})
	}
	swept, err := s.Sweep(ctx, partition, Lease{"mine", lease}, SweepOptions{Limit: 30})
	if err != nil || len(swept.Won) != 30 {
		t.Fatal(swept, err)
	}
	now := func() int64 { return srv.Client().Time(ctx).Val().UnixMilli() }
	testkit.Until(t, "the millisecond of the call is over", func() bool { return now() > swept.Now.UnixMilli() })
	found := map[string]bool{}
	for range 3 {
		c, err := s.Recover(ctx, partition, Lease{"mine", lease}, 10, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Won {
			found[w.Key] = true
		}
	}
	if len(found) != 30 {
		t.Errorf("three looks for 10 found %d of 30", len(found))
	}
}

func TestRecoverFindsWhatALostReplyHasClaimed(t *testing.T) {
	s, _ := open(t)
	for i := range 40 {
		s.put(t, Request{Key: fmt.Sprintf("app1:a:b:%02d", i)})
		s.put(t, Request{Key: fmt.Sprintf("app1:a:b:near%02d", i), Delay: lease})
	}
	if c, err := s.Sweep(t.Context(), partition, Lease{"mine", lease}, SweepOptions{Limit: 30}); err != nil || len(c.Won) != 30 {
		t.Fatal(c, err)
	}
	if c, err := s.Sweep(t.Context(), partition, Lease{"other", lease}, SweepOptions{Limit: 5}); err != nil || len(c.Won) != 5 {
		t.Fatal(c, err)
	}
	c, err := s.Recover(t.Context(), partition, Lease{"mine", lease}, 30, time.Second)
	if err != nil || len(c.Won) != 30 {
		t.Fatalf("%d recovered, %v", len(c.Won), err)
	}
	if c.Won[0].Lapses != 0 || !c.Won[0].Attention.Equal(c.Won[0].Due) {
		t.Errorf("%+v", c.Won[0])
	}
	if got := s.end(t, Settlement{Claim: c.Won[0], Ending: EndDelivered}); got.Stale {
		t.Error("a recovered claim cannot be settled")
	}
	if c, err = s.Recover(t.Context(), partition, Lease{"nobody", lease}, 30, time.Second); err != nil || len(c.Won) != 0 {
		t.Errorf("%d recovered for a token that claimed nothing, %v", len(c.Won), err)
	}
}
