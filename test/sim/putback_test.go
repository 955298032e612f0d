package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"notifier/internal/jobs"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// In worlds of moves and of reshards, exported notices are restored or replayed. Any
// instance does so, once or twice, in any later state of the notice. Finalized notices are
// erased early and Redis loses notices, so that there is something to restore.

// letter is an exported notice.
type letter struct {
	store.Letter
	key, body, used int
	state           notice.State
	far             bool
	life            life
}

// replaying is the reference model of a replay: its progress in each shard.
type replaying struct {
	mark   string
	newIDs bool
	space  keys.Space // the layout at its start
	next   int        // the number of the next item
	last   map[int]int
}

func (w *world) putBackActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"write down": w.writeDown,
		"put back":   w.putBack,
		"replay":     w.replay,
		"forget":     w.forget,
		"end dead":   w.endDead,
		"purge":      w.purge,
	}
}

// writeDown exports a notice.
func (w *world) writeDown(t *rapid.T) {
	k, n := w.draw(t)
	if n.state == "" {
		t.SkipNow()
	}
	w.note(t, k)
}

// note reads a notice as an export does, and keeps the last six.
func (w *world) note(t *rapid.T, k int) {
	in, n := w.any(t), &w.notes[k]
	f, err := in.store.Find(w.ctx, in.route(), w.key(k))
	if err != nil || f.Made != n.made {
		t.Fatalf("find key %d, %s: %v", k, n, err)
	}
	w.say("key %d, %s, is written down", k, n)
	x := *f.Notice
	x.AwaitsReport = false
	l := letter{Letter: store.Letter{Notice: &x}, key: k, body: n.body, used: n.used, state: f.State, far: n.far, life: n.life}
	if f.State == notice.Dead {
		l.Died = f.SettledAt
	}
	if w.letters = append(w.letters, l); len(w.letters) > 6 {
		w.letters = slices.Clone(w.letters[1:])
	}
}

// endDead settles a claim as dead, a rare outcome otherwise.
func (w *world) endDead(t *rapid.T) {
	in, j := w.job(t, func(j *job) bool {
		return j.stage == claimed && !j.awaits && j.used+j.lapses < maxAttempts && j.end == nil
	})
	w.endAsDead(t, in, j, drawFate(t))
}

func (w *world) endAsDead(t *rapid.T, in *instance, j *job, f fate) {
	j.stage = failed
	e := w.outcome(t, j)
	e.ending, e.notice.Reason = store.EndDead, notice.ReasonGone
	w.end(t, in, j, e, f)
}

// purge exports a dead letter and then cancels or purges it.
func (w *world) purge(t *rapid.T) {
	var dead []int
	for k := range w.notes {
		if w.notes[k].state == notice.Dead {
			dead = append(dead, k)
		}
	}
	k := pick(t, "dead letter", dead)
	w.note(t, k)
	w.amendTo(t, k, pick(t, "operation", []store.Amendment{store.Cancel, store.Purge}), now, drawFate(t))
}

// counted returns a notice with the number of outcomes that its history entries have.
func (w *world) counted(l *letter) *notice.Notice {
	x := *l.Notice
	last := w.numbers[fmt.Sprintf("%s %d", x.Key, x.Made)]
	if !l.Died.IsZero() {
		last--
	}
	x.Endings = max(x.Endings, last)
	return &x
}

// putBack restores an exported notice that was pending or dead.
func (w *world) putBack(t *rapid.T) {
	l := pick(t, "letter", slices.DeleteFunc(slices.Clone(w.letters), func(l letter) bool {
		return l.state != notice.Scheduled && l.state != notice.Claimed && l.state != notice.Dead
	}))
	w.putBackLetter(t, l, drawFate(t))
}

