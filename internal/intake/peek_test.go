package intake

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// between calls f before each command of a pipeline without a transaction, to simulate other
// clients.
type between struct {
	f func()
}

func (b between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "multi" {
			return next(ctx, cmds)
		}
		var first error
		for _, cmd := range cmds {
			b.f()
			if err := next(ctx, []redis.Cmder{cmd}); err != nil && first == nil {
				first = err
			}
		}
		return first
	}
}

func TestPeekTimersReadsOnlyTimers(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	c, ctx := redis.NewClient(&redis.Options{Addr: srv.Addr(), MaxRetries: -1, DialerRetries: 1}), t.Context()
	t.Cleanup(func() { _ = c.Close() })
	s := Redis{store.New(store.Options{Client: c, Space: keys.Space{Namespace: "n", Shards: 1}})}
	err := errors.Join(c.Set(ctx, "app1:a:b:1", "payload", time.Hour).Err(), c.Set(ctx, "app1:a:b:2", "too long a payload", 0).Err(),
		c.LPush(ctx, "app1:a:b:3", "x").Err())
	if err != nil {
		t.Fatal(err)
	}
	ks := []string{"app1:a:b:1", "app1:a:b:2", "app1:a:b:3", "app1:a:b:4"}
	seen, err := s.PeekTimers(ctx, ks, 10)
	if err != nil || len(seen) != len(ks) {
		t.Fatalf("%+v, %v", seen, err)
	}
	for i, want := range []string{"app1:a:b:1 7 payload true", "app1:a:b:2 18  false", fmt.Sprintf("app1:a:b:3 %d  false", NoString),
		fmt.Sprintf("app1:a:b:4 %d  false", NoKey)} {
		w := seen[i]
		if got := fmt.Sprintf("%s %d %s %t", w.Key, w.Length, w.Value, w.Expire > 0); got != want || (w.Value != nil) != (i == 0) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	srv.Kill()
	seen, err = s.PeekTimers(ctx, ks, 10)
	scanned := s.Timers(ctx, nil, "app1:*", 10, func(context.Context, []string) error { return nil })
	evicts, eerr := s.Evicts(ctx)
	if seen != nil || !evicts { // what is not known is taken as the worse
		t.Errorf("without Redis: %+v, evicts %v", seen, evicts)
	}
	for what, err := range map[string]error{"peek": err, "scan": scanned, "evicts": eerr} {
		if !errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A user who may not ask whether Redis evicts keys is served as if it did.
func TestEvictsWithoutTheRight(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	if err := srv.Client().Do(t.Context(), "acl", "setuser", "svc", "on", ">password", "~*", "+@all", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "svc", Password: "password"})
	t.Cleanup(func() { _ = c.Close() })
	for c, want := range map[*redis.Client]bool{srv.Client(): false, c: true} {
		s := Redis{store.New(store.Options{Client: c, Space: keys.Space{Namespace: "n", Shards: 1}})}
		if got, err := s.Evicts(t.Context()); err != nil || got != want {
			t.Errorf("evicts: %v, %v, want %v", got, err, want)
		}
	}
}

// In a cluster a timer is read by several commands, between which it may expire or be set again.
// Peek returns a consistent state: a missing payload is not an empty one, and no payload has the
// length or expiry of another.
func TestPeekSeesATimerInOneState(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx, others := t.Context(), srv.Client()
	c := redis.NewClient(others.Options())
	t.Cleanup(func() { _ = c.Close() })
	k := "app1:" + srv.Namespace() + ":goes:1" // servers are shared
	at, later := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(2*time.Hour).Truncate(time.Second)
	set := func(value string, at time.Time) {
		if err := others.Do(ctx, "set", k, value, "pxat", at.UnixMilli()).Err(); err != nil {
			t.Error(err)
		}
	}
	commands, change := 0, func(int) {}
	c.AddHook(between{func() {
		change(commands)
		commands++
	}})
	s := Redis{store.New(store.Options{Client: c, Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Cluster: true,
		Prefixes: []string{"app1"}, Retention: time.Hour, Retain: 10})}
	look := func(f func(n int)) (seen []Seen, asked int) {
		t.Helper()
		commands, change = 0, f
		_, seen, looked, err := s.Peek(ctx, keys.Partition{Prefix: "app1"}, []string{k}, 100)
		if err != nil || looked != 1 {
			t.Fatal(looked, err)
		}
		return seen, commands
	}
	set("payload", at)
	look(func(int) {}) // learns the layout
	seen, once := look(func(int) {})
	if len(seen) != 1 || string(seen[0].Value) != "payload" || seen[0].Expire != at.UnixMilli() {
		t.Fatalf("%+v", seen)
	}
	for name, x := range map[string]struct {
		change func()
		want   map[string]int64 // allowed payloads and their expiry
	}{
		"expires": {func() { others.Del(ctx, k) }, map[string]int64{"payload": at.UnixMilli()}},
		"is set anew": {func() { set("another payload", later) }, map[string]int64{"payload": at.UnixMilli(),
			"another payload": later.UnixMilli()}},
		"is of a type": {func() { others.Del(ctx, k); others.LPush(ctx, k, "x"); others.PExpireAt(ctx, k, at) },
			map[string]int64{"payload": at.UnixMilli()}},
		"keeps its ttl": {func() { others.Set(ctx, k, "longer payload", redis.KeepTTL) }, map[string]int64{"payload": at.UnixMilli(),
			"longer payload": at.UnixMilli()}},
	} {
		for when := range once {
			others.Del(ctx, k)
			set("payload", at)
			seen, _ := look(func(n int) {
				if n == when {
					x.change()
				}
			})
			if len(seen) != 1 {
				t.Errorf("%s before command %d: %d seen", name, when, len(seen))
				continue
			}
			w := seen[0]
			gone := w.Length < 0
			if expire, ok := x.want[string(w.Value)]; gone && w.Value != nil || !gone && (!ok || expire != w.Expire ||
				int64(len(w.Value)) != w.Length) {
				t.Errorf("%s before command %d: seen %q of %d bytes, expiring at %d", name, when, w.Value, w.Length, w.Expire)
			}
		}
	}
	// A timer that changes all the time is omitted; its events are enough.
	n := 0
	if seen, asked := look(func(int) { n++; set("payload", at.Add(time.Duration(n)*time.Second)) }); len(seen) != 0 || asked != 3*once {
		t.Errorf("%+v after %d commands; want nothing after %d", seen, asked, 3*once)
	}
	// A payload above the maximum is returned without its text.
	change = func(int) {}
	if _, seen, _, err := s.Peek(ctx, keys.Partition{Prefix: "app1"}, []string{k}, 3); err != nil || len(seen) != 1 || seen[0].Length != 7 ||
		seen[0].Value != nil {
		t.Errorf("%+v, %v", seen, err)
	}
}
