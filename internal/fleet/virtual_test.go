package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLeavingInstanceHasLeftAtOnce(t *testing.T) {
	plays(t, 3, func(t *testing.T, _ *node, ps []*player) {
		ps[0].end()
		<-ps[0].done
		time.Sleep(2 * wakeGap)
		for _, p := range ps[1:] {
			if s := p.Stats(); s.Alive != 2 || s.Dead != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// A joined instance has read the others' heartbeats, so it takes its part of limits and not the
// whole.
func TestJoinedInstanceSeesOthers(t *testing.T) {
	plays(t, 2, func(t *testing.T, n *node, _ []*player) {
		n.do(func() { n.thinks = 10 * time.Millisecond })
		p := play(t, n)
		<-p.Joined()
		if v := p.View(); !v.Known() || v.Alive() != 3 || v.Share("h", 30) != 10 {
			t.Errorf("the view at first: %s, a share of %d; want three alive and 10", v, v.Share("h", 30))
		}
		p.end()
		<-p.done
	})
}

// A leaving instance is preferred for nothing at once, and keeps its part of limits until it has
// left.
func TestRetiredInstanceKeepsItsShare(t *testing.T) {
	plays(t, 3, func(t *testing.T, _ *node, ps []*player) {
		ps[0].Retire()
		time.Sleep(time.Second + 2*wakeGap)
		sum, rate := 0, 0.0
		for i, p := range ps {
			v := p.View()
			sum += v.Share("h", 30)
			rate += v.Rate("r", 300)
			if s := p.Stats(); s.Alive != 2 || s.Leaving != 1 {
				t.Errorf("%d: %+v", i, s)
			}
			for k := range 50 {
				if i == 0 && v.Prefers(fmt.Sprint(k)) {
					t.Fatal("a leaving instance is preferred")
				}
			}
		}
		if sum != 30 || rate != 300 || ps[0].View().Share("h", 30) != 10 || ps[0].View().Rate("r", 300) != 0 {
			t.Errorf("shares %d, rates %g", sum, rate)
		}
	})
}

func TestKilledInstanceIsDead(t *testing.T) {
	for at := time.Duration(0); at < time.Second; at += 90 * time.Millisecond {
		plays(t, 2+int(at/time.Millisecond)%3, func(t *testing.T, _ *node, ps []*player) {
			time.Sleep(at)
			id, killed := ps[0].ID(), time.Now()
			ps[0].kill()
			for ps[1].Stats().Dead == 0 && time.Since(killed) < time.Minute {
				time.Sleep(time.Millisecond)
			}
			if d := time.Since(killed); d < 1900*time.Millisecond || d > 3100*time.Millisecond {
				t.Errorf("gone %s after it was killed, want 2 to 3 s", d)
			}
			time.Sleep(2 * wakeGap)
			for _, p := range ps[1:] {
				if g := p.seen(&p.dead); !slices.Equal(g, []string{id}) {
					t.Errorf("heard %v, want %s", g, id)
				}
				if s := p.Stats(); s.Alive != len(ps)-1 {
					t.Errorf("%+v", s)
				}
			}
			time.Sleep(5 * time.Minute)
			if g := ps[1].seen(&ps[1].dead); len(g) != 1 {
				t.Errorf("heard again: %v", g)
			}
		})
	}
}

// Where all instances were killed, the first one that starts again declares them dead.
func TestNewInstanceDeclaresKilledOnesDead(t *testing.T) {
	plays(t, 2, func(t *testing.T, n *node, ps []*player) {
		want := []string{ps[0].ID(), ps[1].ID()}
		ps[0].kill()
		ps[1].kill()
		time.Sleep(time.Hour)
		p := play(t, n)
		time.Sleep(5 * time.Second)
		got := p.seen(&p.dead)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("gone %v, want %v", got, want)
		}
		p.end()
		<-p.done
	})
}

func TestStoppedInstanceIsUnresponsiveAndNotDead(t *testing.T) {
	// Its last heartbeat may be a second older than the stop, so a short stop must end a second
	// before it counts as unresponsive.
	for _, long := range []time.Duration{1500 * time.Millisecond, 5 * time.Second, 20 * time.Second, 5 * time.Minute} {
		plays(t, 3, func(t *testing.T, _ *node, ps []*player) {
			before := ids(ps)
			resume := ps[0].seat.stop()
			time.Sleep(long)
			if s := ps[1].Stats(); (s.Unresponsive == 1) != (long > 4*time.Second) {
				t.Errorf("stopped for %s: %+v", long, s)
			}
			if may := ps[0].MayStart(ps[0].ID() + "-1"); may != (long < 3*time.Second) {
				t.Errorf("stopped for %s: may start %t", long, may)
			}
			// It makes claims under an id that no instance can declare dead.
			unknownID := ps[0].ClaimID()
			if (unknownID == ps[0].ID()) != (long < 3*time.Second) || !ps[0].MayStart(ps[0].ClaimID()+"-1") {
				t.Errorf("stopped for %s: claims under %s, its id is %s", long, unknownID, ps[0].ID())
			}
			resume()
			time.Sleep(1500 * time.Millisecond)
			nobodyGone(t, ps)
			if after := ids(ps); after != before {
				t.Errorf("ids %s, before %s", after, before)
			}
			if !ps[0].MayStart(ps[0].ID() + "-1") {
				t.Error("may not start after it lives again")
			}
			if ps[0].Lost(ps[0].ID()+"-1") || ps[0].Lost(unknownID+"-1") || !ps[0].Lost("another-1") {
				t.Error("claims of an instance that was not declared dead are lost")
			}
			if ps[0].ClaimID() != ps[0].ID() || !ps[0].MayStart(unknownID+"-1") {
				t.Errorf("claims under %s, and may start those under %s: %t", ps[0].ClaimID(), unknownID, ps[0].MayStart(unknownID+"-1"))
			}
		})
	}
}

func TestPausedRedisMakesNoInstanceDead(t *testing.T) {
	plays(t, 4, func(t *testing.T, n *node, ps []*player) {
		blocked := make(chan struct{})
		n.do(func() { n.blocked = blocked })
		time.Sleep(10 * time.Second)
		n.do(func() { n.blocked = nil })
		close(blocked)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			for _, p := range ps {
				if s := p.Stats(); s.Unresponsive != 0 || s.Dead != 0 {
					t.Fatalf("%+v", s)
				}
			}
		}
		nobodyGone(t, ps)
	})
}

// After an outage of Redis no observer can distinguish dead instances from disconnected ones. An
// instance that returns within its takeover is not declared dead.
func TestRestartedRedisMakesNoInstanceDead(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, away := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
			plays(t, 4, func(t *testing.T, n *node, ps []*player) {
				n.do(func() {
					n.down = true
					if lost {
						n.heartbeats, n.ended, n.described = map[string]LastHeartbeat{}, map[string]int64{}, map[string]string{}
					}
				})
				n.cut(nil)
				time.Sleep(away)
				n.do(func() { n.down = false })
				time.Sleep(35 * time.Second)
				for _, p := range ps {
					s := p.Stats()
					renamed := uint64(0)
					if lost && away > 3*time.Second {
						renamed = 1 // nothing says any more whether it was declared dead
					}
					if s.Alive != 4 || s.Unresponsive != 0 || s.Dead != 0 || s.Renamed != renamed {
						t.Errorf("lost %t, away %s: %+v", lost, away, s)
					}
				}
			})
		}
	}
}

