package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

func TestSweeperTouchesDueTimersOnly(t *testing.T) {
	for _, offset := range []time.Duration{0, -37 * time.Second, 1234567 * time.Microsecond} {
		t.Run(offset.String(), func(t *testing.T) {
			within(t, func(t *testing.T, s *sim, w *Sweeper) {
				s.do(func() { s.offset = offset })
				w.Now()
				time.Sleep(10 * time.Millisecond)
				for i := range 1000 {
					w.Wake(s.add(fmt.Sprint(i), time.Duration(100+(i*i)%2000)*time.Millisecond))
				}
				time.Sleep(3 * time.Second)
				if late, n := s.worst(); n != 1000 || late > time.Millisecond {
					t.Errorf("%d of 1000 claimed, at most %s late", n, late)
				}
				for k, n := range s.touches {
					if n != 1 {
						t.Errorf("%s was touched %d times", k, n)
					}
				}
			})
		})
	}
}

// Notices that are due together are touched in groups, each for one instance. Single ones are left
// to the preferred instance of their key.
func TestNoticesDueTogetherAreTouchedInGroups(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.do(func() { s.group = 3 })
		for i := range 5 {
			w.Wake(s.add(fmt.Sprint("x", i), 100*time.Millisecond))
		}
		w.Wake(s.add("alone", 200*time.Millisecond))
		time.Sleep(97 * time.Millisecond)
		w.Now() // sees all of them before they are due
		time.Sleep(time.Second)
		s.do(func() {
			if want := []string{"a who gets x0 [x0 x1 x2]", "a who gets x3 [x3 x4]"}; !slices.Equal(s.groups, want) {
				t.Errorf("touched %q, want %q", s.groups, want)
			}
			s.group = 1
		})
		for i := range 5 {
			w.Wake(s.add(fmt.Sprint("y", i), 100*time.Millisecond))
		}
		time.Sleep(time.Second)
		late, n := s.worst()
		s.do(func() {
			if n != 11 || late > time.Millisecond || len(s.groups) != 2 {
				t.Errorf("%d of 11 claimed, at most %s late, in groups %q", n, late, s.groups)
			}
		})
	})
}

func TestNoticesWithLostEventsAreSwept(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.do(func() { s.deaf = true })
		for i := range 200 {
			w.Wake(s.add(fmt.Sprint(i), time.Duration(10+i*3)*time.Millisecond))
		}
		time.Sleep(time.Second)
		late, n := s.worst()
		if n != 200 || late > testGrace+10*time.Millisecond {
			t.Errorf("%d of 200 claimed, at most %s late", n, late)
		}
		for k, l := range s.late {
			if l < testGrace {
				t.Errorf("%s was swept within the grace, after %s", k, l)
			}
		}
	})
}

func TestNoticesWithoutTimerAreSwept(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		at := s.add("x", 20*time.Millisecond)
		s.do(func() { s.list[0].bare = true })
		w.Wake(at)
		time.Sleep(time.Second)
		if late, n := s.worst(); n != 1 || late > 2*time.Millisecond {
			t.Errorf("claimed %d, %s late", n, late)
		}
		if len(s.touches) != 0 {
			t.Errorf("touched %v", s.touches)
		}
	})
}

// More notices than an inspection lists are due and wait for slots: those that are due later are hinted at their time.
func TestNoticesBehindABacklogAreHinted(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.do(func() { s.room = 0 })
		for i := range 2 * maxInspected {
			s.add(fmt.Sprint(i), time.Millisecond)
		}
		s.do(func() {
			for i := range s.list {
				s.list[i].bare = true
			}
		})
		for i := range 10 {
			s.add(fmt.Sprint("timer", i), time.Duration(15+i)*time.Millisecond)
		}
		w.Now()
		time.Sleep(26 * time.Millisecond) // before the backlog is overdue
		s.do(func() {
			for i := range 10 {
				if k := fmt.Sprint("timer", i); !slices.Contains(s.hinted, k) {
					t.Errorf("%s was not hinted, but %v", k, s.hinted)
				}
			}
		})
	})
}

// More timers than an inspection lists are due. The others are touched at once too, whenever further timers become due.
func TestTimersInAGapAreTouched(t *testing.T) {
	for _, from := range []int{2, 46} {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			within(t, func(t *testing.T, s *sim, w *Sweeper) {
				s.do(func() { s.room = 4 * maxInspected })
				for i := range 3 * maxInspected {
					s.add(fmt.Sprint(i), time.Millisecond)
				}
				for ms := from; ms <= 46; ms++ {
					s.add(fmt.Sprint("later", ms), time.Duration(ms)*time.Millisecond)
				}
				w.Now()
				time.Sleep(time.Second)
				if late, n := s.worst(); n != 3*maxInspected+47-from || late > 10*time.Millisecond {
					t.Errorf("claimed %d, at most %s late", n, late)
				}
			})
		})
	}
}

