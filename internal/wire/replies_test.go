package wire

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"notifier/internal/testkit"
)

// garbler is a server that replies to HELLO with an error, and to all other commands with one reply. Without a reply it
// closes each connection.
func garbler(t *testing.T, reply string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = c.Close() }()
				garble(c, reply)
			})
		}
	})
	return l.Addr().String()
}

func garble(c net.Conn, reply string) {
	b := make([]byte, 4096)
	for reply != "" {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		text := reply
		if bytes.Contains(b[:n], []byte("hello")) {
			text = "-ERR unknown command\r\n"
		}
		if _, err := c.Write([]byte(text)); err != nil {
			return
		}
	}
}

func checked(t *testing.T, addr string, timeout time.Duration) *redis.Client {
	t.Helper()
	return hooked(t, addr, timeout, new(Replies))
}

func hooked(t *testing.T, addr string, timeout time.Duration, r *Replies) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, MaxRetries: -1, PoolSize: 2, ReadTimeout: timeout,
		ContextTimeoutEnabled: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	c.AddHook(r)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// malformed are replies that Redis never sends. go-redis panics over some of them, on its own goroutine or the caller's.
var malformed = []string{"*0\r\n", "*1\r\n:1\r\n", "*1\r\n*0\r\n", "*2\r\n$7\r\nmessage\r\n:1\r\n", "*1\r\n$7\r\nmessage\r\n",
	"*1\r\n$9\r\nsubscribe\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$8\r\npmessage\r\n$1\r\na\r\n",
	"*1\r\n$4\r\npong\r\n", "$9223372036854775806\r\n", "*9223372036854775806\r\n", "HTTP/1.1 400 Bad Request\r\n", "\r\n",
	"%1\r\n*0\r\n*0\r\n", ">0\r\n", ">1\r\n:1\r\n", "_\r\n", "$-1\r\n", "*-1\r\n"}

func TestMalformedRepliesAreErrors(t *testing.T) {
	t.Parallel()
	for _, reply := range malformed {
		c := checked(t, garbler(t, reply), 30*time.Millisecond)
		for range 3 { // more often than the pool has connections
			ctx := t.Context()
			_ = c.Get(ctx, "k").Err() // some replies are valid for a command
			_ = c.HGetAll(ctx, "k").Err()
			_ = c.Info(ctx).Err()
			_ = c.SlowLogGet(ctx, 1).Err()
			_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.ConfigGet(ctx, "a")
				p.ClusterSlots(ctx)
				p.Time(ctx)
				return nil
			})
		}
		if s := c.PoolStats(); s.Timeouts > 0 {
			t.Errorf("%q: the pool lost its connections: %+v", reply, s)
		}
		sub := c.Subscribe(t.Context(), "a")
		late := time.AfterFunc(100*time.Millisecond, func() { _ = sub.Close() }) // some replies look like the beginning of a longer one
		if m, err := Receive(t.Context(), sub); err == nil && strings.HasPrefix(reply, "*0") {
			t.Errorf("%q: received %v", reply, m)
		}
		late.Stop()
		_ = sub.Close()
	}
}

func TestMalformedMessageEndsSubscription(t *testing.T) {
	t.Parallel()
	c := checked(t, garbler(t, "*0\r\n"), 20*time.Second)
	err := Follow(t.Context(), c.Subscribe(t.Context(), "a"), time.Second, time.Minute, func(_ any, err error) error { return err })
	var bad *MalformedError
	if !errors.As(err, &bad) {
		t.Errorf("%v", err)
	}
}

func TestFollowEndsSilentSubscription(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	c := checked(t, srv.Addr(), 20*time.Second)
	confirmed := make(chan bool, 1)
	done := make(chan error, 1)
	go func() {
		done <- Follow(t.Context(), c.Subscribe(t.Context(), "a"), 20*time.Millisecond, time.Second, func(m any, err error) error {
			if _, ok := m.(*redis.Subscription); ok {
				confirmed <- true
			}
			return err
		})
	}()
	<-confirmed
	srv.Pause()
	defer srv.Unpause()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "silent") {
		t.Errorf("%v", err)
	}
}

// Without the hook go-redis ignores the refusal, as a reply to HELLO, and the next command fails with EOF.
func TestRefusedConnectionNamesMaxclients(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t, testkit.WithConfig("maxclients 10"))
	other := redis.NewClient(&redis.Options{Addr: srv.Addr(), DisableIdentity: true, PoolSize: 20})
	defer func() { _ = other.Close() }()
	var held []*redis.PubSub
	defer func() {
		for _, sub := range held {
			_ = sub.Close()
		}
	}()
	for len(held) < 10 {
		sub := other.Subscribe(t.Context(), "a")
		if _, err := sub.Receive(t.Context()); err != nil {
			_ = sub.Close()
			break // testkit has a connection too
		}
		held = append(held, sub)
	}
	for _, most := range []int64{0, 10} {
		r := new(Replies)
		r.SetMaxClients(most)
		err := hooked(t, srv.Addr(), 20*time.Second, r).Ping(t.Context()).Err()
		var refused *ConnectError
		if !errors.As(err, &refused) || refused.Most != most || strings.Contains(err.Error(), "(10)") != (most == 10) {
			t.Errorf("%v, want maxclients", err)
		}
	}
	err := checked(t, garbler(t, ""), 20*time.Second).Ping(t.Context()).Err()
	if err == nil || !strings.Contains(err.Error(), "may have reached maxclients") {
		t.Errorf("%v, want maxclients as a possible cause", err)
	}
}