// An instance whose entry is lost counts as unresponsive.
func TestLostKeysChangeNoView(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		number := ps[0].View().Number()
		n.do(func() { n.heartbeats, n.described = map[string]LastHeartbeat{}, map[string]string{} })
		time.Sleep(35 * time.Second)
		nobodyGone(t, ps)
		if v := ps[0].View(); v.Number() != number {
			t.Errorf("view %d, before %d", v.Number(), number)
		}
		// Descriptions are published again.
		n.do(func() {
			if len(n.described) != 3 {
				t.Errorf("%d have a description", len(n.described))
			}
		})
	})
}

// The others reconnect to the new node one after the other, each within its takeover.
func TestFailoverMakesNoInstanceDead(t *testing.T) {
	for _, offset := range []time.Duration{0, -time.Hour, time.Hour} {
		plays(t, 4, func(t *testing.T, old *node, ps []*player) {
			before := ids(ps)
			heir := newNode()
			old.do(func() {
				heir.offset = offset
				for id, s := range old.heartbeats { // replicated data
					heir.heartbeats[id] = s
				}
				for id, s := range old.described {
					heir.described[id] = s
				}
			})
			for i, p := range ps {
				p.seat.to(heir)
				old.cut(p.seat)
				if i > 0 {
					p.seat.set(true)
				}
			}
			for _, p := range ps[1:] {
				time.Sleep(700 * time.Millisecond)
				p.seat.set(false)
			}
			time.Sleep(10 * time.Second)
			nobodyGone(t, ps)
			if after := ids(ps); after != before {
				t.Errorf("ids %s, before %s", after, before)
			}
		})
	}
}

