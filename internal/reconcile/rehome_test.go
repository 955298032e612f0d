package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// newRedis returns a Redis with one shard, whose instance serves some prefixes.
func newRedis(t *testing.T, c *redis.Client, namespace string, prefixes ...string) Redis {
	t.Helper()
	s := Redis{store.New(store.Options{Client: c, Space: keys.Space{Namespace: namespace, Shards: 1}, Prefixes: prefixes,
		Retention: time.Hour, Retain: 1000})}
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func request(key, text string, delay time.Duration) store.Request {
	return store.Request{Key: key, Content: notice.Content{Body: []byte(text)}, Delay: delay}
}

func (s Redis) claim(t *testing.T, prefix, key string) store.Claim {
	t.Helper()
	c, err := s.ClaimKeys(t.Context(), keys.Partition{Prefix: prefix}, store.Lease{Token: "t", For: time.Minute}, []string{key})
	if err != nil || len(c.Won) != 1 {
		t.Fatalf("claim %s: %+v, %v", key, c, err)
	}
	return c.Won[0]
}

// copied schedules a notice as an old copy of deploy/schedule.lua does, which looks under no other
// prefix: the notice is written into a separate namespace, and copied.
func (s Redis) copied(t *testing.T, c *redis.Client, prefix, key, text string) {
	t.Helper()
	ctx, p := t.Context(), keys.Partition{Prefix: prefix}
	from := newRedis(t, c, s.Space().Namespace+"-"+prefix, prefix)
	if _, err := from.Schedule(ctx, p, []store.Request{request(key, text, time.Hour)}); err != nil {
		t.Fatal(err)
	}

	record, err := c.HGet(ctx, from.Space().Records(p), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	score, err := c.ZScore(ctx, from.Space().Shadow(p), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.HSet(ctx, s.Space().Records(p), key, record).Err(),
		c.ZAdd(ctx, s.Space().Shadow(p), redis.Z{Score: score, Member: key}).Err()); err != nil {
		t.Fatal(err)
	}
}

func TestRehomeLeavesClaimedNotices(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	s, from := newRedis(t, srv.Client(), srv.Namespace(), "app1"), keys.Partition{Prefix: "app1"}
	for i := range 3 {
		if _, err := s.Schedule(t.Context(), from, []store.Request{request(fmt.Sprintf("app1:a:b:%d", i), "1", 0)}); err != nil {
			t.Fatal(err)
		}
	}
	s.claim(t, "app1", "app1:a:b:1")
	ks, next, err := s.Layout.ScanKeys(t.Context(), from, 0, 100)
	if err != nil || len(ks) != 3 || next != 0 {
		t.Fatal(ks, next, err)
	}
	n, _, err := s.Rehome(t.Context(), from, "app1:a", ks)
	if err != nil || n != 2 {
		t.Fatalf("%d moved, %v, want the two that are not claimed", n, err)
	}
	f, err := s.Find(t.Context(), "app1:a", "app1:a:b:0")
	if err != nil || f.State != notice.Scheduled || string(f.Body) != "1" {
		t.Errorf("%+v, %v", f, err)
	}
	if left, err := s.Unsettled(t.Context(), from); err != nil || left != 1 {
		t.Errorf("%d unsettled, %v, want the claimed one", left, err)
	}
	for prefix, want := range map[string]bool{"app1": true, "app1:a": true, "app2": false} {
		if some, err := s.Holds(t.Context(), 0, []string{prefix}); err != nil || some != want {
			t.Errorf("%s holds notices: %t, %v", prefix, some, err)
		}
	}
}

func TestRehomeNeverDropsDifferentNotices(t *testing.T) {
	t.Parallel()
	const from, to, key = "app1", "app1:m", "app1:m:t:1"
	deliver := func(t *testing.T, s Redis, under string) {
		t.Helper()
		x := store.Settlement{Claim: s.fired(t, under, key), Ending: store.EndDelivered}
		x.Claim.Add(notice.Attempt{Number: 1, Status: 200})
		if _, err := s.Settle(t.Context(), keys.Partition{Prefix: under}, []store.Settlement{x}); err != nil {
			t.Fatal(err)
		}
	}

	for _, c := range []struct {
		name              string
		first, second     string // contents under from and under to
		delivered, claims string // the prefix whose notice is delivered or claimed before
		moved             int
		stuck             bool
		left, there       string // contents afterwards
		state             notice.State
	}{
		{"the same twice", "1", "1", "", "", 1, false, "", "1", notice.Scheduled},
		{"both pending and different", "1", "2", "", "", 0, true, "1", "2", notice.Scheduled},
		{"the first is delivered, the same is pending", "1", "1", from, "", 1, false, "", "1", notice.Delivered},
		{"the second is delivered, the same is pending", "1", "1", to, "", 1, false, "", "1", notice.Delivered},
		{"the second is delivered, another is pending", "1", "2", to, "", 1, false, "", "1", notice.Scheduled},
		{"the first is delivered, another is pending", "1", "2", from, "", 0, false, "1", "2", notice.Scheduled},
		{"the first is claimed", "1", "1", "", from, 0, false, "1", "1", notice.Claimed},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := testkit.SharedRedis(t)
			s := newRedis(t, srv.Client(), srv.Namespace(), from, to)
			s.copied(t, srv.Client(), from, key, c.first)
			s.copied(t, srv.Client(), to, key, c.second)
			if c.delivered != "" {
				deliver(t, s, c.delivered)
			}
			if c.claims != "" {
				s.fired(t, c.claims, key)
			}

			n, stuck, err := s.Rehome(t.Context(), keys.Partition{Prefix: from}, to, []string{key})
			if err != nil || n != c.moved || slices.Contains(stuck, key) != c.stuck {
				t.Errorf("%d moved, stuck %v, %v", n, stuck, err)
			}
			for under, want := range map[string]string{from: c.left, to: c.there} {
				f, err := s.FindMany(t.Context(), keys.Partition{Prefix: under}, []string{key})
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				if f[0].Notice != nil {
					got = string(f[0].Body)
				}
				if got != want || under == to && f[0].State != c.state {
					t.Errorf("under %s: %q, %s, want %q, %s", under, got, f[0].State, want, c.state)
				}
			}
			left := srv.Client().Keys(t.Context(), srv.Namespace()+":{0}:*:"+from).Val()
			if c.left == "" && len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// Two records that cannot be read are the same notice only if their texts are equal.
func TestMergeKeepsDifferentUnreadableRecords(t *testing.T) {
	unreadable := func(text string) *store.Found {
		return &store.Found{Notice: &notice.Notice{Key: "app1:m:t:1", Raw: []byte(text)}, State: notice.Scheduled}
	}
	if op := merge(unreadable("a"), unreadable("b")); op != "" {
		t.Errorf("different records: %q, want both to stay", op)
	}
	if op := merge(unreadable("a"), unreadable("a")); op != "d" {
		t.Errorf("equal records: %q", op)
	}
}

// A notice is moved to and fro while others look for it.
func TestNoticeIsFoundWhileItIsRehomed(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx := t.Context()
	a, b := newRedis(t, srv.Client(), srv.Namespace(), "app1"), newRedis(t, srv.Client(), srv.Namespace(), "app1", "app1:m")
	const key = "app1:m:t:1"
	if _, err := a.Schedule(ctx, keys.Partition{Prefix: "app1"}, []store.Request{{Key: key, Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for at := []string{"app1", "app1:m"}; ; slices.Reverse(at) {
			select {
			case <-stop:
				return
			default:
			}
			if _, _, err := b.Rehome(ctx, keys.Partition{Prefix: at[0]}, at[1], []string{key}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	missed := 0
	for range 500 {
		if _, err := a.Find(ctx, "app1", key); err != nil {
			missed++
		}
		r, err := b.Schedule(ctx, keys.Partition{Prefix: "app1:m"}, []store.Request{{Key: key, Delay: time.Hour}})
		if err != nil || r[0].Created {
			t.Fatalf("%+v, %v: a second notice", r, err)
		}
	}
	close(stop)
	<-done
	if missed > 0 {
		t.Errorf("not found %d times", missed)
	}
}

// The script runs under the guard of package store.
func TestRehomeIsRefusedOnADifferentLayout(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	s := newRedis(t, srv.Client(), srv.Namespace(), "app1")
	ctx, c := t.Context(), srv.Client()
	if err := errors.Join(c.Del(ctx, s.Space().Layout(0)).Err(), c.HSet(ctx, s.Space().Meta(), "shards", 4).Err()); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Rehome(ctx, keys.Partition{Prefix: "app1"}, "app1:a", []string{"app1:a:b:1"})
	if !errors.Is(err, store.ErrLayout) {
		t.Errorf("%v, want store.ErrLayout", err)
	}
}

// FuzzRehomeReplies: whatever Redis replies, a call returns.
func FuzzRehomeReplies(f *testing.F) {
	f.Add([]byte{200, 3, 0, 5, 200, 7, 100, 3, 0, 1, 0, 0, 100, 16, 100, 8, 100, 0, 100, 0})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, a := testkit.Answers(t, b)
		a.Learning = []string{"app1", "app1:a"}
		s := newRedis(t, c, "notifier", "app1")
		a.Learning, a.Rest = nil, b
		_, _, _ = s.Rehome(context.Background(), keys.Partition{Prefix: "app1"}, "app1:a", []string{"app1:a:b:1"})
	})
}

// A notice that moves to another prefix leaves its sequence there, and keeps its position in the one of
// the new prefix. A parked one is due at once.
func TestRehomeKeepsPositions(t *testing.T) {
	t.Parallel()
	for _, members := range [][]string{{"app1", "app1:a"}, {"app1:a"}, {"app1"}} {
		srv := testkit.SharedRedis(t)
		c, ctx := srv.Client(), t.Context()
		s, from, to := newRedis(t, c, srv.Namespace(), "app1", "app1:a"), keys.Partition{Prefix: "app1"}, keys.Partition{Prefix: "app1:a"}
		if err := s.Layout.AddOrdered(ctx, members); err != nil {
			t.Fatal(err)
		}
		ks := []string{"app1:a:b:1", "app1:a:c:1"}
		for _, k := range ks {
			if _, err := s.Schedule(ctx, from, []store.Request{request(k, "1", 0)}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.ClaimKeys(ctx, from, store.Lease{Token: "t", For: time.Minute}, ks[1:]); err != nil ||
			got.Parked != map[bool]int{true: 1}[slices.Contains(members, "app1")] {
			t.Fatalf("%v: %+v, %v", members, got, err)
		}
		if got := s.rehomeAll(t, from, "app1:a", ks); got == 0 {
			t.Fatal("nothing was moved")
		}

		left := c.Exists(ctx, s.Space().Order(from), s.Space().Successors(from), s.Space().Positions(from), s.Space().Waiting(from)).Val()
		in := s.members(t, c, to)
		if want := c.ZCard(ctx, s.Space().Shadow(to)).Val(); left != 0 || slices.Contains(members, "app1:a") && len(in) != int(want) {
			t.Errorf("%v: %d keys of the old prefix; the members are %q, %d are pending", members, left, in, want)
		}
		for _, z := range c.ZRangeWithScores(ctx, s.Space().Shadow(to), 0, -1).Val() {
			if z.Member == ks[1] && slices.Contains(members, "app1") && time.Until(time.UnixMilli(int64(z.Score))) > time.Second {
				t.Errorf("%v: %s is due in %s", members, ks[1], time.Until(time.UnixMilli(int64(z.Score))))
			}
		}
	}
}

// members returns the members of the sequences of a partition.
func (s Redis) members(t *testing.T, c redis.Scripter, p keys.Partition) []string {
	t.Helper()
	is, err := testkit.ReadSequences(t.Context(), c, s.Space().Base(p.Shard), p.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	return is.Members
}

// rehomeAll moves keys to another prefix, and returns how many it moved.
func (s Redis) rehomeAll(t *testing.T, from keys.Partition, to string, ks []string) int {
	t.Helper()
	n, _, err := s.Rehome(t.Context(), from, to, ks)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A delivered notice that replaces a pending one of the new prefix takes it out of its sequence. The notice
// that waits for it starts, and no member is left.
func TestRehomeOfSettledNoticeReleasesItsSuccessor(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	c, ctx := srv.Client(), t.Context()
	s, from, to := newRedis(t, c, srv.Namespace(), "app1", "app1:a"), keys.Partition{Prefix: "app1"}, keys.Partition{Prefix: "app1:a"}
	if err := s.Layout.AddOrdered(ctx, []string{"app1", "app1:a"}); err != nil {
		t.Fatal(err)
	}
	const first, second = "app1:a:b:1", "app1:a:c:1"
	for _, k := range []string{first, second} {
		if _, err := s.Schedule(ctx, to, []store.Request{request(k, "1", 0)}); err != nil {
			t.Fatal(err)
		}
	}
	s.copied(t, c, "app1", first, "1")
	x := store.Settlement{Claim: s.fired(t, "app1", first), Ending: store.EndDelivered}
	x.Claim.Add(notice.Attempt{Number: 1, Status: 200})
	if _, err := s.Settle(ctx, from, []store.Settlement{x}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ClaimKeys(ctx, to, store.Lease{Token: "u", For: time.Minute}, []string{second}); err != nil || got.Parked != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := s.rehomeAll(t, from, "app1:a", []string{first}); n != 1 {
		t.Fatalf("%d moved", n)
	}
	if members := s.members(t, c, to); len(members) != 1 || !strings.HasSuffix(members[0], second) {
		t.Errorf("the members are %q", members)
	}
	s.claim(t, "app1:a", second)
}

// A moved notice is announced to the sweepers of its new prefix, and when it expires.
// Regression test: nothing was published. Sweepers without notices that expire ask for some once a minute, so a notice that was held,
// or waited for a retry, became dead up to a minute late.
func TestRehomeAnnouncesExpiry(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	c, ctx := srv.Client(), t.Context()
	s, from, to := newRedis(t, c, srv.Namespace(), "app1", "app1:a"), keys.Partition{Prefix: "app1"}, keys.Partition{Prefix: "app1:a"}
	const key = "app1:a:b:1"
	r := request(key, "1", time.Hour)
	r.ExpiresAfter = time.Hour
	if _, err := s.Schedule(ctx, from, []store.Request{r}); err != nil {
		t.Fatal(err)
	}

	f, err := s.FindMany(ctx, from, []string{key})
	if err != nil || f[0].Expires.IsZero() {
		t.Fatalf("%+v, %v", f, err)
	}
	sub := c.Subscribe(ctx, s.Space().Wake())
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	if n := s.rehomeAll(t, from, "app1:a", []string{key}); n != 1 {
		t.Fatalf("%d moved", n)
	}
	for _, want := range []string{fmt.Sprintf("%d %s", f[0].Due.UnixMilli(), to.Wake()),
		fmt.Sprintf("expires %d %s", f[0].Expires.UnixMilli(), to.Wake())} {
		if m := testkit.Next(t, "a message", sub.Channel()); m.Payload != want {
			t.Errorf("%q, want %q", m.Payload, want)
		}
	}
}

// A dead letter that held back its successor moves to a longer prefix, which does not cover the successor.
func TestRehomedDeadLetterReleasesItsSuccessor(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	c, ctx := srv.Client(), t.Context()
	s, from := newRedis(t, c, srv.Namespace(), "app1", "app1:a:b"), keys.Partition{Prefix: "app1"}
	if err := s.Layout.AddOrdered(ctx, []string{"app1", "app1" + store.Blocks}); err != nil {
		t.Fatal(err)
	}
	const dead, next = "app1:a:b:1", "app1:a:c:1"
	for _, k := range []string{dead, next} {
		if _, err := s.Schedule(ctx, from, []store.Request{request(k, "1", 0)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Settle(ctx, from, []store.Settlement{{Claim: s.claim(t, "app1", dead), Ending: store.EndDead}}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ClaimKeys(ctx, from, store.Lease{Token: "u", For: time.Minute}, []string{next}); err != nil || got.Parked != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	sub := c.Subscribe(ctx, s.Space().Wake())
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	if n := s.rehomeAll(t, from, "app1:a:b", []string{dead}); n != 1 {
		t.Fatalf("%d moved", n)
	}
	if m := testkit.Next(t, "a wake", sub.Channel()); !strings.HasSuffix(m.Payload, " "+from.Wake()) {
		t.Errorf("%q, want one of %q", m.Payload, from.Wake())
	}
	s.claim(t, "app1", next)
}

// fired makes a notice due, and claims it.
func (s Redis) fired(t *testing.T, under, key string) store.Claim {
	t.Helper()
	if _, err := s.Amend(t.Context(), under, key, store.Fire, store.When{}); err != nil {
		t.Fatal(err)
	}
	return s.claim(t, under, key)
}

// A dead letter joins a sequence of its new prefix if dead letters hold back their successors there, and only then.
func TestRehomeOfDeadLetterFollowsTheNewPrefix(t *testing.T) {
	t.Parallel()
	for _, blocking := range []string{"app1:a", "app1"} {
		srv := testkit.SharedRedis(t)
		c, ctx := srv.Client(), t.Context()
		s, from := newRedis(t, c, srv.Namespace(), "app1", "app1:a"), keys.Partition{Prefix: "app1"}
		if err := s.Layout.AddOrdered(ctx, []string{"app1", "app1:a", blocking + store.Blocks}); err != nil {
			t.Fatal(err)
		}
		const key = "app1:a:b:1"
		if _, err := s.Schedule(ctx, from, []store.Request{request(key, "1", 0)}); err != nil {
			t.Fatal(err)
		}
		x := store.Settlement{Claim: s.claim(t, "app1", key), Ending: store.EndDead}
		if _, err := s.Settle(ctx, from, []store.Settlement{x}); err != nil {
			t.Fatal(err)
		}
		if n := s.rehomeAll(t, from, "app1:a", []string{key}); n != 1 {
			t.Fatalf("%d moved", n)
		}
		members := s.members(t, c, from.Under("app1:a"))
		if left := s.members(t, c, from); len(left) != 0 || len(members) != map[string]int{"app1:a": 1}[blocking] {
			t.Errorf("dead letters of %s hold back: %q of the new prefix, %q of the old one", blocking, members, left)
		}
	}
}
