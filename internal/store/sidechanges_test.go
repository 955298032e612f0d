package store

import (
	"maps"
	"testing"
)

// sides records the states of the sides that it receives.
type sides struct {
	unwatched
	heard *[]SideState
}

func (s sides) SideChanged(side Side) { *s.heard = append(*s.heard, side.State) }

// A mover writes a side with a new epoch when it starts. Instances are not notified of that.
func TestSideIsReportedWhenItChanges(t *testing.T) {
	t.Parallel()
	var heard []SideState
	s, _ := openLayout(t, LayoutOptions{Watcher: sides{heard: &heard}})
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

// An instance that was suspended since before a migration registers its old state. Neither the side
// nor the state that other instances' scripts compare changes.
func TestRegisterOfAnEarlierEpochChangesNothing(t *testing.T) {
	t.Parallel()
	s, srv := openLayout(t, LayoutOptions{})
	if err := s.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	at, err := s.SetSide(t.Context(), s.Side(), Side{State: SideLeaving, ID: "m", Other: "x"})
	if err != nil {
		t.Fatal(err)
	}
	c, layout := srv.Client(), s.space.Layout(0)
	before := c.HGetAll(t.Context(), layout).Val()

	reply, err := c.Eval(t.Context(), registerSource, []string{layout, s.space.ShardRoutes(0)}, Version, 1, "1", "", "", "", "", 1, 0, "",
		"", "part", "app1").Slice()
	if err != nil || len(reply) != 4 || reply[0] != "" || reply[3] != at.String() {
		t.Errorf("it is answered %q, %v; want the side %q", reply, err, at)
	}
	if after := c.HGetAll(t.Context(), layout).Val(); !maps.Equal(before, after) {
		t.Errorf("the shard had %v and has %v", before, after)
	}
}