// A failover so quick that no heartbeat fails is noticed by the observer's subscription, which does
// not exist at the new node.
func TestQuickFailoverRestartsTrustWindow(t *testing.T) {
	plays(t, 3, func(t *testing.T, old *node, ps []*player) {
		resume := ps[0].seat.stop() // it stays where it was
		time.Sleep(2500 * time.Millisecond)
		heir := newNode()
		old.do(func() {
			for id, s := range old.heartbeats {
				heir.heartbeats[id], heir.described[id] = s, old.described[id]
			}
		})
		for _, p := range ps {
			p.seat.to(heir)
		}
		time.Sleep(2500 * time.Millisecond) // silent for 5 s, and for no 3 s of the window
		resume()
		time.Sleep(3 * time.Second)
		nobodyGone(t, ps)
		for i, p := range ps {
			heir.do(func() {
				if n := heir.connections(p.ID()); n != 1 {
					t.Errorf("instance %d has %d connections at the new node", i, n)
				}
			})
		}
	})
}

// An observer that does not reach Redis without a break declares no instance dead.
func TestObserverWithGapsDeclaresNoInstanceDead(t *testing.T) {
	plays(t, 2, func(t *testing.T, _ *node, ps []*player) {
		ps[0].kill()
		for range 20 {
			ps[1].seat.set(true)
			time.Sleep(1200 * time.Millisecond)
			ps[1].seat.set(false)
			time.Sleep(1300 * time.Millisecond)
		}
		if s := ps[1].Stats(); s.Dead != 0 || s.Unresponsive != 0 && s.Alive != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(5 * time.Second)
		if s := ps[1].Stats(); s.Dead != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestUncountableConnectionsMakeNoInstanceDead(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		n.do(func() { n.withoutEvents = true })
		time.Sleep(2 * time.Second)
		ps[0].kill()
		time.Sleep(time.Minute)
		if s := ps[1].Stats(); s.Dead != 0 || s.Unresponsive != 1 || s.Alive != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWithoutTakeoverNoInstanceIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		lease := func(o *Options) { o.Takeover = 0 }
		a, b, c := play(t, n, lease), play(t, n, lease), play(t, n)
		time.Sleep(5 * time.Second)
		b.kill()
		time.Sleep(10 * time.Second)
		// c has a takeover, but observers wait for that of b.
		for _, p := range []*player{a, c} {
			if s := p.Stats(); s.Dead != 0 || s.Unresponsive != 1 || s.Alive != 2 {
				t.Errorf("%+v", s)
			}
		}
		id := c.ID()
		c.kill()
		time.Sleep(10 * time.Second)
		if s := a.Stats(); s.Dead != 0 || s.Unresponsive != 2 {
			t.Errorf("%+v; %s was declared dead by one that has no takeover", s, id)
		}
		a.seat.stop()
		time.Sleep(time.Minute)
		if !a.MayStart(a.ID() + "-x") {
			t.Error("its claims are never reclaimed, and it may not start them")
		}
		a.end()
		// No event ends a stopped process.
		a.seat.mu.Lock()
		close(a.seat.stopped)
		a.seat.stopped = nil
		a.seat.mu.Unlock()
		<-a.done
	})
}

// The mark in Redis decides, and not the instance's record of its heartbeats.
func TestMarkedInstanceTakesNewIDAtOnce(t *testing.T) {
	plays(t, 2, func(t *testing.T, n *node, ps []*player) {
		id := ps[0].ID()
		n.do(func() { delete(n.heartbeats, id); n.ended[id] = n.now() &^ 1 })
		time.Sleep(1200 * time.Millisecond)
		if ps[0].ID() == id || ps[0].MayStart(id+"-1") || ps[0].Stats().Renamed != 1 {
			t.Errorf("%+v", ps[0].Stats())
		}
	})
}

// A late subscription brings the next heartbeat forward. Before that heartbeat its instance could
// not be declared dead.
func TestLateSubscriptionBringsHeartbeatForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.slow = 300 * time.Millisecond
		p := play(t, n)
		bound := func() (b bool) { n.do(func() { b = n.heartbeats[p.ID()].Bound }); return b }
		time.Sleep(290 * time.Millisecond)
		if bound() || p.Stats().Alive != 1 {
			t.Errorf("bound %t, %+v", bound(), p.Stats())
		}
		time.Sleep(30 * time.Millisecond)
		if !bound() {
			t.Error("the sign does not say the subscription is confirmed")
		}
		p.end()
		<-p.done
	})
}

