package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// burying is a Store that keeps no settled notice, and tombstones of those it trims.
func burying(t *testing.T) (*Store, *testkit.Redis) {
	t.Helper()
	s, srv := open(t)
	s.o.Retain, s.o.RepeatWindow, s.o.RepeatBytes = 0, time.Hour, 1<<20
	return s, srv
}

// deliver schedules a notice and delivers it.
func (s *Store) deliver(t *testing.T, r Request) Reply {
	t.Helper()
	reply := s.put(t, r)
	s.end(t, Settlement{Claim: s.take(t, r.Key, "t"), Ending: EndDelivered})
	return reply
}

// trimAll trims all that is settled and too much.
func (s *Store) trimAll(t *testing.T) (n int) {
	t.Helper()
	for more := true; more; {
		some, again, err := s.Trim(t.Context(), 0, []Trim{{Prefix: prefix}}, 100)
		if err != nil {
			t.Fatal(err)
		}
		n, more = n+some, again
	}
	return n
}

// RETAIN=100000 ended after 100 s at 1,000/s that repeating a schedule call was safe: the same call got a new notice, which was
// delivered under another id.
func TestTombstoneAnswersARepeatedSchedule(t *testing.T) {
	t.Parallel()
	s, _ := burying(t)
	r := Request{Key: "app1:a:b:1", Content: body("1")}
	r.URL, r.Headers, r.Ladder = "https://merchant.example/", []notice.Header{{Name: "a", Value: "b"}}, notice.Ladder{time.Second}
	id := s.deliver(t, r).ID()
	if n := s.trimAll(t); n != 1 || s.state(t, r.Key) != "" {
		t.Fatalf("%d trimmed", n)
	}

	again := s.put(t, r)
	if again.Created || again.State != notice.Settled || again.ID() != id || len(again.Differs) > 0 || again.Err != nil {
		t.Errorf("the same call: %+v", again)
	}
	other := r
	other.Body = []byte("2")
	if got := s.put(t, other); got.Created || len(got.Differs) == 0 || got.State != notice.Settled {
		t.Errorf("other content: %+v", got)
	}
	other.OnDuplicate = Keep
	if got := s.put(t, other); got.Created || len(got.Differs) > 0 || got.ID() != id {
		t.Errorf("keep: %+v", got)
	}

	// A replace passes, and its own tombstone takes the place of the old one.
	other.OnDuplicate = Replace
	second := s.put(t, other)
	if !second.Created || second.ID() == id {
		t.Fatalf("replace: %+v", second)
	}
	s.end(t, Settlement{Claim: s.take(t, r.Key, "t"), Ending: EndDelivered})
	s.trimAll(t)
	if got := s.put(t, r); got.Created || len(got.Differs) == 0 {
		t.Errorf("the first content after a replace: %+v", got)
	}
	other.OnDuplicate = Reject
	if got := s.put(t, other); got.Created || len(got.Differs) > 0 || got.ID() != second.ID() {
		t.Errorf("the second: %+v", got)
	}
}

// Each field that a repeated call is compared by counts, and nothing else does.
func TestTombstoneComparesContentAsTheRecordDoes(t *testing.T) {
	t.Parallel()
	base := notice.Content{Body: []byte(`{"a":1}`), Traceparent: "one"}
	grave := (&notice.Notice{Content: base}).Tombstone()
	for name, change := range map[string]func(c *notice.Content){
		"":             func(c *notice.Content) { c.Traceparent, c.Method = "two", "POST" },
		"url":          func(c *notice.Content) { c.URL = "https://a.example" },
		"audience":     func(c *notice.Content) { c.Audience = "a" },
		"body":         func(c *notice.Content) { c.Body = nil },
		"content_type": func(c *notice.Content) { c.ContentType = "text/plain" },
		"method":       func(c *notice.Content) { c.Method = "PUT" },
		"headers":      func(c *notice.Content) { c.Headers = []notice.Header{{Name: "a", Value: "b"}} },
		"retry":        func(c *notice.Content) { c.Ladder = notice.Ladder{} },
	} {
		c := base
		change(&c)
		if got, want := grave.Same(&c), len(c.Diff(&base)) == 0; got != want || want != (name == "") {
			t.Errorf("%s: same %v, the record says %v", name, got, want)
		}
	}
}

