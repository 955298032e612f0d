package store

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// with is a Store whose configuration has these prefixes, beside others on the
// same database.
func with(t testing.TB, srv *testkit.Redis, shards int, prefixes ...string) *Store {
	t.Helper()
	s := New(Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: shards}, Prefixes: prefixes,
		Retention: time.Hour, Retain: 1000})
	if err := s.w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheFirstStartWritesTheLayoutAndItsCopies(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx, c := t.Context(), srv.Client()
	s := with(t, srv, 2, "b", "a:x")
	if err := s.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	if got := c.HGetAll(ctx, s.space.Meta()).Val(); len(got) != 3 || got["id"] == "" || got["layout"] != strconv.Itoa(Version) ||
		got["shards"] != "2" {
		t.Errorf("meta is %v", got)
	}
	for shard := range 2 {
		if got := c.HGetAll(ctx, s.space.Layout(shard)).Val(); got["layout"] != strconv.Itoa(Version) || got["shards"] != "2" {
			t.Errorf("shard %d: layout is %v", shard, got)
		}
		if got := c.SMembers(ctx, s.space.ShardRoutes(shard)).Val(); len(got) != 2 {
			t.Errorf("shard %d: routes are %v", shard, got)
		}
	}
	if got := c.SMembers(ctx, s.space.Routes()).Val(); len(got) != 2 {
		t.Errorf("routes are %v", got)
	}
	if err := s.Layout.Pause(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{s.space.Paused(), s.space.ShardPaused(0), s.space.ShardPaused(1)} {
		if got := c.SMembers(ctx, set).Val(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("%s is %v", set, got)
		}
	}
	c.Del(ctx, s.space.ShardPaused(1))
	c.SAdd(ctx, s.space.ShardPaused(0), "stale")
	if err := s.Layout.CopyPaused(ctx); err != nil {
		t.Fatal(err)
	}
	for shard := range 2 {
		if got := c.SMembers(ctx, s.space.ShardPaused(shard)).Val(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("copy %d is %v", shard, got)
		}
	}
	if err := s.Layout.Resume(ctx, "b"); err != nil ||
		c.Exists(ctx, s.space.Paused(), s.space.ShardPaused(0), s.space.ShardPaused(1)).Val() != 0 {
		t.Errorf("resumed: %v", err)
	}
}

func TestAnotherShardCountIsRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx := t.Context()
	if err := with(t, srv, 1, "a").Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	if err := with(t, srv, 2, "a").Layout.Learn(ctx); !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), "NOTIFIER_SHARDS=1") {
		t.Errorf("%v", err)
	}
	srv.Client().HSet(ctx, srv.Namespace()+":meta", "layout", 7)
	// Where the variable is not set too, whose count may differ.
	if _, _, err := Discover(ctx, srv.Client(), keys.Space{Namespace: srv.Namespace()}, false); !errors.Is(err, ErrLayout) ||
		!strings.Contains(err.Error(), `layout "7"`) {
		t.Errorf("%v", err)
	}
	if err := with(t, srv, 1, "a").Layout.Learn(ctx); !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), `layout "7"`) {
		t.Errorf("%v", err)
	}
}

func TestTheCountInRedisHoldsWhereTheVariableIsNotSet(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx, c, ns := t.Context(), srv.Client(), srv.Namespace()
	discover := func(want, shards int, warning string, wrong bool) {
		t.Helper()
		s, w, err := Discover(ctx, c, keys.Space{Namespace: ns, Shards: want}, false)
		n := s.Shards
		if errors.Is(err, ErrLayout) != wrong || !wrong && (n != shards || len(s.Tags) > 0) || wrong && err == nil || warning == "" &&
			w != "" || !strings.Contains(w, warning) {
			t.Errorf("NOTIFIER_SHARDS=%d: %d, %q, %v", want, n, w, err)
		}
	}
	discover(0, 1, "", false)
	discover(3, 3, "", false)
	if n := c.DBSize(ctx).Val(); n != 0 {
		t.Errorf("looking has written %d keys", n)
	}
	c.HSet(ctx, ns+":meta", "layout", Version, "shards", 8, "replaced", "1,4")
	discover(0, 8, "", false)
	discover(8, 8, "", false)
	discover(4, 8, "NOTIFIER_SHARDS=4 ", false)
	discover(2, 0, "", true)
	c.HSet(ctx, ns+":meta", "shards", "many")
	discover(0, 0, "", true)
}

