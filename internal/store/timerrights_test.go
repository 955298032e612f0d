package store

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// A user without the optional right to PTTL and PEXPIRETIME schedules and replaces notices, also over a key of another program.
func TestTimersWithoutTheRightToReadThem(t *testing.T) {
	t.Parallel()
	srv, ctx := testkit.StartRedis(t), t.Context()
	c := srv.Client()
	if err := c.ACLSetUser(ctx, "svc", "on", ">password", "~*", "&*", "+@all", "-pttl", "-pexpiretime").Err(); err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{URL: strings.Replace(srv.URL(), "redis://", "redis://svc:password@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	s := New(Options{Client: conn.Commander, Space: keys.Space{Namespace: "notifier", Shards: 1}})
	const key = "app1:a:b:1"
	if err := c.Set(ctx, key, "42", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	s.put(t, Request{Key: key, Delay: time.Hour})
	s.put(t, Request{Key: key, Delay: 2 * time.Hour, OnDuplicate: Replace})
	if got := c.Get(ctx, key).Val(); got != "42" {
		t.Errorf("the key of another program is %q", got)
	}
}
