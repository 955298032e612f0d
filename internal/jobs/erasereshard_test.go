package jobs

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap/zaptest"

	"notifier/internal/history"
	"notifier/internal/store"
	"notifier/internal/testkit"
	_ "notifier/worker/sqlitehistory"
)

// shop is the host of all notices in these tests.
const shop = "shop.example"

// hosts is the Notices of an Eraser. It calls during when the Eraser has read the first page of a host's notices.
type hosts struct {
	EraseStore
	during func()
	others int // notices that are read first and then call another host
	read   int
}

func (h *hosts) Find(ctx context.Context, key string) (store.Found, error) {
	return h.Store.Find(ctx, prefix, key)
}

func (h *hosts) Host(string) string {
	if h.read++; h.read == 1 {
		h.during()
	}
	if h.read <= h.others {
		return "other.example"
	}
	return shop
}

// eraser returns an Eraser that reads pages of n notices.
func (h *hosts) eraser(t *testing.T, n int) *Eraser {
	t.Helper()
	d, err := history.Open(history.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "history.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	e := NewEraser(EraserOptions{Store: h.Store, DB: d, Notices: h, Logger: zaptest.NewLogger(t)})
	e.pageSize = n
	return e
}

// reshard puts n shards in the place of the current ones.
func (s EraseStore) reshard(t *testing.T, n int) {
	t.Helper()
	if err := s.Layout.Announce(t.Context(), s.Space().Replace(n, false)); err != nil {
		t.Fatal(err)
	}
}

// export takes a notice out of the first shard. Its batch stays on its way until import.
func (s EraseStore) export(t *testing.T, key string) {
	t.Helper()
	if l, _, err := s.Layout.MoveOut(t.Context(), partition, s.Space().Shard(key), []string{key}); err != nil || l.Len() != 1 {
		t.Fatalf("%d notices, %v", l.Len(), err)
	}
}

func (s EraseStore) imports(t *testing.T) {
	t.Helper()
	if err := s.Layout.Finish(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
}

// move moves the notices of the first shard to the shards of their keys.
func (s EraseStore) move(t *testing.T) {
	t.Helper()
	ks, err := s.Wire().Redis.HKeys(t.Context(), s.Space().Records(partition)).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range ks {
		s.export(t, k)
		s.imports(t)
	}
}

// checkErased erases all notices of the host, and checks that none is left.
func (s EraseStore) checkErased(t *testing.T, e *Eraser, x history.Erasure, want int) {
	t.Helper()
	if done, err := e.Erase(t.Context(), x); err != nil || done.Redis != want {
		t.Errorf("%+v, %v; want %d erased", done, err, want)
	}
	s.imports(t)
	for place := range s.Space().Places() {
		if n, err := s.Layout.Records(t.Context(), place); err != nil || n > 0 {
			t.Errorf("shard %d has %d notices, %v", place, n, err)
		}
	}
}

// A reshard may begin, move notices and end during an erasure.
func TestErasureOfHostFindsMovedNotices(t *testing.T) {
	t.Parallel()
	const some, page = 20, 5
	key := func(i int) string { return fmt.Sprintf("app1:a:b:%d", i) }
	begin := func(t *testing.T, m EraseStore) { m.reshard(t, 2) }
	all := func(t *testing.T, m EraseStore) { m.move(t) }
	both := func(t *testing.T, m EraseStore) { begin(t, m); all(t, m) }
	for name, c := range map[string]struct {
		ending         store.Ending
		before, during func(t *testing.T, mover EraseStore)
		others         int
	}{
		"a reshard begins and moves all notices":              {ending: store.EndDelivered, during: both},
		"it does so after a page without notices of the host": {ending: store.EndDelivered, during: both, others: page},
		"a reshard moves all notices":                         {ending: store.EndDelivered, before: begin, during: all},
		"a batch is on its way while all shards are listed": {ending: store.EndDelivered, before: begin,
			during: func(t *testing.T, m EraseStore) { m.export(t, key(some-1)) }},
		"a batch is on its way to an old shard": {ending: store.EndDead, before: func(t *testing.T, m EraseStore) {
			begin(t, m)
			m.export(t, key(0))
			begin(t, m)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testkit.SharedRedis(t)
			s, mover := on(t, srv), on(t, srv)
			for i := range some {
				s.settle(t, key(i), c.ending)
			}
			if c.before != nil {
				c.before(t, mover)
			}
			h := &hosts{EraseStore: s, others: c.others, during: func() {
				if c.during != nil {
					c.during(t, mover)
				}
			}}
			s.checkErased(t, h.eraser(t, page), history.Erasure{Host: shop}, some)
		})
	}
}

// beforeDelete calls during before the first call of delete.lua.
type beforeDelete struct {
	once   sync.Once
	during func()
}

func (h *beforeDelete) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *beforeDelete) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *beforeDelete) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		// delete.lua has the keys of a partition and of the layout, and three arguments: the last is the key of a notice.
		if a := cmd.Args(); cmd.Name() == "evalsha" && a[2] == 5 && len(a) == 3+5+3 {
			h.once.Do(h.during)
		}
		return next(ctx, cmd)
	}
}

// A mover may take a notice out of the shard in which an erasure has found it.
func TestErasureOfKeyFindsMovedNotice(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	for name, c := range map[string]struct {
		before, during func(t *testing.T, mover EraseStore)
	}{
		"it was moved": {before: func(t *testing.T, m EraseStore) { m.reshard(t, 2) }, during: func(t *testing.T, m EraseStore) { m.move(t) }},
		"it is on its way": {before: func(t *testing.T, m EraseStore) { m.reshard(t, 2) },
			during: func(t *testing.T, m EraseStore) { m.export(t, key) }},
		"a reshard has begun and moved it": {before: func(*testing.T, EraseStore) {}, during: func(t *testing.T, m EraseStore) {
			m.reshard(t, 2)
			m.move(t)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testkit.SharedRedis(t)
			s, mover := on(t, srv), on(t, srv)
			s.deliver(t, key)
			c.before(t, mover)
			ran := false
			s.Wire().Redis.(*redis.Client).AddHook(&beforeDelete{during: func() {
				ran = true
				c.during(t, mover)
			}})
			s.checkErased(t, (&hosts{EraseStore: s}).eraser(t, 1), history.Erasure{Key: key}, 1)
			if !ran {
				t.Error("the notice was not moved")
			}
		})
	}
}
