package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// Where notices lie. In worlds of reshards there are ever more places, and a notice
// lies in one of them, or is on its way from one to another.

// survey reads all places: of each what it knows, what is on its way out of it, and
// each key.
var survey = redis.NewScript(`
local call, reply = redis.call, {}
local places, prefix = tonumber(ARGV[1]), ARGV[2]
for p = 1, places do
  local base = 'notifier:{' .. ARGV[2 + p] .. '}:'
  local moving = call('HGET', base .. 'moving', '') or ''
  local tag = string.match(moving, '^%d+ (%S+) ')
  local last = tag and string.match(call('HGET', 'notifier:{' .. tag .. '}:layout', 'from ' .. ARGV[2 + p]) or '0', '^%d+') or '0'
  local row = {call('HGET', base .. 'layout', 'places') or call('HGET', base .. 'layout', 'shards') or '', moving, last,
    call('ZCARD', base .. 'shadow:' .. prefix) + call('ZCARD', base .. 'dead:' .. prefix) + call('ZCARD', base .. 'settled:' .. prefix),
    call('HLEN', base .. 'records:' .. prefix)}
  for i = 3 + places, #ARGV do
    local key = ARGV[i]
    row[#row + 1] = {call('HGET', base .. 'records:' .. prefix, key) or '', call('ZSCORE', base .. 'shadow:' .. prefix, key) or '',
      call('ZSCORE', base .. 'dead:' .. prefix, key) or '', call('ZSCORE', base .. 'settled:' .. prefix, key) or '',
      call('GET', base .. 'claim:' .. key) or '', call('PEXPIRETIME', key), moving ~= '' and call('HGET', base .. 'moving', key) or ''}
  end
  reply[p] = row
end
return reply`)

// surveyed is what was seen of all places.
type surveyed struct {
	space  keys.Space // as notifier:meta has it
	places []place
	rows   [keyCount][]any // of each key: record, score in shadow, dead and settled, claim, expiry
	lies   [keyCount]spot
}

// spot is where a notice is.
type spot struct {
	place int  // -1 = nowhere
	away  bool // it has left its place, on its way
	to    int
}

// place is what stands in one.
type place struct {
	knows            int // how many places there are
	number, to       int // of the batch on its way; number 0 = none
	arrived          bool
	entries, records int64
}

// at is what stands in a place, which Redis may have forgotten.
func (s *surveyed) at(p int) place {
	if p >= len(s.places) {
		return place{to: -1}
	}
	return s.places[p]
}

// survey looks at all places.
func (w *world) survey() *surveyed {
	s := &surveyed{space: w.space()}
	args := []any{s.space.Places(), prefix}
	for p := range s.space.Places() {
		args = append(args, s.space.Tag(p))
	}
	for k := range w.notes {
		args = append(args, key(k))
	}
	v, err := survey.Run(w.ctx, w.plain, nil, args...).Slice()
	if err != nil {
		w.t.Fatalf("look at all places: %v", err)
	}
	for k := range s.lies {
		s.lies[k].place = -1
	}
	for i, x := range v {
		row := x.([]any)
		p := place{to: -1, entries: row[3].(int64), records: row[4].(int64)}
		p.knows, _ = strconv.Atoi(row[0].(string))
		if head := strings.Fields(row[1].(string)); len(head) > 1 {
			p.number, _ = strconv.Atoi(head[0])
			p.to = s.space.Place(head[1])
			last, _ := strconv.Atoi(row[2].(string))
			p.arrived = last >= p.number
		}
		s.places = append(s.places, p)
		for k := range w.notes {
			r := row[5+k].([]any)
			here := fmt.Sprint(r[0], r[1], r[2], r[3]) != ""
			if here && s.lies[k].place >= 0 {
				w.t.Fatalf("key %d lies in place %d and in place %d", k, s.lies[k].place, i)
			}
			if !here && r[4] != "" {
				w.t.Fatalf("key %d is claimed in place %d, and does not lie there", k, i)
			}
			if here {
				s.lies[k], s.rows[k] = spot{place: i}, r[:6]
			}
		}
	}
	for i, p := range s.places {
		if p.number == 0 || p.arrived {
			continue
		}
		for k := range w.notes {
			r := v[i].([]any)[5+k].([]any)
			what := r[6].(string)
			if what == "" {
				continue
			}
			if s.lies[k].place >= 0 {
				w.t.Fatalf("key %d is on its way from place %d to %d, and lies in place %d", k, i, p.to, s.lies[k].place)
			}
			parts := strings.SplitN(what, " ", 4)
			for j := range parts {
				if parts[j] == "-" {
					parts[j] = ""
				}
			}
			s.lies[k] = spot{i, true, p.to}
			s.rows[k] = []any{parts[3], parts[0], parts[1], parts[2], "", r[5]}
		}
	}
	for k := range s.rows {
		if s.rows[k] == nil {
			left := v[0].([]any)[5+k].([]any)[5]
			s.rows[k] = []any{"", "", "", "", "", left}
		}
	}
	return s
}

// space is what notifier:meta says, by what was announced.
func (w *world) space() keys.Space {
	meta, err := w.plain.HGetAll(w.ctx, space.Meta()).Result()
	if err != nil {
		w.t.Fatalf("read notifier:meta: %v", err)
	}
	now := keys.Space{Namespace: space.Namespace, Shards: 1}
	if meta["shards"] != "" {
		now.Shards, _ = strconv.Atoi(meta["shards"])
	}
	if meta["tags"] != "" {
		now.Tags = strings.Split(meta["tags"], ",")
	}
	if meta["former"] != "" {
		now.Former = strings.Split(meta["former"], ",")
		now.Replaced, _ = keys.ParseCounts(meta["replaced"])
	}
	if known := w.layouts[len(w.layouts)-1]; !known.Same(now) {
		if !known.Grows(now) {
			w.t.Fatalf("%+v was put in the place of %+v", now, known)
		}
		w.layouts = append(w.layouts, now)
	}
	return now
}