func TestWakeBringsInspectionForward(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.add("far", time.Hour)
		w.Now()
		time.Sleep(time.Second)
		w.Wake(s.add("near", 30*time.Millisecond))
		time.Sleep(time.Second)
		if late, n := s.worst(); n != 1 || late > time.Millisecond {
			t.Errorf("claimed %d, %s late", n, late)
		}
		// A wake for a later time than the known ones causes no inspection.
		if n := func() int { w.Wake(s.now().Add(2 * time.Hour)); return s.counted(time.Second) }(); n != 0 {
			t.Errorf("%d looks", n)
		}
	})
}

// A notice is scheduled right after an inspection was answered, and its wake arrives before that
// answer.
func TestWakeDuringInspectionIsNotLost(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.add("far", time.Hour)
		for i := range 5 {
			s.do(func() {
				s.inLook = func() { w.Wake(s.add(fmt.Sprint(i), 100*time.Millisecond)) }
			})
			time.Sleep(11 * time.Second) // the idle look
		}
		if late, n := s.worst(); n != 5 || late > time.Millisecond {
			t.Errorf("claimed %d, at most %s late", n, late)
		}
	})
}

func TestWakeBetweenKnownTimersCausesInspection(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.add("first", 10*time.Millisecond)
		s.add("last", 14*time.Millisecond)
		w.Now()
		time.Sleep(9 * time.Millisecond) // both are within reach and known now
		w.Now()
		time.Sleep(500 * time.Microsecond)
		w.Wake(s.add("between", 3*time.Millisecond))
		time.Sleep(time.Second)
		if late, n := s.worst(); n != 3 || late > time.Millisecond {
			t.Errorf("claimed %d, at most %s late: %v", n, late, s.late)
		}
	})
}

func TestIdleIntervalsDependOnSubscription(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		if n := s.counted(100 * time.Second); n < 9 || n > 11 {
			t.Errorf("%d looks in 100 s with a subscription, want 10", n)
		}
		s.do(func() { s.dead = true })
		w.Now() // any instance that ends a subscription begins one, which sweeps
		if n := s.counted(100 * time.Second); n < 99 || n > 102 {
			t.Errorf("%d looks in 100 s without one, want 100", n)
		}
		s.do(func() { s.dead = false })
		time.Sleep(time.Second)
		s.add("far", time.Hour)
		if n := s.counted(100 * time.Second); n > 11 {
			t.Errorf("%d looks in 100 s with something in an hour", n)
		}
	})
}

func TestErrorsBackOff(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.do(func() { s.down = errDown })
		s.add("x", time.Second)
		w.Now()
		if n := s.counted(time.Minute); n < 180 || n > 300 {
			t.Errorf("%d looks in a minute of errors, want about four a second", n)
		}
		s.do(func() { s.down = nil })
		time.Sleep(2 * time.Second)
		if _, n := s.worst(); n != 1 {
			t.Error("it did not recover")
		}
	})
}

// A route that claims nothing, paused or without a free slot, causes no loop of inspections.
func TestMissingRoomCausesNoLoop(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.do(func() { s.room = 0 })
		for i := range 100 {
			s.add(fmt.Sprint("old", i), 0)
		}
		w.Now()
		time.Sleep(time.Second)
		if n := s.counted(100 * time.Second); n > 110 {
			t.Errorf("%d looks in 100 s at a backlog that cannot be claimed", n)
		}
		for i := range 5000 {
			s.add(fmt.Sprint(i), time.Duration(i)*time.Millisecond)
		}
		w.Now()
		if n := s.counted(5 * time.Second); n > 5*500 {
			t.Errorf("%d looks in 5 s while 1,000 fall due every second", n)
		}
		if len(s.touches) != 0 {
			t.Errorf("%d touched although there is no room", len(s.touches))
		}
		s.do(func() { s.room = 64 })
		time.Sleep(2 * time.Second)
		if _, n := s.worst(); n != 5100 {
			t.Errorf("%d of 5100 claimed when there was room again", n)
		}
	})
}

func TestSweeperTouchesNoMoreThanRoom(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		for i := range 2000 {
			w.Wake(s.add(fmt.Sprint(i), 100*time.Millisecond))
		}
		time.Sleep(time.Second)
		late, n := s.worst()
		if s.most > 64 || n != 2000 || late > testGrace+10*time.Millisecond {
			t.Errorf("%d touched at once, %d claimed, at most %s late", s.most, n, late)
		}
	})
}