// The first start on a cluster spreads the shards over its slots and stores their tags. Later
// starts use the stored tags.
func TestTheFirstStartOnAClusterChoosesTags(t *testing.T) {
	t.Parallel()
	s, srv, _ := behind(t, "cluster")
	ctx := t.Context()
	space, _, err := Discover(ctx, s.c, keys.Space{Namespace: "notifier", Shards: 6}, true)
	if err != nil || len(space.Tags) != 6 {
		t.Fatalf("%+v, %v", space, err)
	}
	if n := srv.Client().Exists(ctx, "notifier:meta").Val(); n != 0 {
		t.Error("looking has written")
	}
	first := New(Options{Client: s.c, Space: space, Cluster: true, Prefixes: []string{prefix}, Retention: time.Hour, Retain: 10})
	if err := first.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	tags := strings.Join(space.Tags, ",")
	if got := srv.Client().HGet(ctx, "notifier:meta", "tags").Val(); got != tags {
		t.Errorf("notifier:meta has the tags %q, want %q", got, tags)
	}
	for _, tag := range space.Tags {
		if got := srv.Client().HGet(ctx, "notifier:{"+tag+"}:layout", "tags").Val(); got != tags {
			t.Errorf("the copy of shard %s has the tags %q", tag, got)
		}
	}
	for _, want := range []int{0, 6} {
		again, _, err := Discover(ctx, s.c, keys.Space{Namespace: "notifier", Shards: want}, true)
		if err != nil || !slices.Equal(again.Tags, space.Tags) {
			t.Errorf("found again: %+v, %v", again, err)
		}
	}
	// An instance with other tags is refused, and writes nothing.
	other := New(Options{Client: s.c, Space: keys.Space{Namespace: "notifier", Shards: 6}, Cluster: true, Prefixes: []string{prefix}})
	if err := other.Layout.Learn(ctx); !errors.Is(err, ErrLayout) || srv.Client().Exists(ctx, "notifier:{1}:records:"+prefix).Val() != 0 {
		t.Errorf("an instance with other tags: %v", err)
	}
	for _, wrong := range []string{"1,2", "1,2,3,4,5,5", "1,2,3,4,5,}"} {
		srv.Client().HSet(ctx, "notifier:meta", "tags", wrong)
		if _, _, err := Discover(ctx, s.c, keys.Space{Namespace: "notifier"}, true); !errors.Is(err, ErrLayout) {
			t.Errorf("tags %q: %v", wrong, err)
		}
	}
}

// Another Redis answers, with other data or another program's data.
func TestNothingIsWrittenWhereTheLayoutIsAnother(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx, c := t.Context(), srv.Client()
	var told []bool
	s := New(Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Prefixes: []string{prefix},
		Retention: time.Hour, Retain: 1000, Watcher: watcher{&told}})
	s.put(t, Request{Key: "app1:a:b:1", Delay: time.Hour})
	c.FlushDB(ctx)
	c.HSet(ctx, s.space.Meta(), "layout", Version, "shards", 4)
	for name, do := range map[string]func() error{
		"schedule": func() error {
			_, err := s.Schedule(ctx, partition, []Request{{Key: "app1:a:b:2"}})
			return err
		},
		"amend": func() error {
			_, err := s.Amend(ctx, prefix, "app1:a:b:1", Cancel, When{})
			return err
		},
		"find": func() error {
			_, err := s.Find(ctx, prefix, "app1:a:b:1")
			return err
		},
		"claim": func() error {
			_, err := s.ClaimKeys(ctx, partition, Lease{"t", lease}, []string{"app1:a:b:1"})
			return err
		},
		"sweep": func() error {
			_, err := s.Sweep(ctx, partition, Lease{"t", lease}, SweepOptions{Limit: 10})
			return err
		},
		"settle": func() error {
			_, err := s.Settle(ctx, partition, []Settlement{{Claim: Claim{Notice: &notice.Notice{Key: "app1:a:b:1"}}, Ending: EndDelivered}})
			return err
		},
		"trim": func() error {
			_, _, err := s.Trim(ctx, 0, []Trim{{Prefix: prefix}}, 10)
			return err
		},
		"pause": func() error { return s.Layout.Pause(ctx, prefix) },
	} {
		if err := do(); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v, want ErrLayout", name, err)
		}
	}
	if n := c.DBSize(ctx).Val(); n != 1 {
		t.Errorf("%v were written", c.Keys(ctx, "*").Val())
	}
	if err := s.Layout.Right(ctx); !errors.Is(err, ErrLayout) {
		t.Errorf("the layout counts as right: %v", err)
	}
	// An empty Redis replaces it: the instance writes its layout.
	c.FlushDB(ctx)
	s.put(t, Request{Key: "app1:a:b:1"})
	if !slices.Equal(told, []bool{false, true}) {
		t.Errorf("the watcher was called with %v", told)
	}
	if got := c.HGet(ctx, s.space.Meta(), "shards").Val(); got != "1" {
		t.Errorf("meta says %s shards", got)
	}
}