// Its connections were closed and it could not return in time.
func TestInstanceDeclaredDeadReturnsUnderNewID(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		out := ps[0]
		id := out.ID()
		out.seat.set(true)
		n.cut(out.seat)
		time.Sleep(2900 * time.Millisecond)
		for range 60 {
			time.Sleep(100 * time.Millisecond)
			if g := ps[1].seen(&ps[1].dead); len(g) > 0 && out.MayStart(id+"-1") {
				t.Fatal("it is declared dead and starts its earlier claims")
			}
		}
		if s := ps[1].Stats(); s.Dead != 1 {
			t.Fatalf("%+v", s)
		}
		out.seat.set(false)
		time.Sleep(3 * time.Second)
		if out.ID() == id || out.Stats().Renamed != 1 || !slices.Equal(out.seen(&out.renamed), []string{out.ID()}) {
			t.Errorf("id %s, before %s: %+v", out.ID(), id, out.Stats())
		}
		if out.MayStart(id+"-1") || !out.MayStart(out.ID()+"-2") || out.MayStart(out.ID()) || out.MayStart("") {
			t.Error("MayStart goes by another id than its own")
		}
		for _, p := range ps {
			if s := p.Stats(); s.Alive != 3 || s.Unresponsive != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// Limits are exceeded for one heartbeat after an instance has joined, and at no other time.
func TestLimitsHoldWhileInstancesComeAndGo(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		const slots, rate = 16, 100.0
		live := map[*player]bool{}
		for _, p := range ps {
			live[p] = true
		}
		// hold checks all instances for that long. over is how long the sum may exceed the limit
		// from now on.
		hold := func(what string, d, over time.Duration) {
			t.Helper()
			for begun := time.Now(); time.Since(begun) < d; time.Sleep(10 * time.Millisecond) {
				sum, perSecond := 0, 0.0
				for p := range live {
					select {
					case <-p.Joined():
						sum += p.View().Share("h", slots)
						perSecond += p.View().Rate("r", rate)
					default: // it does nothing yet
					}
				}
				if since := time.Since(begun); (sum > slots || perSecond > rate+1e-9) && since > over {
					t.Fatalf("%s after %s: %d of %d slots, %g/s of %g/s", since, what, sum, slots, perSecond, rate)
				}
			}
		}
		const beat = maxInterval * 11 / 10
		hold("nothing", 3*time.Second, 0)
		more := play(t, n)
		live[more] = true
		hold("one came", 5*time.Second, beat)
		more.Retire()
		hold("one retired", 5*time.Second, 0)
		more.end()
		<-more.done
		delete(live, more)
		hold("one left", 5*time.Second, 0)
		resume := ps[0].seat.stop()
		delete(live, ps[0]) // it does nothing
		hold("one was stopped", 10*time.Second, 0)
		resume()
		live[ps[0]] = true
		hold("it goes on", 5*time.Second, 2*beat)
		ps[0].kill()
		delete(live, ps[0])
		hold("one was killed", 10*time.Second, 0)
		n.do(func() { n.down = true })
		n.cut(nil)
		hold("Redis went", 10*time.Second, 0)
		n.do(func() { n.down = false })
		hold("Redis returned", 10*time.Second, 0)
		sum := 0
		for p := range live {
			sum += p.View().Share("h", slots)
		}
		if sum != slots {
			t.Errorf("%d of %d slots are used in the end", sum, slots)
		}
	})
}