func TestSweeperSweepsDueNoticesWithoutEvents(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.do(func() { s.off = true })
		w.Now()
		for i := range 100 {
			w.Wake(s.add(fmt.Sprint(i), time.Duration(10+i*7)*time.Millisecond))
		}
		time.Sleep(2 * time.Second)
		if late, n := s.worst(); n != 100 || late > 2*time.Millisecond || len(s.touches) != 0 {
			t.Errorf("%d of 100 claimed, at most %s late, %d touched", n, late, len(s.touches))
		}
	})
}

// Redis's clock falls back: a timer that seemed due is not, and is touched again.
func TestTimerTouchedTooEarlyIsTouchedAgain(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		for i := range 50 {
			s.add(fmt.Sprint(i), time.Duration(100+10*i)*time.Millisecond)
		}
		w.Now()
		for range 10 {
			time.Sleep(33 * time.Millisecond)
			s.do(func() { s.offset -= 7 * time.Millisecond })
		}
		time.Sleep(2 * time.Second)
		if late, n := s.worst(); n != 50 || late > 10*time.Millisecond {
			t.Errorf("%d of 50 claimed, at most %s late", n, late)
		}
	})
}

// A client overwrites a timer, so it does not expire. The sweep claims its notice, and until then
// the Sweeper does not spin.
func TestUnexpiringTimerIsSwept(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		at := s.add("x", 10*time.Millisecond)
		s.do(func() { s.list[0].stuck = true })
		w.Wake(at)
		if n := s.counted(time.Second); n > 200 {
			t.Errorf("%d looks", n)
		}
		if late, n := s.worst(); n != 1 || late > testGrace+5*time.Millisecond {
			t.Errorf("claimed %d, %s late", n, late)
		}
	})
}

// While the preferred instance does nothing, as one that has just died, due notices are swept soon
// after the grace, with one inspection per grace. Nothing is touched, and nothing is swept within
// the grace.
func TestNoticesOfInactivePreferredInstanceAreSwept(t *testing.T) {
	for _, off := range []bool{false, true} {
		t.Run(fmt.Sprintf("events off: %t", off), func(t *testing.T) {
			within(t, func(t *testing.T, s *sim, w *Sweeper) {
				s.do(func() { s.rank, s.off = 1, off })
				w.Now()
				time.Sleep(time.Second)
				for i := range 500 {
					w.Wake(s.add(fmt.Sprint(i), time.Duration(100+i*4)*time.Millisecond))
				}
				looks := s.counted(3 * time.Second)
				late, n := s.worst()
				if n != 500 || late > testGrace+20*time.Millisecond {
					t.Errorf("%d of 500 claimed, at most %s late", n, late)
				}
				if len(s.touches) != 0 {
					t.Errorf("touched %v", s.touches)
				}
				for k, l := range s.late {
					if l < testGrace && !off {
						t.Errorf("%s was swept within the grace, after %s", k, l)
					}
				}
				if looks > 500 {
					t.Errorf("%d looks in 2 s", looks)
				}
			})
		})
	}
}

// Notices that the preferred instance claims cost the others few inspections: one per wake, after
// the graces, and one per minute.
func TestNoticesOfPreferredInstanceCostOthersLittle(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.do(func() { s.rank = 1 })
		w.Now()
		time.Sleep(time.Second)
		if n := s.counted(10 * time.Minute); n > 11 {
			t.Errorf("%d looks in 10 idle minutes, want one a minute", n)
		}
		if n := func() int { w.Wake(s.now().Add(30 * time.Millisecond)); return s.counted(70 * time.Millisecond) }(); n != 0 {
			t.Errorf("%d inspections within the grace of a wake", n)
		}
		if n := s.counted(time.Second); n != 1 {
			t.Errorf("%d looks after it, want one", n)
		}
		// An instance that becomes preferred works at once.
		s.do(func() { s.rank = 0 })
		w.Now()
		time.Sleep(time.Second)
		w.Wake(s.add("x", 20*time.Millisecond))
		time.Sleep(time.Second)
		if late, n := s.worst(); n != 1 || late > time.Millisecond {
			t.Errorf("%d claimed, %s late", n, late)
		}
	})
}

