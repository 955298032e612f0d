package store

import (
	"strconv"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/testkit"
)

// forgetful returns a Store that stores no settled notices.
func forgetful(t *testing.T) (*Store, *testkit.Redis) {
	t.Helper()
	s, srv := open(t)
	return New(Options{Client: s.c, Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Prefixes: []string{prefix}}), srv
}

func TestNoTwoNoticesOfAKeyShareTheirWebhookID(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	s, srv := forgetful(t)
	p := newProducer(t, s)
	seen := map[string]bool{}
	add := func(id string) {
		t.Helper()
		if seen[id] {
			t.Fatalf("notice %d has a webhook-id that one before it had", len(seen)+1)
		}
		seen[id] = true
	}
	for range 100 {
		r := s.put(t, Request{Key: key, Content: body("x")})
		add(r.ID())
		s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndDelivered})
		r = s.put(t, Request{Key: key, Delay: time.Hour, Content: body("x")})
		add(r.ID())
		if _, err := s.Amend(t.Context(), prefix, key, Cancel, When{}); err != nil {
			t.Fatal(err)
		}
		if err := p.Run(t.Context(), srv.Client(), p.keys(key), key, "+0", "reject", "x").Err(); err != nil {
			t.Fatal(err)
		}
		f, err := s.Find(t.Context(), prefix, key)
		if err != nil {
			t.Fatal(err)
		}
		add(f.ID())
		if _, err := s.Amend(t.Context(), prefix, key, Cancel, When{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheReplyToAReplaceNamesTheWebhookIDOfItsRecord(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	s, _ := open(t)
	for range 50 {
		s.put(t, Request{Key: key, Content: body("x")})
		r := s.put(t, Request{Key: key, OnDuplicate: Replace, Content: body("y")})
		if f, err := s.Find(t.Context(), prefix, key); err != nil || f.ID() != r.ID() {
			t.Fatalf("the reply says %s, made %v, the record %v, %v", r.ID(), r.Made, f.Notice, err)
		}
	}
}

func TestADelayIsNeverShort(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	s, srv := forgetful(t)
	p := newProducer(t, s)
	ctx, c := t.Context(), srv.Client()
	for i := range 60 {
		now := func() time.Time {
			v, err := c.Time(ctx).Result()
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		check := func(what string, before, due time.Time) {
			t.Helper()
			over := due.Sub(before.Add(time.Second))
			if over < 0 || over > time.Second {
				t.Fatalf("%s %d is due %s after its delay", what, i, over)
			}
		}
		before := now()
		check("schedule", before, s.put(t, Request{Key: key, Delay: time.Second}).Due)
		before = now()
		ch, err := s.Amend(ctx, prefix, key, Reschedule, When{Delay: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		check("reschedule", before, ch.Due)
		before = now()
		ms, err := p.Run(ctx, c, p.keys(key), key, "+1000", "replace", "x").Int64()
		if err != nil {
			t.Fatal(err)
		}
		check("script "+strconv.FormatInt(ms, 10), before, time.UnixMilli(ms))
		if _, err := s.Amend(ctx, prefix, key, Cancel, When{}); err != nil {
			t.Fatal(err)
		}
	}
}
