package store

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// While notices move, a plain timer that a producer has set since its key's notice left is
// a new notice, and is adopted. A schedule call for such a key is refused.
func TestTimerSetAfterItsNoticeMovedIsAdopted(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	const key = "app1:a:b:1"
	if err := s.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetSide(t.Context(), s.Side(), layout.Side{State: layout.SideLeaving, ID: "m", Other: "x"}); err != nil {
		t.Fatal(err)
	}
	c := srv.Client()
	if err := errors.Join(c.HSet(t.Context(), s.space.Elsewhere(0), key, "1").Err(), c.Set(t.Context(), key, "payload", time.Hour).Err()); err != nil {
		t.Fatal(err)
	}

	replies, err := s.Schedule(t.Context(), partition, []Request{{Key: key, Delay: time.Hour}})
	if err != nil || !errors.Is(replies[0].Err, wire.ErrMoved) {
		t.Errorf("a schedule call: %+v, %v", replies, err)
	}
	_, seen, _, err := s.Peek(t.Context(), partition, []string{key}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	done, err := s.Adopt(t.Context(), partition, []Adoption{{Seen: seen[0], Op: OpAdopt, Content: notice.Content{Body: seen[0].Value, Adopted: true}}})
	if err != nil || !done[0] {
		t.Errorf("adopt: %v, %v", done, err)
	}
}

// A notice that must stay returns to its old shard, unless a producer has written another
// one there since it left: that one stays as it is.
func TestMoveEndKeepsANoticeThatCameSince(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	const back, since = "app1:a:b:back", "app1:a:b:since"
	for _, key := range []string{back, since} {
		s.put(t, Request{Key: key, Delay: time.Hour, Content: body("before")})
	}
	s.grow(t, 1)
	old, both := keys.Partition{Prefix: prefix}, []string{back, since}
	batch, _, err := s.MoveOut(t.Context(), old, s.space.Shard(back), both)
	if err != nil || batch.Len() != 2 {
		t.Fatal(batch, err)
	}
	const record, due = `{"due":1900000000000,"made":217540597951617,"json":"since"}`, 1900000000000.0
	c := srv.Client()
	if err := errors.Join(c.HSet(t.Context(), s.space.Records(old), since, record).Err(),
		c.ZAdd(t.Context(), s.space.Shadow(old), redis.Z{Score: due, Member: since}).Err()); err != nil {
		t.Fatal(err)
	}

	if err := s.MoveEnd(t.Context(), batch, both); err != nil {
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
