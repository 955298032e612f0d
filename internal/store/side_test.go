package store

import "testing"

// A mover gives a side a new epoch when it begins. That is no news for the instances.
func TestSideIsReportedWhenItChanges(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	var heard []SideState
	s.o.OnSide = func(side Side) { heard = append(heard, side.State) }
	if err := s.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	at, err := s.SetSide(t.Context(), s.Side(), Side{State: SideLeaving, ID: "m", Other: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if at, err = s.SetSide(t.Context(), at, at); err != nil || at.Epoch != 2 {
		t.Fatal(at, err)
	}
	if len(heard) != 1 || heard[0] != SideLeaving {
		t.Errorf("%v were reported", heard)
	}
	if _, err := s.SetSide(t.Context(), Side{}, Side{State: SideOpen, ID: "m", Other: "x"}); err == nil {
		t.Error("a side is changed by a mover that knows an earlier epoch")
	}
}
