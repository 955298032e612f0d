package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneThatLeavesIsKnownToHaveLeftAtOnce(t *testing.T) {
	plays(t, 3, func(t *testing.T, _ *node, ps []*player) {
		ps[0].end()
		<-ps[0].done
		time.Sleep(2 * wakeGap)
		for _, p := range ps[1:] {
			if s := p.Stats(); s.Living != 2 || s.Gone != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// One that has joined knows who else lives: it takes its part of limits from then on,
// and not the whole.
func TestOneThatHasJoinedKnowsTheOthers(t *testing.T) {
	plays(t, 2, func(t *testing.T, n *node, _ []*player) {
		n.do(func() { n.thinks = 10 * time.Millisecond })
		p := play(t, n)
		<-p.Joined()
		if v := p.View(); !v.Known() || v.Living() != 3 || v.Share("h", 30) != 10 {
			t.Errorf("the view at first: %s, a share of %d; want three living and 10", v, v.Share("h", 30))
		}
		p.end()
		<-p.done
	})
}

// One that leaves is preferred for nothing at once, and holds its part of
// limits until it has left.
func TestOneThatRetiresGivesWorkAwayAndKeepsItsShare(t *testing.T) {
	plays(t, 3, func(t *testing.T, _ *node, ps []*player) {
		ps[0].Retire()
		time.Sleep(time.Second + 2*wakeGap)
		sum, rate := 0, 0.0
		for i, p := range ps {
			v := p.View()
			sum += v.Share("h", 30)
			rate += v.Rate("r", 300)
			if s := p.Stats(); s.Living != 2 || s.Leaving != 1 {
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

func TestOneThatIsKilledIsGone(t *testing.T) {
	for at := time.Duration(0); at < time.Second; at += 90 * time.Millisecond {
		plays(t, 2+int(at/time.Millisecond)%3, func(t *testing.T, _ *node, ps []*player) {
			time.Sleep(at)
			id, killed := ps[0].ID(), time.Now()
			ps[0].kill()
			for ps[1].Stats().Gone == 0 && time.Since(killed) < time.Minute {
				time.Sleep(time.Millisecond)
			}
			if d := time.Since(killed); d < 1900*time.Millisecond || d > 3100*time.Millisecond {
				t.Errorf("gone %s after it was killed, want 2 to 3 s", d)
			}
			time.Sleep(2 * wakeGap)
			for _, p := range ps[1:] {
				if g := p.seen(&p.gone); !slices.Equal(g, []string{id}) {
					t.Errorf("heard %v, want %s", g, id)
				}
				if s := p.Stats(); s.Living != len(ps)-1 {
					t.Errorf("%+v", s)
				}
			}
			time.Sleep(5 * time.Minute)
			if g := ps[1].seen(&ps[1].gone); len(g) != 1 {
				t.Errorf("heard again: %v", g)
			}
		})
	}
}

// Where all were killed, the first that is started again finds out.
func TestAllThatWereKilledAreGoneForOneThatComesAnew(t *testing.T) {
	plays(t, 2, func(t *testing.T, n *node, ps []*player) {
		want := []string{ps[0].ID(), ps[1].ID()}
		ps[0].kill()
		ps[1].kill()
		time.Sleep(time.Hour)
		p := play(t, n)
		time.Sleep(5 * time.Second)
		got := p.seen(&p.gone)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("gone %v, want %v", got, want)
		}
		p.end()
		<-p.done
	})
}

func TestOneThatIsStoppedIsSilentAndNotGone(t *testing.T) {
	// Its last sign may be a second older than the stop: what counts as short must
	// leave room for that below the 3 s after which it is silent.
	for _, long := range []time.Duration{1500 * time.Millisecond, 5 * time.Second, 20 * time.Second, 5 * time.Minute} {
		plays(t, 3, func(t *testing.T, _ *node, ps []*player) {
			before := ids(ps)
			resume := ps[0].seat.stop()
			time.Sleep(long)
			if s := ps[1].Stats(); (s.Silent == 1) != (long > 4*time.Second) {
				t.Errorf("stopped for %s: %+v", long, s)
			}
			if may := ps[0].MayStart(ps[0].ID() + "-1"); may != (long < 3*time.Second) {
				t.Errorf("stopped for %s: may start %t", long, may)
			}
			// What it claims meanwhile, it claims under an id that nobody can count out.
			aside := ps[0].ClaimID()
			if (aside == ps[0].ID()) != (long < 3*time.Second) || !ps[0].MayStart(ps[0].ClaimID()+"-1") {
				t.Errorf("stopped for %s: claims under %s, its id is %s", long, aside, ps[0].ID())
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
			if ps[0].ClaimID() != ps[0].ID() || !ps[0].MayStart(aside+"-1") {
				t.Errorf("claims under %s, and may start those under %s: %t", ps[0].ClaimID(), aside, ps[0].MayStart(aside+"-1"))
			}
		})
	}
}

func TestAPauseOfRedisMakesNobodyGone(t *testing.T) {
	plays(t, 4, func(t *testing.T, n *node, ps []*player) {
		blocked := make(chan struct{})
		n.do(func() { n.blocked = blocked })
		time.Sleep(10 * time.Second)
		n.do(func() { n.blocked = nil })
		close(blocked)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			for _, p := range ps {
				if s := p.Stats(); s.Silent != 0 || s.Gone != 0 {
					t.Fatalf("%+v", s)
				}
			}
		}
		nobodyGone(t, ps)
	})
}

// Nobody can tell what died while Redis was away from what only lost its
// connections: whoever comes back within its takeover is not gone.
func TestARestartOfRedisMakesNobodyGone(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, away := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
			plays(t, 4, func(t *testing.T, n *node, ps []*player) {
				n.do(func() {
					n.down = true
					if lost {
						n.signs, n.ended, n.told = map[string]Sign{}, map[string]int64{}, map[string]string{}
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
						renamed = 1 // nothing says any more whether it was counted out
					}
					if s.Living != 4 || s.Silent != 0 || s.Gone != 0 || s.Renamed != renamed {
						t.Errorf("lost %t, away %s: %+v", lost, away, s)
					}
				}
			})
		}
	}
}

// Of an entry that is lost the others think as of one that is silent.
func TestLostKeysChangeNoView(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		number := ps[0].View().Number()
		n.do(func() { n.signs, n.told = map[string]Sign{}, map[string]string{} })
		time.Sleep(35 * time.Second)
		nobodyGone(t, ps)
		if v := ps[0].View(); v.Number() != number {
			t.Errorf("view %d, before %d", v.Number(), number)
		}
		// And what they tell is told again.
		n.do(func() {
			if len(n.told) != 3 {
				t.Errorf("%d tell of themselves", len(n.told))
			}
		})
	})
}

// The others come back to the new node one after the other, each within its
// takeover.
func TestAFailoverMakesNobodyGone(t *testing.T) {
	for _, offset := range []time.Duration{0, -time.Hour, time.Hour} {
		plays(t, 4, func(t *testing.T, old *node, ps []*player) {
			before := ids(ps)
			heir := newNode()
			old.do(func() {
				heir.offset = offset
				for id, s := range old.signs { // what was replicated
					heir.signs[id] = s
				}
				for id, s := range old.told {
					heir.told[id] = s
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

// A switch so quick that no beat fails is known by the observer's own
// subscription, which is not at the new node.
func TestAQuickFailoverBeginsTheWindowAnew(t *testing.T) {
	plays(t, 3, func(t *testing.T, old *node, ps []*player) {
		resume := ps[0].seat.stop() // it stays where it was
		time.Sleep(2500 * time.Millisecond)
		heir := newNode()
		old.do(func() {
			for id, s := range old.signs {
				heir.signs[id], heir.told[id] = s, old.told[id]
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

// An observer that does not reach Redis without a break counts nobody out.
func TestAnObserverWithBreaksCountsNobodyOut(t *testing.T) {
	plays(t, 2, func(t *testing.T, _ *node, ps []*player) {
		ps[0].kill()
		for range 20 {
			ps[1].seat.set(true)
			time.Sleep(1200 * time.Millisecond)
			ps[1].seat.set(false)
			time.Sleep(1300 * time.Millisecond)
		}
		if s := ps[1].Stats(); s.Gone != 0 || s.Silent != 0 && s.Living != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(5 * time.Second)
		if s := ps[1].Stats(); s.Gone != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWhereConnectionsCannotBeAskedForTheLeaseRules(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		n.do(func() { n.deaf = true })
		time.Sleep(2 * time.Second)
		ps[0].kill()
		time.Sleep(time.Minute)
		if s := ps[1].Stats(); s.Gone != 0 || s.Silent != 1 || s.Living != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWithoutTakeoverNobodyIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		lease := func(o *Options) { o.Takeover = 0 }
		a, b, c := play(t, n, lease), play(t, n, lease), play(t, n)
		time.Sleep(5 * time.Second)
		b.kill()
		time.Sleep(10 * time.Second)
		// c has a takeover, but that of b is waited for.
		for _, p := range []*player{a, c} {
			if s := p.Stats(); s.Gone != 0 || s.Silent != 1 || s.Living != 2 {
				t.Errorf("%+v", s)
			}
		}
		id := c.ID()
		c.kill()
		time.Sleep(10 * time.Second)
		if s := a.Stats(); s.Gone != 0 || s.Silent != 2 {
			t.Errorf("%+v; %s was counted out by one that has no takeover", s, id)
		}
		a.seat.stop()
		time.Sleep(time.Minute)
		if !a.MayStart(a.ID() + "-x") {
			t.Error("its claims are never taken over, and it may not start them")
		}
		a.end()
		// Nothing ends a stopped process.
		a.seat.mu.Lock()
		close(a.seat.stopped)
		a.seat.stopped = nil
		a.seat.mu.Unlock()
		<-a.done
	})
}

// The mark decides, not what the instance thinks of its own signs.
func TestOneThatIsMarkedTakesANewIDAtOnce(t *testing.T) {
	plays(t, 2, func(t *testing.T, n *node, ps []*player) {
		id := ps[0].ID()
		n.do(func() { delete(n.signs, id); n.ended[id] = n.now() &^ 1 })
		time.Sleep(1200 * time.Millisecond)
		if ps[0].ID() == id || ps[0].MayStart(id+"-1") || ps[0].Stats().Renamed != 1 {
			t.Errorf("%+v", ps[0].Stats())
		}
	})
}

// A subscription that comes late is told at once, not a beat later: until then
// its instance could not be counted out.
func TestALateSubscriptionBringsTheNextSignForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.slow = 300 * time.Millisecond
		p := play(t, n)
		bound := func() (b bool) { n.do(func() { b = n.signs[p.ID()].Bound }); return b }
		time.Sleep(290 * time.Millisecond)
		if bound() || p.Stats().Living != 1 {
			t.Errorf("bound %t, %+v", bound(), p.Stats())
		}
		time.Sleep(30 * time.Millisecond)
		if !bound() {
			t.Error("the sign does not say that there is a subscription")
		}
		p.end()
		<-p.done
	})
}

// Its connections were closed and it could not come back in time.
func TestOneThatWasCountedOutComesBackUnderANewID(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		out := ps[0]
		id := out.ID()
		out.seat.set(true)
		n.cut(out.seat)
		time.Sleep(2900 * time.Millisecond)
		for range 60 {
			time.Sleep(100 * time.Millisecond)
			if g := ps[1].seen(&ps[1].gone); len(g) > 0 && out.MayStart(id+"-1") {
				t.Fatal("it is counted out and starts what it claimed before")
			}
		}
		if s := ps[1].Stats(); s.Gone != 1 {
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
			if s := p.Stats(); s.Living != 3 || s.Silent != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// Limits are exceeded for a beat after somebody has come, and never otherwise.
func TestLimitsHoldWhileInstancesComeAndGo(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		const slots, rate = 16, 100.0
		live := map[*player]bool{}
		for _, p := range ps {
			live[p] = true
		}
		// hold looks at all for so long; over says for how long the sum may lie
		// above the limit from now on.
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
		const beat = longestBeat * 11 / 10
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
		hold("Redis came back", 10*time.Second, 0)
		sum := 0
		for p := range live {
			sum += p.View().Share("h", slots)
		}
		if sum != slots {
			t.Errorf("%d of %d slots are used in the end", sum, slots)
		}
	})
}

// Every instance works as if alone while nothing is known, and no limit is
// exceeded for it.
func TestWhileNothingIsKnownEachIsPreferred(t *testing.T) {
	plays(t, 4, func(t *testing.T, n *node, ps []*player) {
		n.do(func() { n.down = true })
		n.cut(nil)
		time.Sleep(3500 * time.Millisecond)
		sum := 0
		for _, p := range ps {
			v := p.View()
			if v.Known() || !v.Prefers("a") || !v.PrefersWork("r", 3) || p.Stats().Living != 0 {
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

func TestMessages(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		if err := ps[0].Tell(t.Context(), "", "breaker h"); err != nil {
			t.Fatal(err)
		}
		n.do(func() {
			for _, bad := range []string{"", "tell", "tell x", "tell x y", "gone", "joined \x00", "tell aaaaaaaaaaaa", strings.Repeat("tell ", 10000)} {
				n.publish(bad)
			}
		})
		time.Sleep(time.Second)
		want := []string{ps[0].ID() + " breaker h"}
		if !slices.Equal(ps[1].seen(&ps[1].heard), want) || len(ps[0].seen(&ps[0].heard)) != 0 {
			t.Errorf("heard %q, and itself %q", ps[1].seen(&ps[1].heard), ps[0].seen(&ps[0].heard))
		}
		if err := ps[0].Tell(t.Context(), "", strings.Repeat("x", longestText+1)); err == nil {
			t.Error("a message of any length is sent")
		}
	})
}

// Many messages at once do not make as many commands.
func TestMessagesBringBeatsForwardWithinBounds(t *testing.T) {
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

func TestTheIdleCost(t *testing.T) {
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

// What somebody else has put among the signs is ignored.
func TestForeignSigns(t *testing.T) {
	plays(t, 2, func(t *testing.T, n *node, ps []*player) {
		n.do(func() {
			for i, id := range []string{"", "x", "notifier:0", strings.Repeat("a", 500), "ABCDEFGHIJKL", "abcdefghijk!"} {
				n.signs[id] = Sign{ID: id, At: n.now() + int64(i)*1e9, Bound: true}
				n.ended[id+"y"] = n.now()
			}
			n.told[ps[0].ID()] = `{"label":`
			// One that seems real, and lies an hour ahead.
			n.signs["abcdefghijkl"] = Sign{ID: "abcdefghijkl", At: n.now() + 3600_000, Bound: true}
		})
		time.Sleep(10 * time.Second)
		for _, p := range ps {
			if s := p.Stats(); s.Living != 2 || s.Silent != 1 || s.Gone != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

func TestNewRefusesATakeoverThatCannotBeKept(t *testing.T) {
	for _, d := range []time.Duration{-1, 1, 999 * time.Millisecond, time.Hour + 1} {
		if _, err := New(Options{Takeover: d}); err == nil || !strings.Contains(err.Error(), "1s to 1h0m0s") {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func TestANilFleetKnowsNobody(t *testing.T) {
	var f *Fleet
	f.Retire()
	if !f.MayStart("any") || f.Stats() != (Stats{}) || f.Tell(t.Context(), "", "x") != nil || f.ID() != "" {
		t.Error("not as one that knows nobody")
	}
	v := f.View()
	if !v.Prefers("a") || !v.PrefersWork("a", 1) || v.Share("h", 16) != 16 || v.Rate("r", 10) != 10 || v.Living() != 1 || v.Known() ||
		v.Number() != 0 || v.Among("r", 1) != nil || v.String() != "unknown" {
		t.Error("not as one that is alone")
	}
}
