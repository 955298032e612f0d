package history

import (
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

func TestOutcomesAreThoseOfTheNotice(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		again := func(i, number int, outcome notice.Ending, after time.Duration) store.Entry {
			return ended(i, func(e *store.Entry) { e.Number, e.Outcome, e.At = number, outcome, e.At.Add(after) })
		}
		other := ended(1, func(e *store.Entry) { e.Made = notice.MadeAt(noon.Add(-time.Hour)) })
		write(t, d, rowsOf(BodiesKeep, again(1, 2, notice.EndDelivered, 48*time.Hour), again(1, 1, notice.EndDead, 0), ended(2, nil), other))
		var list []*notice.Notice
		for _, i := range []int{1, 2, 3} {
			list = append(list, ended(i, nil).Notice)
		}
		found, err := d.Outcomes(t.Context(), list)
		if err != nil || len(found) != 2 {
			t.Fatalf("%+v, %v", found, err)
		}
		rows := found[Ref{list[0].Key, list[0].ID()}]
		if len(rows) != 2 || rows[0].Number != 1 || rows[1].Number != 2 || rows[1].Outcome != notice.EndDelivered || len(rows[1].Attempts) != 1 ||
			rows[0].Damaged != nil {
			t.Errorf("%+v", rows)
		}
	})
}

func TestKnownOutcomeIsLaterThanTheRecord(t *testing.T) {
	t.Parallel()
	row := func(n int, o notice.Ending) Row { return Row{Number: n, Outcome: o} }
	for name, c := range map[string]struct {
		rows    []Row
		endings int
		number  int
		state   notice.State
	}{
		"delivered":                    {[]Row{row(1, notice.EndDelivered)}, 0, 1, notice.Delivered},
		"pending by a later replay":    {[]Row{row(1, notice.EndDelivered)}, 1, 0, ""},
		"that replay was delivered":    {[]Row{row(1, notice.EndDelivered), row(2, notice.EndDelivered)}, 1, 2, notice.Delivered},
		"delivered, then replayed":     {[]Row{row(1, notice.EndDelivered), row(2, notice.EndDead)}, 0, 1, notice.Delivered},
		"dead":                         {[]Row{row(1, notice.EndDead)}, 0, 0, ""},
		"dead, redriven and delivered": {[]Row{row(1, notice.EndDead), row(2, notice.EndDelivered)}, 1, 2, notice.Delivered},
		"cancelled":                    {[]Row{row(1, notice.EndCancelled)}, 0, 1, notice.Cancelled},
		"replaced":                     {[]Row{row(1, notice.EndReplaced)}, 0, 1, notice.Cancelled},
		"nothing":                      {nil, 0, 0, ""},
	} {
		got, state, ok := knownOutcome(c.rows, c.endings)
		if got.Number != c.number || state != c.state || ok != (c.number > 0) {
			t.Errorf("%s: %d, %s, %v", name, got.Number, state, ok)
		}
	}
}
