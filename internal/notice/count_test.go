package notice

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 notices", 1: "1 notice", 2: "2 notices", 1204: "1204 notices"} {
		if got := Count(n, "notice"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
