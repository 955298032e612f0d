package dispatch

import (
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

func TestLatenessOfAParkedNoticeCountsFromItsTurn(t *testing.T) {
	due := time.UnixMilli(1_900_000_000_000)
	turn := due.Add(time.Minute)
	for name, c := range map[string]struct {
		order  route.Order
		held   notice.Held
		lapses int
		awaits bool
		want   time.Time
	}{
		"not ordered":      {route.OrderNone, notice.HeldNone, 0, false, due},
		"parked":           {route.OrderSkip, notice.HeldNone, 0, false, turn},
		"postponed":        {route.OrderSkip, notice.HeldBusy, 0, false, due},
		"lease expired":    {route.OrderBlock, notice.HeldNone, 1, false, due},
		"awaits a report":  {route.OrderNone, notice.HeldNone, 0, true, turn},
		"parked, blocking": {route.OrderBlock, notice.HeldNone, 0, false, turn},
	} {
		n := &notice.Notice{Due: due, AwaitsReport: c.awaits}
		got := promised(&route.Route{Order: c.order}, &store.Claim{Notice: n, Lapses: c.lapses, Attention: turn, Held: c.held})
		if !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
