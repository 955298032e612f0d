package sim

import (
	"pgregory.net/rapid"

	"notifier/internal/jobs"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// forget ends the retention of a finalized notice.
func (w *ferry) forget(t *rapid.T) {
	k, f := w.drawKey(t)
	if f.state != notice.Delivered && f.state != notice.Cancelled || f.buried {
		t.SkipNow()
	}
	for _, s := range w.shores {
		x := s.stores[0]
		if d, err := (jobs.EraseStore{Store: x}).Delete(w.ctx, x.Space().Partition(prefix, w.key(k)), []string{w.key(k)}); err != nil {
			t.Fatal(err)
		} else if d.Deleted == 1 {
			w.say("key %d is forgotten on %s", k, s.name)
			*f = condition{}
			return
		}
	}
}

// trim ends the retention of the notices that a shard of a side has settled, and reports
// whether there were any. From then on a repeated call is recognised by the tombstone.
func (w *ferry) trim(t *rapid.T) bool {
	s := w.shores[rapid.IntRange(0, 1).Draw(t, "side")]
	x := s.stores[rapid.IntRange(0, 1).Draw(t, "instance")]
	place := rapid.IntRange(0, x.Space().Places()-1).Draw(t, "place")
	settled := x.Space().Settled(keys.Partition{Prefix: prefix, Shard: place})
	var trimmed []int
	for k := range w.facts {
		if s.plain.ZScore(w.ctx, settled, w.key(k)).Err() == nil {
			trimmed = append(trimmed, k)
		}
	}
	if len(trimmed) == 0 {
		return false
	}
	w.say("the keys %v are trimmed on %s", trimmed, s.name)
	if _, _, err := x.Trim(w.ctx, place, []store.Trim{{Prefix: prefix}}, 1000); err != nil {
		t.Fatalf("trim on %s: %v", s.name, err)
	}
	for _, k := range trimmed {
		w.facts[k] = condition{state: notice.Settled, made: w.facts[k].made, buried: true}
	}
	return true
}

// recognises fails unless a repeated schedule call is answered with the notice that was trimmed.
func (w *ferry) recognises(s *shore, k int) {
	x, r := s.stores[1], store.Request{Key: w.key(k), Content: notice.Content{Body: []byte("1")}}
	out, err := x.Schedule(w.ctx, x.Space().Partition(prefix, r.Key), []store.Request{r})
	if err != nil || out[0].Err != nil || out[0].State != notice.Settled || out[0].Made != w.facts[k].made {
		w.t.Fatalf("a repeated call for key %d is answered %+v on %s, %v; want %+v", k, out, s.name, err, w.facts[k])
	}
}
