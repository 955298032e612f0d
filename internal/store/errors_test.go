package store

import (
	"errors"
	"strings"
	"testing"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// A running server's own words, from each way in: the connection's log-in, a
// command, a script, a pipeline.
func TestAWrongPasswordAndAMissingRightAreNotUnreachable(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	ctx := t.Context()
	for _, rule := range [][]any{
		{"right", "on", ">secret", "~*", "&*", "+@all"},
		{"mute", "on", ">secret", "~*", "&*", "+@all", "-eval", "-evalsha"},
		{"poor", "on", ">secret", "~*", "&*", "+@all", "-hset"},
		{"narrow", "on", ">secret", "~notifier:{0}:shadow:*", "&*", "+@all"},
		{"default", "off"},
	} {
		if err := srv.Client().Do(ctx, append([]any{"ACL", "SETUSER"}, rule...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		login string
		want  error
	}{{"right:secret", nil}, {"right:wrong", wire.ErrLogin}, {"nobody:secret", wire.ErrLogin}, {"default:x", wire.ErrLogin}, {"mute:secret",
		wire.ErrRights},
		{"poor:secret", wire.ErrRights}, {"narrow:secret", wire.ErrRights}} {
		conn, err := wire.Open(wire.Address{URL: strings.Replace(srv.URL(), "redis://", "redis://"+c.login+"@", 1)})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Options{Client: conn.Commander, Space: keys.Space{Namespace: "notifier", Shards: 1}})
		_, err = s.Schedule(ctx, partition, []Request{{Key: "app1:a:b:" + strings.ReplaceAll(c.login, ":", "-")}})
		_ = conn.Close()
		if c.want == nil && err != nil || !errors.Is(err, c.want) || errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("%q: %v, want %v", c.login, err, c.want)
		}
	}
}