// layoutOf is the layout with so many places.
func (w *world) layoutOf(places int) (keys.Space, bool) {
	for _, l := range w.layouts {
		if l.Places() == places {
			return l, true
		}
	}
	return keys.Space{}, false
}

// relocate writes into the model where the notices lie now. Notices are moved at any
// time, but only from a former place to a shard, and only what is neither claimed nor
// has lapsed; what is made is put into a shard, or stays where it had been before.
// Amid a call what it is about may be nowhere.
func (w *world) relocate(amid bool) *surveyed {
	s := w.survey()
	for k := range w.notes {
		n, is := &w.notes[k], s.lies[k]
		was := spot{n.place, n.away, n.to}
		switch {
		case n.state == "" && is.place >= 0 && !amid:
			w.t.Fatalf("key %d must be nothing; it lies in place %d, on its way %v", k, is.place, is.away)
		case n.state == "" || is.place < 0 && amid:
			n.fresh = false
			continue
		case is.place < 0:
			w.t.Fatalf("key %d must be %s; it lies nowhere", k, n)
		case n.fresh && !w.mayBeMade(k, s, was), !n.fresh && is != was && !w.mayGo(k, was, is):
			w.t.Fatalf("key %d, %s, was in %+v and is in %+v; made now %v; the shards are %+v", k, n, was, is, n.fresh, s.space)
		case is.away && n.lapses > 0:
			w.t.Fatalf("key %d, %s, is on its way", k, n)
		}
		n.place, n.away, n.to, n.fresh = is.place, is.away, is.to, false
	}
	w.knew = w.knew[:0]
	for _, p := range s.places {
		w.knew = append(w.knew, p.knows)
	}
	return s
}

// mayBeMade: a notice that was made now lies in the shard of its key, by what its place
// knew before or knows now, or where the one that it replaced was, or was going to.
func (w *world) mayBeMade(k int, s *surveyed, was spot) bool {
	is := s.lies[k]
	if is.away {
		return false
	}
	if was.place >= 0 && (is.place == was.place && !was.away || was.away && is.place == was.to) {
		return true
	}
	counts := []int{s.places[is.place].knows}
	if is.place < len(w.knew) {
		counts = append(counts, w.knew[is.place])
	}
	for _, n := range counts {
		if l, ok := w.layoutOf(n); ok && is.place == l.Shard(key(k)) {
			return true
		}
	}
	return false
}

// mayGo: a notice goes from a place that is a shard no more to the shard of its key in
// a later layout.
func (w *world) mayGo(k int, was, is spot) bool {
	from, now := was.place, w.layouts[len(w.layouts)-1]
	if was.away && (is == spot{was.to, false, 0}) {
		return true // it has arrived
	}
	if was.away {
		from = was.to
	}
	if from >= now.First() || w.notes[k].lapses > 0 {
		return false
	}
	target := is.place
	if is.away {
		if target = is.to; is.place != from && !w.shardOnce(k, is.place, from) {
			return false
		}
	}
	return w.shardOnce(k, target, from)
}

// shardOnce: a place behind from is, or was, the shard of a key.
func (w *world) shardOnce(k, place, from int) bool {
	return place > from && slices.ContainsFunc(w.layouts, func(l keys.Space) bool { return l.Shard(key(k)) == place })
}

// lookEverywhere compares all places with the model.
func (w *world) lookEverywhere() {
	w.steps++
	s := w.relocate(false)
	kept := int64(0)
	for k := range w.notes {
		n := &w.notes[k]
		if n.state != "" && !n.away {
			kept++
		}
		w.compare(k, n, s.rows[k])
	}
	entries, records := int64(0), int64(0)
	for _, p := range s.places {
		entries, records = entries+p.entries, records+p.records
	}
	if entries != kept || records != kept {
		w.t.Fatalf("%d entries and %d records stand in Redis, want %d", entries, records, kept)
	}
	w.compareFormers()
	w.compareEndings()
	w.compareList()
}

// seen is what tells whether a call on a key has done something: its record, its state
// and when it needs attention, wherever it lies. It is waited for the next millisecond,
// so that another score is another one.
func (w *world) seen(k int) string {
	w.pass(w.clock())
	if w.kind == reshards {
		row := w.survey().rows[k]
		return seenAs(row[0].(string), row[1].(string), row[2].(string), row[3].(string))
	}
	all := nowhere
	for _, under := range w.under {
		p := at(under)
		score := func(name string) string {
			x, err := w.plain.ZScore(w.ctx, name, key(k)).Result()
			if err != nil {
				return ""
			}
			return strconv.FormatFloat(x, 'f', -1, 64)
		}
		if s := seenAs(w.plain.HGet(w.ctx, space.Records(p), key(k)).Val(), score(space.Shadow(p)), score(space.Dead(p)),
			score(space.Settled(p))); s != nowhere {
			all = under + " " + s
		}
	}
	return all
}

// nowhere is seen where there is no notice.
const nowhere = " - - -"

func seenAs(record string, scores ...string) string {
	for _, text := range scores {
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			record += " " + strconv.FormatFloat(math.Floor(x), 'f', 0, 64)
		} else {
			record += " -"
		}
	}
	return record
}