func TestTombstoneLetsRestoresPass(t *testing.T) {
	t.Parallel()
	s, _ := burying(t)
	for i, pass := range map[string]func(n notice.Notice) error{
		"restore": func(n notice.Notice) error {
			got, err := s.Restore(t.Context(), partition, []Letter{{&n, time.Now()}})
			if err == nil && got[0].Err != nil {
				err = got[0].Err
			}
			return err
		},
	} {
		key := "app1:a:b:" + i
		reply := s.deliver(t, Request{Key: key, Content: body("1")})
		s.trimAll(t)
		if s.state(t, key) != "" {
			t.Fatal(i, "not trimmed")
		}
		if err := pass(*reply.Notice); err != nil || s.state(t, key) == "" {
			t.Errorf("%s: %q, %v", i, s.state(t, key), err)
		}
	}
}

// deploy/schedule.lua looks for tombstones as the API does.
func TestTheProducersScriptFindsTombstones(t *testing.T) {
	t.Parallel()
	s, srv := burying(t)
	p := newProducer(t, s)
	for i := range 20 {
		key := fmt.Sprintf("app1:a:b:%d", i)
		s.deliver(t, Request{Key: key, Content: body("1")})
	}
	s.trimAll(t)
	for i := range 20 {
		key := fmt.Sprintf("app1:a:b:%d", i)
		for mode, want := range map[string]bool{"reject": false, "keep": false} {
			due, err := p.Run(t.Context(), srv.Client(), p.keys(key), key, "+1000", mode, "2").Int64()
			if err != nil || (due != 0) != want {
				t.Errorf("%s %s: %d, %v", mode, key, due, err)
			}
		}
	}
	if due, err := p.Run(t.Context(), srv.Client(), p.keys("app1:a:b:1"), "app1:a:b:1", "+1000", "replace", "2").Int64(); err != nil ||
		due == 0 {
		t.Errorf("replace: %d, %v", due, err)
	}
	if due, err := p.Run(t.Context(), srv.Client(), p.keys("app1:a:b:x"), "app1:a:b:x", "+1000", "reject", "2").Int64(); err != nil ||
		due == 0 {
		t.Errorf("another key: %d, %v", due, err)
	}
}

