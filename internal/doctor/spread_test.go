package doctor

import (
	"testing"

	"notifier/internal/keys"
)

func TestSpreadOverMasters(t *testing.T) {
	ranges := []slotRange{{0, 5460, "a"}, {5461, 10922, "b"}, {10923, 16383, "c"}}
	for _, c := range []struct {
		tags   []string
		a, b   int
		c      int
		uneven int
	}{
		{[]string{"0", "1", "2", "3", "4", "5"}, 1, 3, 2, 2}, // the default tags
		{keys.SpreadTags(6), 2, 2, 2, 0},
		{keys.SpreadTags(3), 1, 1, 1, 0},
		{[]string{"0"}, 0, 0, 1, 1},
	} {
		count, masters := over(ranges, c.tags)
		sum := count["a"] + count["b"] + count["c"]
		if sum != len(c.tags) || uneven(count, masters) != c.uneven || len(masters) != 3 {
			t.Errorf("%v: %v, uneven by %d", c.tags, count, uneven(count, masters))
		}
		if count["a"] != c.a || count["b"] != c.b || count["c"] != c.c {
			t.Errorf("%v: %v, want %d, %d and %d", c.tags, count, c.a, c.b, c.c)
		}
	}
}
