package sim

import (
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// claim claims due notices in a shard of a side.
func (w *ferry) claim(t *rapid.T) {
	s := w.shores[rapid.IntRange(0, 1).Draw(t, "side")]
	x := s.stores[rapid.IntRange(0, 1).Draw(t, "instance")]
	lease := store.Lease{For: short}
	lasts := rapid.Bool().Draw(t, "lease lasts")
	if lasts {
		lease.For = long
	}
	w.claimIn(s, x, rapid.IntRange(0, x.Space().Places()-1).Draw(t, "place"), lease)
}

func (w *ferry) claimIn(s *shore, x *store.Store, place int, lease store.Lease) (n int) {
	w.serial++
	lease.Token = "t" + strconv.Itoa(w.serial)
	got, err := x.Sweep(w.ctx, keys.Partition{Prefix: prefix, Shard: place}, lease, store.SweepOptions{Limit: 3})
	if err != nil {
		w.t.Fatalf("claim on %s: %v", s.name, err)
	}
	for _, c := range got.Won {
		k := slices.IndexFunc(w.facts[:], func(f condition) bool { return f.state != "" && c.Made == f.made })
		if k < 0 || w.key(k) != c.Key {
			w.t.Fatalf("%s made %d is claimed on %s, and is no notice", c.Key, c.Made, s.name)
		}
		f := &w.facts[k]
		w.say("key %d is claimed on %s by %s, the lease lasts %v", k, s.name, lease.Token, lease.For == long)
		if f.state != notice.Scheduled || f.far || f.held() {
			w.t.Fatalf("key %d is claimed on %s, and is %+v", k, s.name, *f)
		}
		if o := w.flying(s, place); o >= 0 && w.order != unordered {
			w.t.Fatalf("key %d is claimed on %s in shard %d, and key %d of its sequence is in flight there", k, s.name, place, o)
		}
		f.holder, f.lasts = lease.Token, lease.For == long
		f.lapses++
		w.jobs = append(w.jobs, &task{s, k, lease.Token, c.Made, c})
	}
	if lease.For == short {
		w.pass(s)
	}
	return len(got.Won)
}

// pass waits until short leases have ended.
func (w *ferry) pass(s *shore) {
	until := s.plain.Time(w.ctx).Val().Add(short + time.Millisecond)
	for s.plain.Time(w.ctx).Val().Before(until) {
		continue
	}
}

func (w *ferry) settle(t *rapid.T) {
	j := pick(t, "claim", w.jobs)
	ending := pick(t, "ending", []store.Ending{store.EndDelivered, store.EndRetry, store.EndDead})
	w.settleAs(j, ending, rapid.Bool().Draw(t, "in an hour"))
}

func (w *ferry) settleAs(j *task, ending store.Ending, far bool) {
	w.jobs = slices.DeleteFunc(w.jobs, func(o *task) bool { return o == j })
	f := &w.facts[j.key]
	n := *j.claim.Notice
	c := j.claim
	c.Notice = &n
	end := store.Settlement{Claim: c, Ending: ending}
	if ending == store.EndRetry && far {
		end.After = long
	}
	if ending == store.EndDead {
		n.Reason = notice.ReasonGone
	}
	x := j.on.stores[0]
	w.say("key %d is settled on %s by %s: %s, in an hour %v", j.key, j.on.name, j.token, ending, far)
	out, err := x.Settle(w.ctx, c.Partition(), []store.Settlement{end})
	if err != nil {
		w.t.Fatalf("settle key %d: %v", j.key, err)
	}
	// A lease that has ended counts as long as no other claim has been made.
	counts := f.state == notice.Scheduled && f.made == j.made && f.holder == j.token
	if out[0].Stale == counts {
		w.t.Fatalf("key %d is %+v; stale %v", j.key, *f, out[0].Stale)
	}
	if !counts {
		return
	}
	f.holder, f.lapses = "", 0
	switch ending {
	case store.EndDelivered:
		f.state = notice.Delivered
	case store.EndDead:
		f.state = notice.Dead
	default:
		f.far = far
	}
}

// die drops a claim, as the crash of its instance does.
func (w *ferry) die(t *rapid.T) {
	j := pick(t, "claim", w.jobs)
	if w.facts[j.key].held() && w.facts[j.key].holder == j.token {
		t.SkipNow() // the lease would hold the notice until the end of the run
	}
	w.say("%s dies with key %d", j.token, j.key)
	w.jobs = slices.DeleteFunc(w.jobs, func(o *task) bool { return o == j })
}

// flying returns the key of a notice that has a lasting claim in a shard of a side, or -1.
func (w *ferry) flying(s *shore, place int) int {
	for _, j := range w.jobs {
		if f := w.facts[j.key]; j.on == s && j.claim.Shard == place && f.held() && f.holder == j.token {
			return j.key
		}
	}
	return -1
}
