package intake

import (
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// A held notice that a producer's timer replaces, moves or cancels leaves the held list. A step that does nothing leaves it there.
func TestAdoptRemovesNoticeFromHeldList(t *testing.T) {
	t.Parallel()
	const key, pause = "app1:a:b:1", "host/a.example/"
	for _, op := range []Operation{OpAdopt, OpMove, OpCancel} {
		s, srv := open(t, nil)
		ctx, c := t.Context(), srv.Client()
		if _, err := s.Schedule(ctx, partition, []store.Request{{Key: key, Content: notice.Content{Body: []byte("1")}}}); err != nil {
			t.Fatal(err)
		}
		claimed, err := s.ClaimKeys(ctx, partition, store.Lease{Token: "t", For: time.Minute}, []string{key})
		if err != nil || len(claimed.Won) != 1 {
			t.Fatalf("%+v, %v", claimed, err)
		}
		if _, err := s.Settle(ctx, partition, []store.Settlement{{Claim: claimed.Won[0], Ending: store.EndPostponed, After: time.Hour,
			Held: notice.HeldPaused, KeepRecord: true, Pause: pause}}); err != nil {
			t.Fatal(err)
		}
		listed := func() int64 {
			return c.ZCard(ctx, s.Space().Held(partition)).Val() + c.HLen(ctx, s.Space().Holds(partition)).Val()
		}
		c.Set(ctx, key, "new", 30*time.Minute)
		_, seen, _, err := s.Peek(ctx, partition, []string{key}, 1<<10)
		if err != nil || len(seen) != 1 {
			t.Fatalf("%+v, %v", seen, err)
		}
		seen[0].Expire++
		if done, err := s.Adopt(ctx, partition, []Adoption{{Seen: seen[0], Op: op}}); err != nil || done[0] || listed() != 2 {
			t.Errorf("%s of another timer: %v, %v, %d entries", op, done, err, listed())
		}
		if done, err := s.step(t, key, op); err != nil || !done {
			t.Fatalf("%s: %t, %v", op, done, err)
		}
		if n := listed(); n != 0 {
			t.Errorf("%s: %d entries of the held list are left", op, n)
		}
	}
}
