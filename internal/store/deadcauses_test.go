package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// dieOf ends a notice with a cause, as an attempt does.
func (s *Store) dieOf(t *testing.T, key string, c notice.Cause) {
	t.Helper()
	s.put(t, Request{Key: key})
	claim := s.take(t, key, "t")
	claim.Reason = c.Reason
	claim.Attempts = append(claim.Attempts, notice.Attempt{Number: 1, Reason: c.Reason, Status: c.Status})
	s.end(t, Settlement{Claim: claim, Ending: EndDead})
}

func TestDeadCausesCountsByCause(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	causes := map[notice.Cause]int{{Reason: notice.ReasonStatus5xx, Status: 500}: 5, {Reason: notice.ReasonStatus5xx, Status: 503}: 3,
		{Reason: notice.ReasonTimeout}: 4}
	n := 0
	for c, count := range causes {
		for range count {
			s.dieOf(t, fmt.Sprintf("app1:a:b:%d", n), c)
			n++
		}
	}

	check := func(what string, want map[notice.Cause]int, since time.Time) {
		t.Helper()
		count, err := s.DeadCauses(t.Context(), []string{prefix, "app2"}, since)
		got := map[notice.Cause]int{}
		for _, g := range count.Groups {
			got[g.Cause] = int(g.Count)
			if g.First.After(g.Last) || time.Since(g.First) > time.Minute || g.Prefix != prefix {
				t.Errorf("%s: %+v", what, g)
			}
		}

		if fmt.Sprint(got) != fmt.Sprint(want) || err != nil {
			t.Errorf("%s: got %v, %v, want %v", what, got, err, want)
		}
	}
	check("all", causes, time.Time{})
	check("since a minute ago", causes, time.Now().Add(-time.Minute))
	check("from in a minute", nil, time.Now().Add(time.Minute))

	if _, err := s.Amend(t.Context(), prefix, "app1:a:b:0", Redrive, When{}); err != nil {
		t.Fatal(err)
	}

	count, err := s.DeadCauses(t.Context(), []string{prefix}, time.Time{})
	sum := int64(0)
	for _, g := range count.Groups {
		sum += g.Count
	}
	if sum != int64(n-1) || !count.Complete || err != nil {
		t.Errorf("after a redrive: %d, %t, %v, want %d", sum, count.Complete, err, n-1)
	}
}

// A dead letter that is moving, or on the other side of a migration, is in no count.
func TestDeadCausesAreIncompleteDuringMoves(t *testing.T) {
	t.Parallel()
	for what, move := range map[string]func(s *Store) error{
		"reshard": func(s *Store) error {
			s.grow(t, 1)
			_, _, err := s.Layout.MoveOut(t.Context(), partition, s.space.First(), []string{"app1:a:b:1"})
			return err
		},
		"migration": func(s *Store) error {
			_, err := s.Layout.SetSide(t.Context(), s.Layout.Side(), Side{State: SideLeaving, ID: "m", Other: "x"})
			return err
		},
	} {
		s, _ := open(t)
		s.dieOf(t, "app1:a:b:1", notice.Cause{Reason: notice.ReasonGone})
		if got, err := s.DeadCauses(t.Context(), []string{prefix}, time.Time{}); err != nil || !got.Complete || len(got.Groups) != 1 {
			t.Errorf("before the %s: %+v, %v", what, got, err)
		}
		if err := move(s); err != nil {
			t.Fatal(err)
		}
		if got, err := s.DeadCauses(t.Context(), []string{prefix}, time.Time{}); err != nil || got.Complete {
			t.Errorf("during the %s: %+v, %v", what, got, err)
		}
	}
}

// TestDeadCausesReadsInSteps checks that each dead letter of several calls is counted once.
func TestDeadCausesReadsInSteps(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	dead := s.space.Dead(partition)
	var all []redis.Z
	codes := map[int]int64{0: 0, 1: 0, 230: 0, notice.MaxCauseCode: 0}
	for i := range 2*causesPerCall + 1 {
		for c := range codes {
			if i%len(codes) == 0 || c == 230 {
				codes[c]++
				all = append(all, redisZ(float64(1700000000000+i/100)+float64(c)/causes, fmt.Sprintf("app1:a:b:%d-%d", c, i)))
			}
		}
	}

	if err := srv.Client().ZAdd(t.Context(), dead, all...).Err(); err != nil {
		t.Fatal(err)
	}

	other := s.space.Dead(keys.Partition{Prefix: "app2"})
	if err := srv.Client().ZAdd(t.Context(), other, all...).Err(); err != nil {
		t.Fatal(err)
	}

	count, err := s.DeadCauses(t.Context(), []string{"app0", prefix, "app2"}, time.Time{})
	want := codes[0] + codes[notice.MaxCauseCode] // an unknown code is the zero Cause
	got := map[notice.Cause]int64{}
	for _, g := range count.Groups {
		if got[g.Cause] += g.Count; g.Prefix == "app0" {
			t.Errorf("counted without any: %+v", g)
		}
	}

	for c := range got { // both prefixes have the same
		got[c] /= 2
	}

	if err != nil || len(got) != 3 || got[notice.Cause{}] != want || got[notice.CauseOf(1)] != codes[1] ||
		got[notice.CauseOf(230)] != codes[230] {
		t.Errorf("got %v, %v, want %v", got, err, codes)
	}
}

// TestPagesOfOneCauseReadNoOtherRecord checks the list of dead letters of a status.
func TestPagesOfOneCauseReadNoOtherRecord(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for i, status := range []int{500, 503, 500} {
		s.dieOf(t, fmt.Sprintf("app1:a:b:%d", i), notice.Cause{Reason: notice.ReasonStatus5xx, Status: status})
	}

	q := Query{Routes: []string{prefix}, State: notice.Dead, Reason: notice.ReasonStatus5xx, Status: 500, Limit: 10}
	page, err := s.List(t.Context(), q)
	if err != nil || len(page.Items) != 2 || page.Items[0].Key != "app1:a:b:0" || page.Items[1].Key != "app1:a:b:2" {
		t.Errorf("%+v, %v", page.Items, err)
	}

	q.Status = 503
	got, err := s.AmendAll(t.Context(), Bulk{Query: q, Op: Redrive})
	if err != nil || got.Matched != 1 || got.Changed != 1 {
		t.Errorf("redriven %+v, %v, want 1", got, err)
	}
}
