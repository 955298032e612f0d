package receivers

import "testing"

// Two causes merge to the same one in both orders: the messages of the cause with more messages are continued.
func TestCausesMerge(t *testing.T) {
	t.Parallel()
	told := Cause{Since: 1000, Noted: 1100, Last: 1200, Told: 5000, Sent: 2, Key: "a"}
	again := Cause{Since: 900, Noted: 950, Last: 4900, Told: 5000, Sent: 1, Key: "b"}
	untold := Cause{Since: 3000, Noted: 3100, Last: 3200, Key: "c"}
	later := Cause{Since: 6000, Noted: 6100, Last: 6200, Key: "d"}
	for name, c := range map[string]struct{ one, other, want Cause }{
		"both told":      {told, again, Cause{Since: 900, Noted: 1100, Last: 4900, Told: 5000, Sent: 2, Key: "b"}},
		"an older death": {told, untold, Cause{Since: 1000, Noted: 1100, Last: 3200, Told: 3199, Sent: 2, Key: "a"}},
		"a later death":  {told, later, Cause{Since: 1000, Noted: 1100, Last: 6200, Told: 5000, Sent: 2, Key: "a"}},
		"none told":      {later, untold, Cause{Since: 3000, Noted: 3100, Last: 6200, Key: "c"}},
	} {
		for _, order := range [][2]Cause{{c.one, c.other}, {c.other, c.one}} {
			got := order[0]
			for range 2 { // the second one as after a kill
				if got.merge(&order[1]); got != c.want {
					t.Errorf("%s: %+v, want %+v", name, got, c.want)
				}
			}
		}
	}
}
