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

// In worlds of reshards the number of places grows. A notice is in one place, or exported
// from one place to another.

// survey reads all places: the layout that each knows, its exported batch, and each key.
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

// surveyed is the state of all places.
type surveyed struct {
	space  keys.Space // of notifier:meta
	places []place
	rows   [mostKeys][]any // of each key: record, score in shadow, dead and settled, claim, expiry
	lies   [mostKeys]spot
	goes   [mostKeys]string // the positions of exported notices
}

// spot is the position of a notice.
type spot struct {
	place int  // -1 = nowhere
	away  bool // it is exported from place
	to    int
}

// place is the state of one place.
type place struct {
	knows            int // the number of places in its copy of the layout
	number, to       int // of the exported batch; number 0 = none
	arrived          bool
	entries, records int64
}

// at returns the state of a place. It is empty if Redis has lost the place.
func (s *surveyed) at(p int) place {
	if p >= len(s.places) {
		return place{to: -1}
	}
	return s.places[p]
}

// survey reads all places, and fails if a notice is in two of them.
func (w *world) survey() *surveyed {
	s := &surveyed{space: w.space()}
	args := []any{s.space.Places(), prefix}
	for p := range s.space.Places() {
		args = append(args, s.space.Tag(p))
	}
	for k := range w.notes {
		args = append(args, w.key(k))
	}
	v, err := survey.Run(w.ctx, w.plain, nil, args...).Slice()
	if err != nil {
		w.t.Fatalf("read all places: %v", err)
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
				w.t.Fatalf("key %d is in place %d and in place %d", k, s.lies[k].place, i)
			}
			if !here && r[4] != "" {
				w.t.Fatalf("key %d is claimed in place %d, which has no such notice", k, i)
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
				w.t.Fatalf("key %d is exported from place %d to %d, and also in place %d", k, i, p.to, s.lies[k].place)
			}
			parts := strings.SplitN(what, " ", 4)
			parts[2], s.goes[k], _ = strings.Cut(parts[2], "@")
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

// space reads notifier:meta, and adds a new layout to the layouts of this run.
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
			w.t.Fatalf("the layout %+v does not follow %+v", now, known)
		}
		w.layouts = append(w.layouts, now)
	}
	return now
}

// layoutOf returns the layout with this number of places.
func (w *world) layoutOf(places int) (keys.Space, bool) {
	for _, l := range w.layouts {
		if l.Places() == places {
			return l, true
		}
	}
	return keys.Space{}, false
}

// relocate records the present place of each notice in the model, and fails if a change of
// place is not allowed. Notices may move at any time, but only from an old shard to a
// shard, and only without a claim or an expired lease. A new notice is in the shard of its
// key, or in the place of its predecessor. During a call (within), the notice of the call
// may be in no place.
func (w *world) relocate(within bool) *surveyed {
	s, changed := w.survey(), map[keys.Partition]bool{}
	for k := range w.notes {
		n, is := &w.notes[k], s.lies[k]
		was := spot{n.place, n.away, n.to}
		switch {
		case n.state == "" && is.place >= 0 && !within:
			w.t.Fatalf("key %d must not exist; it is in place %d, exported %v", k, is.place, is.away)
		case n.state == "" || is.place < 0 && within:
			n.fresh = false
			continue
		case is.place < 0:
			w.t.Fatalf("key %d must be %s; no place has it", k, n)
		case n.fresh && !w.mayBeMade(k, s, was), !n.fresh && is != was && !w.mayGo(k, was, is):
			w.t.Fatalf("key %d, %s, was in %+v and is in %+v; made now %v; the shards are %+v", k, n, was, is, n.fresh, s.space)
		case is.away && n.lapses > 0:
			w.t.Fatalf("key %d, %s, is exported", k, n)
		case is.away && s.goes[k] != n.position:
			w.t.Fatalf("key %d, %s, is exported with the position %q, want %q", k, n, s.goes[k], n.position)
		}
		if is != was && !n.fresh {
			w.moved(k)
			changed[n.at()], changed[keys.Partition{Prefix: n.under, Shard: is.place}] = true, true
		}
		n.place, n.away, n.to, n.fresh = is.place, is.away, is.to, false
	}
	for p := range changed {
		w.wake(p)
	}
	w.knew = w.knew[:0]
	for _, p := range s.places {
		w.knew = append(w.knew, p.knows)
	}
	return s
}

// mayBeMade reports whether a new notice may be in its place. The place is the shard of the
// key, by the layout that the place knew before or knows now. Or it is the place that the
// replaced notice had, or was exported to.
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
		if l, ok := w.layoutOf(n); ok && is.place == l.Shard(w.key(k)) {
			return true
		}
	}
	return false
}

// mayGo reports whether a notice may move from was to is: from an old shard to the shard of
// its key in a later layout.
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

// shardOnce reports whether a place newer than from is, or was, the shard of a key.
func (w *world) shardOnce(k, place, from int) bool {
	return place > from && slices.ContainsFunc(w.layouts, func(l keys.Space) bool { return l.Shard(w.key(k)) == place })
}

// comparePlaces compares all places with the model.
func (w *world) comparePlaces() {
	w.steps++
	s := w.relocate(false)
	w.checkSequences()
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
		w.t.Fatalf("Redis has %d entries and %d records, want %d", entries, records, kept)
	}
	w.compareOldShards()
	w.compareEndings()
	w.compareDeaths()
	w.compareList()
}

// seen returns a text that changes when a call changes a key: its record, state and score,
// in any place. It first waits for the next millisecond, so that a new score differs.
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
			x, err := w.plain.ZScore(w.ctx, name, w.key(k)).Result()
			if err != nil {
				return ""
			}
			return strconv.FormatFloat(x, 'f', -1, 64)
		}
		if s := seenAs(w.plain.HGet(w.ctx, space.Records(p), w.key(k)).Val(), score(space.Shadow(p)), score(space.Dead(p)),
			score(space.Settled(p))); s != nowhere {
			all = under + " " + s
		}
	}
	return all
}

// nowhere is the result of seen for a key without a notice.
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