// Buckets are dropped when the window has passed them, and the oldest when they take too
// many bytes; how far back repeats are recognised is known of each route.
func TestBucketsAreDropped(t *testing.T) {
	t.Parallel()
	s, srv := burying(t)
	window := func() time.Duration {
		c, _, err := s.Counts(t.Context(), []string{prefix})
		if err != nil {
			t.Fatal(err)
		}
		return c[0].RepeatWindow
	}
	buckets := func() int {
		ends, err := srv.Client().ZRange(t.Context(), s.space.Tombstones(0), 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		n := len(ends)
		for _, end := range ends {
			if srv.Client().HLen(t.Context(), s.space.Bucket(0, end)).Val() == 0 {
				t.Errorf("bucket %s is empty", end)
			}
		}
		if left := len(srv.Client().Keys(t.Context(), s.space.Bucket(0, "*")).Val()); left != n {
			t.Errorf("%d hashes of %d buckets", left, n)
		}
		return n
	}
	if window() != s.o.Retention {
		t.Errorf("window %s before anything was trimmed", window())
	}
	// Each is older than the previous one by half a bucket's period.
	for i := range 16 {
		key := fmt.Sprintf("app1:a:b:%d", i)
		s.deliver(t, Request{Key: key, Content: body("1")})
		age := time.Duration(i) * time.Hour / 2 / bucketsInWindow
		srv.Client().ZIncrBy(t.Context(), s.space.Settled(partition), -float64(age.Milliseconds()), key)
	}
	s.o.Retention = 24 * time.Hour
	s.trimAll(t)
	if n := buckets(); n != bucketsInWindow && n != bucketsInWindow+1 {
		t.Errorf("%d buckets", n)
	}
	if window() != s.o.Retention {
		t.Errorf("window %s, and nothing was lost", window())
	}

	s.o.RepeatWindow = time.Hour / 2
	s.trimAll(t)
	if n := buckets(); n != bucketsInWindow/2 && n != bucketsInWindow/2+1 {
		t.Errorf("%d buckets after half of the window", n)
	}
	if got := window(); got < s.o.RepeatWindow || got > s.o.RepeatWindow+time.Hour/bucketsInWindow {
		t.Errorf("window %s, want half an hour and a bucket at most", got)
	}
	if !s.put(t, Request{Key: "app1:a:b:15", Content: body("1")}).Created || s.put(t, Request{Key: "app1:a:b:1", Content: body("1")}).Created {
		t.Error("the oldest should be forgotten, and the second not")
	}

	s.o.RepeatWindow, s.o.RepeatBytes = time.Hour, 350
	s.deliver(t, Request{Key: "app1:a:b:new", Content: body("1")})
	s.trimAll(t)
	if n := buckets(); n < 1 || n > 3 {
		t.Errorf("%d buckets in the bytes of three", n)
	}
	if got := window(); got >= s.o.RepeatWindow {
		t.Errorf("window %s after buckets were dropped for their bytes", got)
	}
	if s.put(t, Request{Key: "app1:a:b:new", Content: body("1")}).Created {
		t.Error("the newest should be known")
	}
}

// Without a window, or after it, RETAIN forgets at once, and says so.
func TestNoTombstoneAfterTheWindow(t *testing.T) {
	t.Parallel()
	s, srv := burying(t)
	s.o.Retention = 24 * time.Hour
	for i, window := range []time.Duration{0, time.Minute} {
		s.o.RepeatWindow = window
		key := fmt.Sprintf("app1:a:b:%d", i)
		s.deliver(t, Request{Key: key})
		srv.Client().ZIncrBy(t.Context(), s.space.Settled(partition), -90_000, key)
		s.trimAll(t)
		if n := srv.Client().Exists(t.Context(), s.space.Tombstones(0)).Val(); n != 0 {
			t.Errorf("window %s: a tombstone", window)
		}
		c, _, err := s.Counts(t.Context(), []string{prefix})
		if err != nil || c[0].RepeatWindow < 90*time.Second || c[0].RepeatWindow > 5*time.Minute {
			t.Errorf("window %s: real %s, %v", window, c[0].RepeatWindow, err)
		}
	}
}

// A batch of large records is cut by its bytes, and trimming goes on with the rest.
func TestTrimGoesOnAfterLargeRecords(t *testing.T) {
	t.Parallel()
	s, _ := burying(t)
	large := notice.Content{Body: []byte(strings.Repeat("x", 200<<10))}
	for i := range 12 {
		s.deliver(t, Request{Key: fmt.Sprintf("app1:a:b:%d", i), Content: large})
	}
	if n := s.trimAll(t); n != 12 {
		t.Errorf("%d trimmed", n)
	}
}

// A notice that changes between the two scripts of a trim stays.
func TestBuryLeavesWhatIsAnotherNotice(t *testing.T) {
	t.Parallel()
	s, _ := burying(t)
	r := Request{Key: "app1:a:b:1", Content: body("1")}
	old := s.deliver(t, r)
	f, err := s.Find(t.Context(), prefix, r.Key)
	if err != nil {
		t.Fatal(err)
	}
	buryArgs := s.buryArgs([]Trim{{Prefix: prefix}}, []any{int64(1), r.Key, f.record})[0]
	r.OnDuplicate = Replace
	s.deliver(t, r)
	if n, err := s.bury(t.Context(), partition, buryArgs); err != nil || n != 0 {
		t.Errorf("%d buried, %v", n, err)
	}
	if f, err := s.Find(t.Context(), prefix, r.Key); err != nil || f.ID() == old.ID() {
		t.Errorf("%+v, %v", f, err)
	}
}

// A reshard and a migration find a tombstone's shard without its key.
func TestDigestTellsTheShard(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 7} {
		space := keys.Space{Namespace: "notifier", Shards: n}
		for i := range 100 {
			key := fmt.Sprintf("app1:a:b:%d", i)
			if got := space.ShardOfDigest(string(keys.AppendDigest(nil, key))); got != space.Shard(key) {
				t.Fatalf("%s: %d of %d, want %d", key, got, n, space.Shard(key))
			}
		}
	}
}
