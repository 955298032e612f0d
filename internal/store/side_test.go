package store

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// A notice that must stay returns to its old shard. If a producer has written another notice there
// since, that one stays.
func TestMoveEndKeepsANoticeThatCameSince(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	const back, since = "app1:a:b:back", "app1:a:b:since"
	for _, key := range []string{back, since} {
		s.put(t, Request{Key: key, Delay: time.Hour, Content: body("before")})
	}
	s.grow(t, 1)
	old, both := keys.Partition{Prefix: prefix}, []string{back, since}
	batch, _, err := s.Layout.MoveOut(t.Context(), old, s.space.Shard(back), both)
	if err != nil || batch.Len() != 2 {
		t.Fatal(batch, err)
	}
	const record, due = `{"due":1900000000000,"made":217540597951617,"json":"since"}`, 1900000000000.0
	c := srv.Client()
	if err := errors.Join(c.HSet(t.Context(), s.space.Records(old), since, record).Err(),
		c.ZAdd(t.Context(), s.space.Shadow(old), redis.Z{Score: due, Member: since}).Err()); err != nil {
		t.Fatal(err)
	}

	if err := s.Layout.MoveEnd(t.Context(), batch, both); err != nil {
		t.Fatal(err)
	}
	if got := c.HGet(t.Context(), s.space.Records(old), since).Val(); got != record {
		t.Errorf("the notice that came since is %s", got)
	}
	if got := c.ZScore(t.Context(), s.space.Shadow(old), since).Val(); got != due {
		t.Errorf("the notice that came since is due at %f", got)
	}
	if !c.HExists(t.Context(), s.space.Records(old), back).Val() || c.ZScore(t.Context(), s.space.Shadow(old), back).Err() != nil {
		t.Error("the notice that must stay has not returned")
	}
}
