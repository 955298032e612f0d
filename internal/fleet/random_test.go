package fleet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// No instance that had a connection within its takeover is declared dead. In the end all views
// agree, and killed instances are dead.
func TestFleetConvergesAfterRandomFaults(t *testing.T) {
	type step struct{ what, who, wait int }
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.IntRange(2, 5).Draw(rt, "instances")
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{rapid.IntRange(0, 7).Draw(rt, "what"), rapid.IntRange(0, count-1).Draw(rt, "who"), rapid.IntRange(1, 6000).Draw(rt, "wait")}
		}), 1, 12).Draw(rt, "steps")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			n := newNode()
			ps := make([]*player, count)
			resumes := map[int]func(){}
			killed, cut, resumed := map[int]bool{}, map[int]time.Time{}, map[int]time.Time{}
			// Without a heartbeat since it was stopped, an instance depends on its connection.
			silent := func(i int) bool { return resumes[i] != nil || time.Since(resumed[i]) <= 2*maxInterval }
			dead := map[string]bool{}
			may := map[string]bool{} // ids that may be declared dead
			untold := 0
			for i := range ps {
				ps[i] = play(t, n)
			}
			time.Sleep(5 * time.Second)
			for _, s := range steps {
				p := ps[s.who]
				switch {
				case killed[s.who]:
				case s.what == 0:
					killed[s.who], may[p.ID()] = true, true
					// Without a connection at its last heartbeat an instance is not declared dead.
					n.do(func() {
						if dead[p.ID()] = n.heartbeats[p.ID()].Bound; !dead[p.ID()] {
							untold++
						}
					})
					if r := resumes[s.who]; r != nil {
						delete(resumes, s.who)
						p.seat.set(true)
						r()
					}
					p.kill()
				case s.what == 1 && resumes[s.who] == nil:
					resumes[s.who] = p.seat.stop()
					n.do(func() { may[p.ID()] = may[p.ID()] || n.connections(p.ID()) == 0 })
				case s.what == 2 && resumes[s.who] != nil:
					resumes[s.who]()
					delete(resumes, s.who)
					resumed[s.who] = time.Now()
				case s.what == 3:
					n.cut(p.seat) // its connection alone
					if silent(s.who) {
						may[p.ID()] = true
					}
				case s.what == 4:
					p.seat.set(true)
					n.cut(p.seat)
					cut[s.who] = time.Now()
					may[p.ID()] = true
				case s.what == 5:
					p.seat.set(false)
				case s.what == 6:
					n.do(func() { n.down = true })
					n.cut(nil)
					for i := range ps {
						may[ps[i].ID()] = may[ps[i].ID()] || silent(i)
					}
				case s.what == 7:
					n.do(func() { n.down = false })
				}
				time.Sleep(time.Duration(s.wait) * time.Millisecond)
			}
			for _, r := range resumes {
				r()
			}
			n.do(func() { n.down = false })
			live := 0
			for i, p := range ps {
				if !killed[i] {
					p.seat.set(false)
					live++
				}
			}
			time.Sleep(20 * time.Second)
			for i, p := range ps {
				if killed[i] {
					continue
				}
				heard := map[string]bool{}
				for _, id := range p.seen(&p.dead) {
					if heard[id] {
						wrong = append(wrong, "heard twice of "+id)
					}
					heard[id] = true
					if !may[id] {
						wrong = append(wrong, id+" was declared dead and had a connection")
					}
				}
				if s := p.Stats(); s.Alive != live || s.Unresponsive > untold {
					wrong = append(wrong, fmt.Sprintf("instance %d of %d alive: %+v", i, live, s))
				}
			}
			n.do(func() {
				for id := range dead {
					if _, ok := n.ended[id]; live > 0 && dead[id] && !ok {
						wrong = append(wrong, id+" was killed and is not gone")
					}
				}
			})
			for i, p := range ps {
				if !killed[i] {
					p.end()
					<-p.done
				}
			}
		})
		if len(wrong) > 0 {
			rt.Fatalf("%d: %q", len(wrong), wrong)
		}
	})
}
