package store

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// pair is a Store and another one on the same data.
func pair(t *testing.T) (s, other *Store, srv *testkit.Redis) {
	t.Helper()
	srv = testkit.SharedRedis(t)
	space := keys.Space{Namespace: srv.Namespace(), Shards: 1}
	instance := func() *Store {
		return New(Options{Client: srv.Client(), Space: space, Prefixes: []string{prefix}, Retention: time.Hour, Retain: 100})
	}
	s, other = instance(), instance()
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, other, srv
}

func TestClientsAreNumberedAlikeByAllInstances(t *testing.T) {
	t.Parallel()
	s, other, srv := pair(t)
	shop, err := s.Clients.Number(t.Context(), "shop")
	if err != nil || shop < 1 {
		t.Fatalf("%d, %v", shop, err)
	}
	ops, err := other.Clients.Number(t.Context(), "ops")
	if err != nil || ops == shop {
		t.Fatalf("ops is %d, shop %d, %v", ops, shop, err)
	}
	if got, err := other.Clients.Number(t.Context(), "shop"); err != nil || got != shop {
		t.Errorf("another instance: %d, %v; want %d", got, err, shop)
	}
	if got := other.Clients.Name(t.Context(), shop); got != "shop" {
		t.Errorf("the name of %d is %q", shop, got)
	}

	// A number that is taken goes to no other client.
	if err := srv.Client().HSet(t.Context(), s.space.Clients(), "first", clientStart("late")).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Clients.Number(t.Context(), "late"); err != nil || got == clientStart("late") || got == shop || got == ops {
		t.Errorf("late is %d, %v", got, err)
	}
	if got := s.Clients.Name(t.Context(), clientStart("late")); got != "first" {
		t.Errorf("the name is %q", got)
	}
}

// A Redis that lost the hash may not give a client's number to another one.
func TestClientHasItsNumberAgainAfterRedisLostIt(t *testing.T) {
	t.Parallel()
	s, other, srv := pair(t)
	shop, err := s.Clients.Number(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Client().Del(t.Context(), s.space.Clients()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Clients.Number(t.Context(), "ops"); err != nil {
		t.Fatal(err)
	}
	s.Clients.forget() // as it does when another Redis answers
	if got, err := s.Clients.Number(t.Context(), "shop"); err != nil || got != shop {
		t.Errorf("%d, %v; want %d", got, err, shop)
	}
	if got := other.Clients.Name(t.Context(), shop); got != "shop" {
		t.Errorf("the name of %d is %q", shop, got)
	}
}

func TestClientNumberDoesNotDependOnTheCaller(t *testing.T) {
	t.Parallel()
	s, _, _ := pair(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := s.Clients.Number(gone, "shop"); err != nil || n == 0 {
		t.Errorf("a caller that gave up: %d, %v", n, err)
	}
}

func TestClientNumberWhileRedisRefuses(t *testing.T) {
	t.Parallel()
	s, other, srv := pair(t)
	shop, err := s.Clients.Number(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Client().Del(t.Context(), s.space.Clients()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Client().Set(t.Context(), s.space.Clients(), "another program's", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Clients.forget()
	if n, err := s.Clients.Number(t.Context(), "shop"); err == nil || n != shop {
		t.Errorf("known: %d, %v; want %d and an error", n, err, shop)
	}
	if n, err := s.Clients.Number(t.Context(), "shop"); err != nil || n != shop {
		t.Errorf("within a second: %d, %v; want %d", n, err, shop)
	}
	if n, err := other.Clients.Number(t.Context(), "shop"); err == nil || n != 0 {
		t.Errorf("unknown: %d, %v; want 0 and an error", n, err)
	}
	if got := other.Clients.Name(t.Context(), 7); got != "#7" {
		t.Errorf("the name is %q", got)
	}
}

func TestNoMoreClientsThanNumbers(t *testing.T) {
	t.Parallel()
	s, _, srv := pair(t)
	run := func(name string, highest int) (int, error) {
		return s.w.Do(t.Context(), clientScript, []string{s.space.Clients()}, []any{name, 2, highest}).Int()
	}
	for i, want := range []int{2, 1, 0} {
		if got, err := run("c"+strconv.Itoa(i), 2); err != nil || got != want {
			t.Errorf("%d: %d, %v; want %d", i, got, err, want)
		}
	}
	if n := srv.Client().HLen(t.Context(), s.space.Clients()).Val(); n != 2 {
		t.Errorf("%d names", n)
	}
}

// Another client's repeated call is the same call; a replace names the client that replaces.
func TestScheduleRecordsTheClient(t *testing.T) {
	t.Parallel()
	s, _, srv := pair(t)
	const key = "app1:a:b:1"
	p := s.space.Partition(prefix, key)
	schedule := func(r Request) Reply {
		t.Helper()
		r.Key, r.Delay = key, time.Hour
		got, err := s.Schedule(t.Context(), p, []Request{r})
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got[0].Err)
		}
		return got[0]
	}
	x := notice.Content{Body: []byte("x")}
	if r := schedule(Request{Content: x, Client: 7}); !r.Created || r.Client != 7 {
		t.Errorf("%+v", r)
	}
	if r := schedule(Request{Content: x, Client: 8}); r.Created || len(r.Differs) > 0 || r.Client != 7 {
		t.Errorf("repeated by another client: %+v", r)
	}
	c, err := s.Amend(t.Context(), prefix, key, Reschedule, When{Delay: 2 * time.Hour})
	if err != nil || !c.Done || c.Client != 7 {
		t.Errorf("rescheduled: %+v, %v", c, err)
	}
	if r := schedule(Request{Content: notice.Content{Body: []byte("y")}, Client: 8, OnDuplicate: Replace}); !r.Replaced || r.Client != 8 {
		t.Errorf("replaced: %+v", r)
	}
	if f, err := s.Find(t.Context(), prefix, key); err != nil || f.Client != 8 {
		t.Errorf("found: %+v, %v", f, err)
	}
	schedule(Request{Content: x, OnDuplicate: Replace})
	if record := srv.Client().HGet(t.Context(), s.space.Records(p), key).Val(); strings.Contains(record, "client") {
		t.Errorf("without a client: %s", record)
	}
}