func (w *world) putBackLetter(t *rapid.T, l letter, f fate) {
	in, n := w.any(t), &w.notes[l.key]
	w.pass(w.claimedAt) // in the same ms it would have the score that a claim found
	back := l.Letter
	if n.state == "" || rapid.Bool().Draw(t, "the history is asked") {
		back.Notice = w.counted(&l)
	}
	dead := !l.Died.IsZero()
	w.say("key %d, body %d, is put back%s as %s; there is %s%s", l.key, l.body, w.by(in), l.state, n, f)
	before := w.seen(l.key)
	w.lose(t, f)
	out, err := in.store.Restore(w.ctx, w.partition(in, l.key), []store.Letter{back})
	if err == nil && !errors.Is(out[0].Err, store.ErrTaken) {
		err = out[0].Err
	}
	f = w.left(f)
	same := n.made == l.Made
	puts := n.state == "" || dead && n.state == notice.Cancelled && same && n.under == in.route()
	there := n.state != "" && (dead && n.state == notice.Dead && same || !dead && (same || n.body == l.body))
	if w.sent(f, err) {
		if r := out[0]; r.Created != puts || errors.Is(r.Err, store.ErrTaken) != (!puts && !there) || r.Err != nil &&
			!errors.Is(r.Err, store.ErrTaken) {
			t.Fatalf("put back where %s is: created %v, %v", n, r.Created, r.Err)
		}
	} else if now := w.seen(l.key); now == before || now == nowhere {
		if now == nowhere {
			w.gone(l.key) // the old notice was removed, and the new one not created
		}
		return
	}
	if !puts {
		return
	}
	*n = note{under: in.route(), body: l.body, made: l.Made, used: l.used, writes: n.writes + 1, stands: n.stands, place: n.place,
		away: n.away, to: n.to, fresh: true, life: l.life}
	defer func() { w.restored(&l) }()
	switch {
	case dead:
		n.state = notice.Dead
	case l.far:
		n.schedule(&w.scores, later)
	default:
		n.schedule(&w.scores, now)
	}
}

// restored records the position of a restored notice.
func (w *world) restored(l *letter) {
	if n := &w.notes[l.key]; n.pending() || w.order == block {
		w.keep(l.key, l.Due.UnixMilli())
		w.wake(n.at())
	}
}