// A replica with the same data is not another Redis: the layout is not read again.
func TestAReplicaThatTakesOverIsAskedNothing(t *testing.T) {
	master := testkit.StartRedis(t)
	replica := testkit.StartRedis(t)
	ctx := t.Context()
	s := with(t, master, 1, prefix)
	s.put(t, Request{Key: "app1:a:b:1"})
	host, port, _ := strings.Cut(master.Addr(), ":")
	if err := replica.Client().ReplicaOf(ctx, host, port).Err(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the replica has the data", func() bool { return replica.Client().Exists(ctx, s.space.Layout(0)).Val() > 0 })
	if err := replica.Client().ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	s.c = replica.Client()
	if err := s.c.ConfigResetStat(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	s.put(t, Request{Key: "app1:a:b:2"})
	if n := calls(t, replica, "hgetall"); n != 0 {
		t.Errorf("the layout was read %d times", n)
	}
}

func TestInstancesLearnOfEachOthersPrefixesBeforeTheyWrite(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx := t.Context()
	before, after := with(t, srv, 3, "app1"), with(t, srv, 3, "app1", "app1:m")
	for _, s := range []*Store{before, after} {
		if err := s.Layout.Learn(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := before.Layout.Prefixes(); !slices.Equal(got, []string{"app1"}) {
		t.Errorf("%v: the layout was not read yet", got)
	}
	for shard := range 3 {
		if _, err := before.Schedule(ctx, keys.Partition{Prefix: "app1", Shard: shard},
			[]Request{{Key: "app1:a:b:" + string(rune('0'+shard))}}); err != nil {
			t.Fatal(err)
		}
		if got := before.Layout.Prefixes(); !slices.Equal(got, []string{"app1", "app1:m"}) {
			t.Errorf("%v after a write in shard %d", got, shard)
		}
	}
	// Redis has lost its data: each instance registers its prefixes again.
	srv.Client().FlushDB(ctx)
	for _, s := range []*Store{after, before} {
		if _, err := s.Schedule(ctx, keys.Partition{Prefix: "app1", Shard: 1}, []Request{{Key: "app1:a:b:1"}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := srv.Client().SMembers(ctx, before.space.ShardRoutes(1)).Val(); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// Of routes both sets count.
func TestPrefixesThatOnlyTheNamespacesSetHasCountToo(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx, c := t.Context(), srv.Client()
	// Known by a set of the namespace only, as before the shards had copies.
	c.SAdd(ctx, srv.Namespace()+":routes", "app1:gone", "not a prefix")
	s := with(t, srv, 1, "app1")
	if err := s.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	if got := s.Layout.Prefixes(); !slices.Equal(got, []string{"app1", "app1:gone"}) {
		t.Errorf("%v", got)
	}
}

// An instance starts on a full Redis, because deliveries free memory.
func TestAnInstanceBeginsOnAFullRedis(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	ctx, c := t.Context(), srv.Client()
	s := with(t, srv, 1, prefix)
	s.put(t, Request{Key: "app1:a:b:1"})
	if err := c.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	again := with(t, srv, 1, prefix)
	if err := again.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Schedule(ctx, partition, []Request{{Key: "app1:a:b:2"}}); !errors.Is(err, wire.ErrFull) {
		t.Errorf("%v, want wire.ErrFull", err)
	}
	again.take(t, "app1:a:b:1", "t")
}

// watcher records the validity of the layout at each change.
type watcher struct{ told *[]bool }

func (w watcher) LayoutChanged(err error) { *w.told = append(*w.told, err == nil) }
func (watcher) Grow(int) (grown func())   { return func() {} }
func (watcher) SideChanged(Side)          {}
func (watcher) RecordedChanged([]string)  {}
func (watcher) DataReplaced(Replaced)     {}