// Instances that leave touched notices unclaimed for a grace are reported, and those ranked higher
// that leave due notices. Neither is if more notices are due than there is room for.
func TestSweeperReportsInactivePeers(t *testing.T) {
	for _, room := range []int{64, 3} {
		for _, group := range []int{1, 2} {
			within(t, func(t *testing.T, s *sim, w *Sweeper) {
				s.do(func() { s.deaf, s.group, s.room = true, group, room })
				for i := range 4 {
					w.Wake(s.add(fmt.Sprint("x", i), 100*time.Millisecond))
				}
				time.Sleep(97 * time.Millisecond)
				w.Now() // sees all of them before they are due
				time.Sleep(time.Second)
				s.do(func() {
					want := map[string]bool{}
					for i := 0; i < 4 && room > 4; i += group {
						want[fmt.Sprint("who gets x", i)] = true
					}
					if !maps.Equal(s.leftBy, want) || s.over != 0 {
						t.Errorf("room for %d in groups of %d: left by %v, want %v; overlooked %d", room, group, s.leftBy, want, s.over)
					}
					clear(s.leftBy)
					s.deaf = false
				})
				w.Wake(s.add("y", 100*time.Millisecond))
				time.Sleep(time.Second)
				s.do(func() {
					if len(s.leftBy) > 0 {
						t.Errorf("left by %v, though all came by their events", s.leftBy)
					}
					s.rank = 1
				})
				w.Now()
				time.Sleep(time.Second)
				for i := range 4 {
					w.Wake(s.add(fmt.Sprint("z", i), 100*time.Millisecond))
				}
				time.Sleep(time.Second)
				s.do(func() {
					if (s.over > 0) != (room > 4) || len(s.leftBy) > 0 {
						t.Errorf("room for %d: overlooked %d, left by %v", room, s.over, s.leftBy)
					}
				})
			})
		}
	}
}

// expiring adds a notice that expires in d, and says so.
func (s *sim) expiring(w *Sweeper, d time.Duration) {
	var at time.Time
	s.do(func() {
		at = s.now().Add(d).Truncate(time.Millisecond)
		s.ends = append(s.ends, at)
	})
	w.Expires(at)
}

func TestNoticesExpireOnTime(t *testing.T) {
	for _, offset := range []time.Duration{0, -37 * time.Second} {
		t.Run(offset.String(), func(t *testing.T) {
			within(t, func(t *testing.T, s *sim, w *Sweeper) {
				s.do(func() { s.offset = offset })
				w.Now()
				time.Sleep(10 * time.Millisecond)
				for i := range 500 {
					w.Wake(s.add(fmt.Sprint(i), time.Duration(50+i)*time.Millisecond)) // others that are due all the time
					s.expiring(w, time.Duration(100+(i*i)%2000)*time.Millisecond)
				}

				time.Sleep(4 * time.Second)
				if late, n := s.worst(); n != 1000 || late > 2*time.Millisecond {
					t.Errorf("%d of 1000 claimed or expired, at most %s late", n, late)
				}
			})
		})
	}
}

// Where no notice expires, only an idle inspection a minute asks.
func TestExpiriesAreAskedForWhereThereAreSome(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		busy := func() (asked, looks int) {
			s.do(func() { asked, looks = s.asked, s.looks })
			for i := range 200 {
				w.Wake(s.add(fmt.Sprint(time.Now().UnixNano(), i), time.Duration(5*i)*time.Millisecond))
			}

			time.Sleep(1200 * time.Millisecond)
			s.do(func() { asked, looks = s.asked-asked, s.looks-looks })
			return asked, looks
		}
		if asked, looks := busy(); asked > 2 || looks < 10 {
			t.Errorf("%d of %d inspections asked without a notice that expires", asked, looks)
		}

		s.expiring(w, 1500*time.Millisecond)
		if asked, looks := busy(); asked < looks-1 {
			t.Errorf("%d of %d inspections asked with a notice that expires", asked, looks)
		}

		time.Sleep(time.Second)
		if asked, looks := busy(); asked > 2 {
			t.Errorf("%d of %d inspections asked after the last one expired", asked, looks)
		}
	})
}

// A lost message is made up for by an idle inspection.
func TestAnUnannouncedExpiryIsFound(t *testing.T) {
	within(t, func(t *testing.T, s *sim, _ *Sweeper) {
		s.do(func() { s.ends = append(s.ends, s.now().Add(90*time.Second)) })
		time.Sleep(2 * time.Minute)
		if late, n := s.worst(); n != 1 || late > 2*time.Millisecond {
			t.Errorf("%d expired, %s late", n, late)
		}
	})
}

func TestAnotherInstanceExpiresAfterAGrace(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.do(func() { s.rank = 1 })
		w.Now()
		time.Sleep(10 * time.Millisecond)
		s.expiring(w, 100*time.Millisecond)
		time.Sleep(time.Second)
		if late, n := s.worst(); n != 1 || late < testGrace || late > 2*testGrace {
			t.Errorf("%d expired, %s late; want one grace", n, late)
		}
	})
}

// While nothing can be claimed, inspections become rare.
func TestAFailingExpiryCausesFewInspections(t *testing.T) {
	within(t, func(t *testing.T, s *sim, w *Sweeper) {
		s.do(func() { s.stuck = true })
		s.expiring(w, time.Millisecond)
		time.Sleep(time.Second)
		if n := s.counted(10 * time.Second); n > 250 {
			t.Errorf("%d inspections in 10 s", n)
		}

		s.do(func() { s.stuck = false })
		time.Sleep(time.Second)
		if _, n := s.worst(); n != 1 {
			t.Errorf("%d expired", n)
		}
	})
}