// replay schedules an exported notice again, as the next item of a replay or as a repeated
// one. A real replay chooses finalized notices. Here the notice may have any state, which
// covers more combinations.
func (w *world) replay(t *rapid.T) {
	l := pick(t, "letter", w.letters)
	in, n := w.any(t), &w.notes[l.key]
	if len(w.replays) == 0 || len(w.replays) < 3 && rapid.IntRange(0, 9).Draw(t, "another") == 9 {
		w.serial++
		w.replays = append(w.replays, &replaying{mark: "r" + strconv.Itoa(w.serial), newIDs: rapid.Bool().Draw(t, "new ids"),
			space: in.store.Space().Now(),
			next:  1, last: map[int]int{}})
	}
	r := pick(t, "replay", w.replays)
	number := r.next
	if number > 1 && rapid.IntRange(0, 2).Draw(t, "again") == 0 {
		number--
	}
	r.next = number + 1
	x, f, shard := drawWhen(t), drawFate(t), r.space.Shard(w.key(l.key))
	item := w.counted(&l)
	item.Expires, item.ExpiresAfter = time.Time{}, 0 // as the service replays
	item.Route, item.AttemptsMade, item.Redriven, item.Attempts, item.Reason, item.Replay = in.route(), l.used, l.used, nil, "", r.mark
	if !l.Died.IsZero() {
		item.Endings++
	}
	used := l.used
	if r.newIDs {
		used, item.AttemptsMade, item.Redriven, item.Endings = 0, 0, 0, 0
	}
	w.pass(w.claimedAt)
	w.say("key %d, body %d, is item %d of replay %s%s, due %s; there is %s%s", l.key, l.body, number, r.mark, w.by(in), x, n, f)
	before, knew := w.seen(l.key), in.store.Space().Places()
	w.wire.lose(f)
	if w.kind == reshards && f != arrives {
		w.wire.loseAfter(rapid.IntRange(0, 2).Draw(t, "of script"), f)
	}
	out, err := jobs.ReplayStore{Store: in.store}.Replay(w.ctx, jobs.Part{Mark: r.mark, Shard: shard, NewIDs: r.newIDs},
		[]jobs.Item{{Number: int64(number), Notice: item, Delay: x.delay()}})
	f = w.left(f)
	if shard < max(w.space().First(), in.store.Space().First()) && f == arrives && err != nil { // the shard is an old one now
		w.wire.lose(arrives)
		if !errors.Is(err, wire.ErrUnavailable) || w.seen(l.key) != before {
			t.Fatalf("the item's shard is an old one: %v (%d places were known); the key is %s, was %s", err, knew,
				w.seen(l.key), before)
		}
		return
	}
	want, same := jobs.Sent, n.made == l.Made
	switch {
	case number <= r.last[shard]:
		want = ""
	case n.pending():
		want = "pending"
	case n.state == notice.Dead && !same:
		want = "dead"
	case n.state == notice.Cancelled && same:
		want = "cancelled"
	}
	if w.sent(f, err) {
		if out[0].Result != want {
			t.Fatalf("item %d where %s is: %q, want %q", number, n, out[0].Result, want)
		}
		r.last[shard] = max(r.last[shard], number)
	} else {
		last, _ := w.plain.HGet(w.ctx, r.space.Replay(shard, r.mark), "last").Int()
		done := last >= number && r.last[shard] < number
		if r.last[shard] = max(r.last[shard], last); !done {
			if w.seen(l.key) == nowhere && want == jobs.Sent {
				w.gone(l.key)
			}
			return
		}
	}
	if want != jobs.Sent {
		return
	}
	stays := ""
	if n.state == notice.Dead && w.order == block {
		stays = n.position
	}
	*n = note{under: in.route(), body: l.body, made: l.Made, used: used, writes: n.writes + 1, stands: n.stands, place: n.place, away: n.away,
		to: n.to, fresh: true}
	was := n.at()
	n.schedule(&w.scores, x)
	if made := w.madeOf(l.key); r.newIDs {
		n.made = made
	}
	if n.position = stays; stays == "" {
		w.join(l.key, 0, 1)
	} else if w.kind == reshards {
		w.relocate(w.within)
	}
	w.wake(was)
	w.wake(n.at())
	if x == soon {
		w.passShort()
	}
	n.far = x == later
}

// forget erases a finalized notice, or has Redis lose a notice in any state.
func (w *world) forget(t *rapid.T) {
	k, n := w.draw(t)
	if n.state == "" || n.away {
		t.SkipNow()
	}
	if w.order == unordered && rapid.Bool().Draw(t, "is lost") {
		w.say("key %d, %s, is lost by Redis", k, n)
		p, s := n.at(), w.layouts[len(w.layouts)-1]
		_, err := w.plain.TxPipelined(w.ctx, func(c redis.Pipeliner) error {
			c.HDel(w.ctx, s.Records(p), w.key(k))
			for _, name := range []string{s.Shadow(p), s.Dead(p), s.Settled(p), s.Expiring(p)} {
				c.ZRem(w.ctx, name, w.key(k))
			}
			c.Del(w.ctx, s.ClaimPrefix(p.Shard)+w.key(k), w.key(k))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.gone(k)
		return
	}
	w.erase(t, k, drawFate(t))
}

// erase erases key k's notice, unless it is pending.
func (w *world) erase(t *rapid.T, k int, f fate) {
	n := &w.notes[k]
	in := pick(t, "instance", w.serving(n))
	w.say("key %d, %s, is erased by %s%s", k, n, in.id, f)
	w.wire.lose(f)
	d, err := (jobs.EraseStore{Store: in.store}).Delete(w.ctx, n.at(), []string{w.key(k)})
	if w.sent(f, err) && (d.Pending == 1) != n.pending() || err == nil && d.Deleted+d.Pending+len(d.Absent) != 1 || len(d.Absent) > 0 {
		t.Fatalf("forget %s: %+v", n, d)
	}
	if p := n.at(); f != requestLost && !n.pending() {
		w.gone(k)
		w.wake(p)
	}
}
