package store

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/embedded"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// emulate is a Store on an emulated Redis, whose clock can be set.
func emulate(t *testing.T) (*Store, *embedded.Emulation, *redis.Client) {
	t.Helper()
	em, err := embedded.NewEmulation()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(em.Close)
	c := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return em.Dial() }, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	s := New(Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}, Prefixes: []string{prefix}, Retention: time.Hour,
		Retain: 1000,
		Adopts: func(string) bool { return true }})
	return s, em, c
}

// With such a clock the generation would be invalid: below zero, or mistaken for a time in Unix ms.
func TestNothingIsMadeWhileRedissClockStandsYearsBehind(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	s, em, c := emulate(t)
	ctx := t.Context()
	if err := s.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	p := newProducer(t, s)
	for _, at := range []time.Time{time.Unix(5, 0), time.Date(2019, 12, 31, 23, 59, 0, 0, time.UTC), notice.Earliest().Add(-time.Minute)} {
		em.Leap(time.Until(at) + time.Since(c.Time(ctx).Val()))
		says := func(what string, err error) {
			t.Helper()
			var clock wire.ClockError
			if !errors.Is(err, wire.ErrUnavailable) || !errors.As(err, &clock) || clock.Says.Sub(at).Abs() > 30*time.Second {
				t.Errorf("%s, at %s: %v", what, at, err)
			}
			if !strings.Contains(err.Error(), "redis's clock says "+clock.Says.Format(time.RFC3339)+": set the clock of the machine") {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := s.Schedule(ctx, partition, []Request{{Key: key, Delay: time.Hour, Content: body("x")}})
		says("schedule", err)
		if err := p.Run(ctx, c, p.keys(key), key, "+1000", "reject", "x").Err(); err == nil ||
			!strings.Contains(err.Error(), "set the clock of the machine that Redis runs on") {
			t.Errorf("deploy/schedule.lua at %s: %v", at, err)
		}
		if n := c.Exists(ctx, s.space.States(partition)...).Val() + c.Exists(ctx, key).Val(); n != 0 {
			t.Errorf("at %s: %d keys are there", at, n)
		}
	}
	em.Leap(time.Until(notice.Earliest()) + time.Since(c.Time(ctx).Val()) + time.Millisecond)
	r := s.put(t, Request{Key: key, Delay: time.Hour, Content: body("x")})
	f, err := s.Find(ctx, prefix, key)
	if err != nil || f.ID() != r.ID() || f.Made.Time().Sub(notice.Earliest()).Abs() > time.Minute {
		t.Errorf("the first that can be made: %+v, %v", f, err)
	}
}

// The same answer from a real Redis, whose clock cannot be set: the scripts are given
// another TIME.
func TestARealRedisAnswersSoOfItsClock(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	const other = "local redis = setmetatable({call = function(c, ...) if c == 'TIME' then return {'5', '0'} end " +
		"return redis.call(c, ...) end}, {__index = redis})\n"
	args := []any{s.space.ClaimPrefix(0), s.space.Wake(), partition.Wake(), "1", "", "", "app1:a:b:1", "r+1000", "}", "", "", "", ""}
	err := wire.Wrap("schedule", srv.Client().Eval(t.Context(), other+scheduleScript.Source(), s.space.States(partition), args...).Err())
	var clock wire.ClockError
	if !errors.As(err, &clock) || !clock.Says.Equal(time.Unix(5, 0)) {
		t.Errorf("%v", err)
	}
}
