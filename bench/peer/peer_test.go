package peer

import (
	"encoding/json"
	"testing"
)

func TestIndexIsTheInverseOfID(t *testing.T) {
	for _, n := range []int{0, 1, 1_000_000_007} {
		if got, ok := Index(ID(n)); !ok || got != n {
			t.Errorf("Index(ID(%d)) = %d, %v", n, got, ok)
		}
	}
	for _, s := range []string{"", "app1:trans:notice:", "app1:trans:notice:12", "app2:trans:notice:0000000000001",
		"app1:trans:notice:000000000000x"} {
		if n, ok := Index(s); ok {
			t.Errorf("Index(%q) = %d", s, n)
		}
	}
}

func TestBodyIsJSONOfOneSize(t *testing.T) {
	for _, n := range []int{0, 999_999_999} {
		if b := Body(n); len(b) != BodyLen || !json.Valid(b) {
			t.Errorf("%d bytes: %s", len(b), b)
		}
	}
}
