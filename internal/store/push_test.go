package store

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
	"notifier/internal/wire"
)

// The answer to a push is lost: made again it does nothing, here and after the claim.
func TestAPushIsMadeOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		push notice.Push
		len  func(ctx context.Context, s *Store) int64
	}{
		{"list", notice.Push{Key: "todo", Entry: []string{"x"}}, func(ctx context.Context, s *Store) int64 {
			return s.c.LLen(ctx,
				"todo").Val()
		}},
		{"stream", notice.Push{Key: "events", Stream: true, MaxLen: 10, Entry: []string{"f", "x"}},
			func(ctx context.Context, s *Store) int64 { return s.c.XLen(ctx, "events").Val() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, srv, p := behind(t, "cluster")
			ctx := t.Context()
			push := func(mark string, inPlaceOf ...string) error {
				x := c.push
				x.Mark, x.InPlaceOf = mark, inPlaceOf
				return Push(ctx, s.c, s.space, &x, time.Minute)
			}
			want := func(n int64, when string) {
				t.Helper()
				if got := c.len(ctx, s); got != n {
					t.Errorf("%d entries %s, want %d", got, when, n)
				}
			}
			if err := push("m:1:0"); err != nil {
				t.Fatal(err)
			}
			p.lose("evalsha", 1, false)
			if err := push("m:2:0"); !errors.Is(err, notice.ErrUnanswered) || p.losses() != 1 {
				t.Errorf("the answer is lost: %v", err)
			}
			want(2, "after two pushes, of which one was not answered")
			for range 3 {
				if err := push("m:2:0"); err != nil {
					t.Error(err)
				}
			}
			want(2, "after the second was made again")
			if err := push("m:3:0", "m:x:0", "m:2:0"); err != nil {
				t.Error(err)
			}
			want(2, "after one in place of the second")
			if err := push("m:4:0", "m:x:0"); err != nil {
				t.Error(err)
			}
			want(3, "after one that replaces a push that was never made")
			for _, k := range srv.Client().Keys(ctx, "notifier:pushed:*").Val() {
				if ttl := srv.Client().PTTL(ctx, k).Val(); ttl <= 0 || ttl > time.Minute {
					t.Errorf("%s expires after %s", k, ttl)
				}
			}
			if n := len(srv.Client().Keys(ctx, "notifier:pushed:{"+c.push.Key+"}:*").Val()); n != 3 {
				t.Errorf("%d markers, want 3", n)
			}
		})
	}
}

// A push that no node of the cluster can take is none that is refused: there is no
// connection, the node is away, or it takes no writes.
func TestPushToAnUnavailableNodeIsUnanswered(t *testing.T) {
	t.Parallel()
	s, srv, _ := behind(t, "cluster")
	ctx := t.Context()
	p := &notice.Push{Key: "todo", Entry: []string{"x"}, Mark: "m:1:0"}
	for _, c := range []struct {
		name     string
		err      error
		refusing bool
	}{
		{"no connection", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, false},
		{"no room in the pool", redis.ErrPoolTimeout, false},
		{"the node does not answer", &wire.AwayError{Addr: "a:1"}, false},
		{"a disk that cannot be written", wire.Refusal("MISCONF Errors writing to the AOF file"), false},
		{"the same in a script of Redis 6", wire.Refusal("ERR Error running script (call to f_1): @user_script:9: -MISCONF Errors writing"),
			false},
		{"no replicas", wire.Refusal("NOREPLICAS Not enough good replicas to write."), false},
		{"a replica by now", wire.Refusal("READONLY You can't write against a read only replica."), false},
		{"loading", wire.Refusal("LOADING Redis is loading the dataset in memory"), false},
		{"a password that was changed", wire.Refusal("NOAUTH Authentication required."), false},
		{"another type", wire.Refusal("WRONGTYPE Operation against a key holding the wrong kind of value"), true},
		{"full", wire.Refusal("OOM command not allowed when used memory > 'maxmemory'."), true},
		{"no right", wire.Refusal("NOPERM No permissions to access a key"), true},
	} {
		if got := refusesEntry(c.err); got != c.refusing {
			t.Errorf("%s: refuses the entry %v", c.name, got)
		}
	}
	if err := Push(ctx, s.c, s.space, p, time.Minute); err != nil {
		t.Fatal(err)
	}
	srv.Kill()
	for range 3 { // the first uses a connection from before
		p.Mark += "0"
		if err := Push(ctx, s.c, s.space, p, time.Minute); !errors.Is(err, notice.ErrUnanswered) {
			t.Errorf("the server is dead: %v", err)
		}
	}
}

// A refused push leaves no marker, so it can be repeated after its target was fixed.
func TestAPushThatIsRefused(t *testing.T) {
	t.Parallel()
	s, srv, _ := behind(t, "cluster")
	ctx := t.Context()
	if err := srv.Client().Set(ctx, "todo", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	p := &notice.Push{Key: "todo", Entry: []string{"x"}, Mark: "m:1:0"}
	if err := Push(ctx, s.c, s.space, p, time.Minute); err == nil || errors.Is(err, notice.ErrUnanswered) || !strings.Contains(err.Error(),
		"WRONGTYPE") {
		t.Fatalf("%v", err)
	}
	if err := srv.Client().Del(ctx, "todo").Err(); err != nil {
		t.Fatal(err)
	}
	if err := Push(ctx, s.c, s.space, p, time.Minute); err != nil || srv.Client().LLen(ctx, "todo").Val() != 1 {
		t.Errorf("%v", err)
	}
}
