package wire

import (
	"strings"
	"testing"
)

func TestArgsKeepWhatTheyWereAfterTheMemoryIsUsedAgain(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 1000, mostSpare + 1} {
		a := NewArgs("first", "")
		a.Text(strings.Repeat("x", size))
		a.Number(-5)
		list := a.List()
		a.Free()
		again := NewArgs(strings.Repeat("y", 2*size))
		for i, want := range []string{"first", "", strings.Repeat("x", size), "-5"} {
			got := ""
			switch v := list[i].(type) {
			case *string:
				got = *v
			case []byte:
				got = string(v)
			}
			if got != want {
				t.Errorf("argument %d of %d bytes: %.20q, want %.20q", i, size, got, want)
			}
		}
		again.Free()
	}
}
