package fleet

import (
	"testing"
	"time"
)

// What makes a verdict, one after the other: of a member that gave its last sign
// at 1000 ms, seen by an observer that beats each second.
func TestWhatMakesOneGone(t *testing.T) {
	const own, other = "aaaaaaaaaaaa", "bbbbbbbbbbbb"
	type beat struct {
		now         int64
		line        uint64
		connections int // of the observer
		its         int // of the other
	}
	whole := []beat{{1000, 1, 1, -1}, {2000, 1, 1, -1}, {3000, 1, 1, 0}, {4000, 1, 1, 0}}
	change := func(f func(b []beat)) []beat {
		b := append([]beat(nil), whole...)
		f(b)
		return b
	}
	for name, c := range map[string]struct {
		beats   []beat
		unbound bool
		untold  bool
		want    bool
	}{
		"a whole window":                 {beats: whole, want: true},
		"it has a connection":            {beats: change(func(b []beat) { b[3].its = 1 })},
		"it was not asked":               {beats: change(func(b []beat) { b[3].its = -1 })},
		"it had none at its last sign":   {beats: whole, unbound: true},
		"its takeover is not known":      {beats: whole, untold: true},
		"a millisecond less":             {beats: change(func(b []beat) { b[3].now-- })},
		"two beats between two signs":    {beats: []beat{whole[0], {3000, 1, 1, 0}, whole[3]}, want: true},
		"more than two":                  {beats: []beat{whole[0], {3001, 1, 1, 0}, whole[3]}},
		"the clock was set back":         {beats: []beat{{1500, 1, 1, -1}, {1000, 1, 1, -1}, {1400, 1, 1, 0}, {2900, 1, 1, 0}, {3990, 1, 1, 0}}},
		"the subscription was made anew": {beats: change(func(b []beat) { b[1].line, b[2].line, b[3].line = 2, 2, 2 })},
		"there was none":                 {beats: change(func(b []beat) { b[1].line = 0 })},
		"it was not found at the node":   {beats: change(func(b []beat) { b[1].connections = 0 })},
		"it could not be asked for":      {beats: change(func(b []beat) { b[1].connections = -1 })},
	} {
		j := newJudge(3 * time.Second)
		gone := false
		for _, b := range c.beats {
			v := j.read(own, b.line, Roll{Now: b.now, Known: true, Connections: b.connections, Signs: []Sign{
				{ID: own, At: b.now, Bound: true}, {ID: other, At: 1000, Bound: !c.unbound, Connections: b.its},
			}})
			if !c.untold {
				j.describe(other, About{Takeover: 3000})
			}
			gone = len(v.gone) > 0
		}
		if gone != c.want {
			t.Errorf("%s: gone %t", name, gone)
		}
	}
}

func TestTheNextBeatComesWhenSomebodyMayBeGone(t *testing.T) {
	j := newJudge(3 * time.Second)
	read := func(now int64) verdict {
		return j.read("aaaaaaaaaaaa", 1, Roll{Now: now, Connections: 1, Signs: []Sign{{ID: "bbbbbbbbbbbb", At: 1000, Bound: true, Connections: -1}}})
	}
	read(1000)
	j.describe("bbbbbbbbbbbb", About{Takeover: 3000})
	if v := read(2000); v.next != 2*time.Second || len(j.suspects()) != 0 {
		t.Errorf("%+v, suspects %v", v, j.suspects())
	}
	if v := read(3300); v.next != 700*time.Millisecond || len(j.suspects()) != 1 {
		t.Errorf("%+v, suspects %v", v, j.suspects())
	}
	// It is asked for again as long as it is silent.
	if v := read(4100); v.next != 0 || len(j.suspects()) != 1 {
		t.Errorf("%+v, suspects %v", v, j.suspects())
	}
}
