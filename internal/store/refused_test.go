package store

import (
	"fmt"
	"testing"

	"notifier/internal/notice"
)

// One batch holds an entry that is refused and others that have nothing to do
// with it: each must end as it would alone.
func TestARefusedEntryHarmsNoOther(t *testing.T) {
	s, srv := open(t)
	ctx := t.Context()
	if err := srv.Client().Set(ctx, "wrong", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var list []Settlement
	for i, target := range []string{"right", "wrong", "right"} {
		k := fmt.Sprintf("app1:a:b:%d", i)
		s.put(t, Request{Key: k})
		list = append(list, Settlement{Claim: s.take(t, k, "mine"), Ending: EndDelivered,
			Push: &notice.Push{Key: target, Entry: []string{fmt.Sprint(i)}}})
	}
	done, err := s.Settle(ctx, partition, list)
	if err != nil || done[0].Refused != "" || done[1].Refused == "" || done[2].Refused != "" {
		t.Fatal(done, err)
	}
	if got := srv.Client().LRange(ctx, "right", 0, -1).Val(); fmt.Sprint(got) != "[0 2]" {
		t.Errorf("%v", got)
	}
	// Made again, as after an answer that was lost: nothing is doubled.
	if done, err = s.Settle(ctx, partition, list); err != nil || !done[0].Stale || !done[2].Stale {
		t.Fatal(done, err)
	}
	if n := srv.Client().LLen(ctx, "right").Val(); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
	if state := s.state(t, "app1:a:b:1"); state != notice.Claimed {
		t.Errorf("%q: want it still claimed", state)
	}
}