// Every instance works alone while the fleet is unknown, and no limit is exceeded.
func TestUnknownFleetPrefersEveryInstance(t *testing.T) {
	plays(t, 4, func(t *testing.T, n *node, ps []*player) {
		n.do(func() { n.down = true })
		n.cut(nil)
		time.Sleep(3500 * time.Millisecond)
		sum := 0
		for _, p := range ps {
			v := p.View()
			if v.Known() || !v.Prefers("a") || !v.PrefersPartition("r", 3) || p.Stats().Alive != 0 {
				t.Errorf("%+v", p.Stats())
			}
			sum += v.Share("h", 16)
		}
		if sum != 16 {
			t.Errorf("shares of 16 sum up to %d", sum)
		}
		n.do(func() { n.down = false })
		time.Sleep(3 * time.Second)
		for _, p := range ps {
			if !p.View().Known() {
				t.Error("not known again")
			}
		}
	})
}

func TestMessagesReachOtherInstances(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		if err := ps[0].Send(t.Context(), "", "breaker h"); err != nil {
			t.Fatal(err)
		}
		n.do(func() {
			for _, bad := range []string{"", "tell", "tell x", "tell x y", "gone", "joined \x00", "tell aaaaaaaaaaaa",
				strings.Repeat("tell ", 10000)} {
				n.publish(bad)
			}
		})
		time.Sleep(time.Second)
		want := []string{ps[0].ID() + " breaker h"}
		if !slices.Equal(ps[1].seen(&ps[1].heard), want) || len(ps[0].seen(&ps[0].heard)) != 0 {
			t.Errorf("heard %q, and itself %q", ps[1].seen(&ps[1].heard), ps[0].seen(&ps[0].heard))
		}
		if err := ps[0].Send(t.Context(), "", strings.Repeat("x", maxText+1)); err == nil {
			t.Error("a message of any length is sent")
		}
	})
}

// Many messages together cause few heartbeats.
func TestMessagesBringHeartbeatsForwardWithinBounds(t *testing.T) {
	plays(t, 1, func(t *testing.T, n *node, _ []*player) {
		var before int
		n.do(func() { before = n.commands })
		for range 5000 {
			n.do(func() { n.publish("joined abcdefghijkl") })
			time.Sleep(time.Millisecond)
		}
		n.do(func() {
			if made := n.commands - before; made > 5000/50+5 {
				t.Errorf("%d beats within 5 s", made)
			}
		})
	})
}

func TestIdleHeartbeatsAreBounded(t *testing.T) {
	plays(t, 8, func(t *testing.T, n *node, _ []*player) {
		var before int
		n.do(func() { before = n.commands })
		time.Sleep(time.Minute)
		n.do(func() {
			if made := n.commands - before; made > 8*60*21/20 {
				t.Errorf("%d commands of 8 instances within a minute", made)
			}
		})
	})
}

// Foreign members of the heartbeats are ignored.
func TestForeignHeartbeatsAreIgnored(t *testing.T) {
	plays(t, 2, func(t *testing.T, n *node, ps []*player) {
		n.do(func() {
			for i, id := range []string{"", "x", "notifier:0", strings.Repeat("a", 500), "ABCDEFGHIJKL", "abcdefghijk!"} {
				n.heartbeats[id] = LastHeartbeat{ID: id, At: n.now() + int64(i)*1e9, Bound: true}
				n.ended[id+"y"] = n.now()
			}
			n.described[ps[0].ID()] = `{"label":`
			// A valid id with a time an hour ahead.
			n.heartbeats["abcdefghijkl"] = LastHeartbeat{ID: "abcdefghijkl", At: n.now() + 3600_000, Bound: true}
		})
		time.Sleep(10 * time.Second)
		for _, p := range ps {
			if s := p.Stats(); s.Alive != 2 || s.Unresponsive != 1 || s.Dead != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

func TestNewRejectsInvalidTakeover(t *testing.T) {
	for _, d := range []time.Duration{-1, 1, 999 * time.Millisecond, time.Hour + 1} {
		if _, err := New(Options{Takeover: d}); err == nil || !strings.Contains(err.Error(), "1s to 1h0m0s") {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func TestNilFleetHasNoOtherInstances(t *testing.T) {
	var f *Fleet
	f.Retire()
	if !f.MayStart("any") || f.Stats() != (Stats{}) || f.Send(t.Context(), "", "x") != nil || f.ID() != "" {
		t.Error("not as one that knows no instance")
	}
	v := f.View()
	if !v.Prefers("a") || !v.PrefersPartition("a", 1) || v.Share("h", 16) != 16 || v.Rate("r", 10) != 10 || v.Alive() != 1 || v.Known() ||
		v.Number() != 0 || v.Sharers("r", 1) != nil || v.String() != "unknown" {
		t.Error("not as one that is alone")
	}
}
