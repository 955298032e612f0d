package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	logobserver "go.uber.org/zap/zaptest/observer"
)

// Each step changes one condition for declaring a member dead. The member published its last
// heartbeat at 1000 ms; the observer publishes one every second.
func TestDetectorDeclaresMemberDead(t *testing.T) {
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
		"a whole window":               {beats: whole, want: true},
		"it has a connection":          {beats: change(func(b []beat) { b[3].its = 1 })},
		"it was not asked":             {beats: change(func(b []beat) { b[3].its = -1 })},
		"it had none at its last sign": {beats: whole, unbound: true},
		"its takeover is not known":    {beats: whole, untold: true},
		"a millisecond less":           {beats: change(func(b []beat) { b[3].now-- })},
		"two beats between two signs":  {beats: []beat{whole[0], {3000, 1, 1, 0}, whole[3]}, want: true},
		"more than two":                {beats: []beat{whole[0], {3001, 1, 1, 0}, whole[3]}},
		"the clock was set back":       {beats: []beat{{1500, 1, 1, -1}, {1000, 1, 1, -1}, {1400, 1, 1, 0}, {2900, 1, 1, 0}, {3990, 1, 1, 0}}},
		"the subscription was retried": {beats: change(func(b []beat) { b[1].line, b[2].line, b[3].line = 2, 2, 2 })},
		"there was none":               {beats: change(func(b []beat) { b[1].line = 0 })},
		"it was not found at the node": {beats: change(func(b []beat) { b[1].connections = 0 })},
		"connections are unknown":      {beats: change(func(b []beat) { b[1].connections = -1 })},
	} {
		j := newDetector(3 * time.Second)
		dead := false
		for _, b := range c.beats {
			v := j.read(own, b.line, Roster{Now: b.now, Known: true, Connections: b.connections, Heartbeats: []LastHeartbeat{
				{ID: own, At: b.now, Bound: true}, {ID: other, At: 1000, Bound: !c.unbound, Connections: b.its},
			}})
			if !c.untold {
				j.describe(other, About{Takeover: 3000})
			}
			dead = len(v.dead) > 0
		}
		if dead != c.want {
			t.Errorf("%s: gone %t", name, dead)
		}
	}
}

func TestNextHeartbeatComesWhenMemberMayBeDead(t *testing.T) {
	j := newDetector(3 * time.Second)
	read := func(now int64) findings {
		return j.read("aaaaaaaaaaaa", 1, Roster{Now: now, Connections: 1, Heartbeats: []LastHeartbeat{{ID: "bbbbbbbbbbbb", At: 1000,
			Bound: true, Connections: -1}}})
	}
	read(1000)
	j.describe("bbbbbbbbbbbb", About{Takeover: 3000})
	if v := read(2000); v.next != 2*time.Second || len(j.suspects()) != 0 {
		t.Errorf("%+v, suspects %v", v, j.suspects())
	}
	if v := read(3300); v.next != 700*time.Millisecond || len(j.suspects()) != 1 {
		t.Errorf("%+v, suspects %v", v, j.suspects())
	}
	// The observer asks again as long as the member is unresponsive.
	if v := read(4100); v.next != 0 || len(j.suspects()) != 1 {
		t.Errorf("%+v, suspects %v", v, j.suspects())
	}
}

// An instance that ends does not warn of the calls that it gave up.
func TestUndeclaredDeathIsLoggedUnlessEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := logobserver.New(zap.WarnLevel)
		p := play(t, newNode(), func(o *Options) { o.Logger = zap.New(core) })
		<-p.Joined()
		p.end()
		<-p.done
		p.seat.set(true)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for ctx, want := range map[context.Context]int{ended: 0, t.Context(): 1} {
			p.declareDead(ctx, p.ID(), LastHeartbeat{ID: "killed"}, 1)
			if got := logs.TakeAll(); len(got) != want {
				t.Errorf("context %v: %v, want %d warnings", ctx.Err(), got, want)
			}
		}
	})
}
