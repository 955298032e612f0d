package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// In a world of sequences, and in some runs of the other worlds, the routes are ordered and all keys
// have one order key. So the notices of one prefix and place are a sequence. The model predicts which
// claim is won and which notice is parked. After each step all members, positions, parked notices and
// the marker in Redis are compared with the model.
//
// A reshard and a move to another prefix may change the order, because a notice stays behind whose claim
// has not ended. There, the sequence of each place is in order.

// order is the setting of all routes of a run.
type order string

const (
	unordered order = ""
	skip      order = "skip"  // a dead letter leaves its sequence
	block     order = "block" // a dead letter holds back its successors
)

// drawOrder draws the order of a run's routes.
func (w *world) drawOrder(t *rapid.T) {
	orders := map[kind][]order{onePrefix: {unordered}, sequences: {skip, block}}[w.kind]
	if orders == nil {
		orders = []order{unordered, skip, block}
	}
	if w.order = pick(t, "order", orders); w.order == unordered {
		return
	}
	w.keyCount = mostKeys
	var members []string
	for _, p := range w.under {
		members = append(members, p)
		if w.order == block {
			members = append(members, p+store.Blocks)
		}
	}
	if err := w.store.Layout.AddOrdered(w.ctx, members); err != nil {
		t.Fatal(err)
	}
	w.say("the routes are ordered, dead letters: %s", w.order)
}

// flight is the marker of a sequence: the notice in flight, and its claim.
type flight struct {
	key   int
	token string
}

func (w *world) sequencesActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"pile up":     w.pileUp,
		"kill head":   w.killHead,
		"overtake":    w.overtake,
		"park one":    w.parkOne,
		"change head": w.changeHead,
		"last ms":     w.inLastMillisecond,
	}
}

// pileUp schedules two notices and claims both, so that the second one is parked behind the first, which
// is in flight or has failed.
func (w *world) pileUp(t *rapid.T) {
	k, claimed := w.pile(t)
	if rapid.Bool().Draw(t, "stays in flight") || !claimed {
		return
	}
	if rapid.Bool().Draw(t, "fails") {
		w.retries(t, k)
		return
	}
	w.dies(t, k)
}

// killHead has a notice die before which another one is parked, and then changes the dead letter.
func (w *world) killHead(t *rapid.T) {
	if w.order != block {
		t.SkipNow()
	}
	k, claimed := w.pile(t)
	if !claimed {
		return
	}
	w.dies(t, k)
	then := 0
	for _, bit := range rapid.SliceOfN(rapid.Bool(), 3, 3).Draw(t, "then") { // IntRange prefers its bounds
		then *= 2
		if bit {
			then++
		}
	}
	switch then {
	case 1:
		w.amendTo(t, k, store.Redrive, drawWhen(t), arrives)
	case 2, 6:
		w.erase(t, k, arrives)
	case 4:
		w.amendTo(t, k, store.Purge, now, arrives)
	case 5, 7:
		w.look()
		w.readToResend(t, k)
		w.resendRead(t, w.resends[len(w.resends)-1])
	case 3:
		if w.kind.putsBack() {
			w.note(t, k)
			w.amendTo(t, k, store.Cancel, now, arrives)
			w.look() // notes the numbers of the outbox
			w.putBackLetter(t, w.letters[len(w.letters)-1], arrives)
		}
	}
}

// pile schedules two notices and claims both. It returns the first one, and whether it is claimed.
func (w *world) pile(t *rapid.T) (k int, claimed bool) {
	in := pick(t, "instance", w.instances)
	ks := rapid.SliceOfNDistinct(rapid.IntRange(0, w.keyCount-1), 2, 2, rapid.ID[int]).Draw(t, "keys")
	if w.order == block && rapid.Bool().Draw(t, "alone") {
		for k := range w.notes { // dead letters hold back most sequences
			if n := &w.notes[k]; n.position != "" && !n.away {
				w.amendTo(t, k, store.Cancel, now, arrives)
			}
		}
	}
	for _, k := range ks {
		w.bodies++
		w.send(t, in, k, store.Request{Key: w.key(k), OnDuplicate: store.Replace,
			Content: notice.Content{Body: []byte(strconv.Itoa(w.bodies))}}, "schedules", arrives)
	}
	c := w.newCall(t, in)
	c.under, c.place, c.keys, c.lasts = in.route(), w.notes[ks[0]].place, ks, true
	w.makeClaim(t, in, c, "claims", arrives)
	return ks[0], w.notes[ks[0]].holder == c.token
}

// overtake exports and removes a due notice, claims another one, and restores the first one, whose position is
// earlier. The lease of the other one has ended, or it is in flight and not the head any more.
func (w *world) overtake(t *rapid.T) {
	k, n := w.draw(t)
	_, flies := w.flights[n.at()]
	if flies || !w.kind.putsBack() || w.kind == reshards || n.public() != notice.Scheduled || n.far {
		t.SkipNow()
	}
	w.note(t, k)
	l := w.letters[len(w.letters)-1]
	w.amendTo(t, k, store.Cancel, now, arrives)
	w.erase(t, k, arrives)
	for o := range w.notes { // so that the next one is the head
		if w.member(o, w.notes[k].at()) {
			w.amendTo(t, o, store.Cancel, now, arrives)
		}
	}
	in, other := pick(t, "instance", w.instances), (k+1)%w.keyCount
	w.bodies++
	w.send(t, in, other, store.Request{Key: w.key(other), OnDuplicate: store.Replace,
		Content: notice.Content{Body: []byte(strconv.Itoa(w.bodies))}}, "schedules", arrives)
	c := w.newCall(t, in)
	c.under, c.keys, c.lasts = in.route(), []int{other}, rapid.Bool().Draw(t, "stays in flight")
	f := arrives
	if c.lasts && rapid.Bool().Draw(t, "the reply is lost") {
		f = replyLost
	}
	w.makeClaim(t, in, c, "claims", f)
	w.look()
	w.putBackLetter(t, l, arrives)
	if c.lasts {
		w.behind(t, in, c, other)
		return
	}
	if n = &w.notes[other]; n.position == "" || !n.claimable() || n.lapses == 0 {
		return
	}
	c = w.newCall(t, in)
	c.under, c.keys = n.under, []int{other}
	w.makeClaim(t, in, c, "claims", arrives)
	if rapid.Bool().Draw(t, "is cancelled") {
		w.amendTo(t, k, store.Cancel, now, arrives)
	}
}

// behind does what must not let another notice start while key k's is in flight behind the head of its sequence.
func (w *world) behind(t *rapid.T, in *instance, c call, k int) {
	if n := &w.notes[k]; n.holder != c.token || !n.held() {
		return
	}
	if len(in.called) > 0 && in.called[len(in.called)-1].token == c.token {
		in.called = in.called[:len(in.called)-1]
		w.makeClaim(t, in, c, "claims again", arrives)
		return
	}
	switch rapid.IntRange(0, 3).Draw(t, "then") {
	case 0:
		w.dead = append(w.dead, in.id)
		w.say("%s dies", in.id)
		*in = *w.newInstance(t)
		w.reclaim(t, in, w.dead[len(w.dead)-1], arrives)
	case 1:
		by, j := w.flying(t, k)
		w.handOver(t, by, j, arrives)
	case 2:
		w.inLastMillisecond(t)
	}
}

// parkOne claims a due notice that another one of its sequence holds back.
func (w *world) parkOne(t *rapid.T) {
	var held []int
	for k := range w.notes {
		if n := &w.notes[k]; n.claimable() && w.blocked(k, n.at(), "") {
			held = append(held, k)
		}
	}
	k := pick(t, "held back", held)
	n := &w.notes[k]
	in := pick(t, "instance", w.serving(n))
	c := w.newCall(t, in)
	c.under, c.place, c.keys = n.under, n.place, []int{k}
	w.makeClaim(t, in, c, "claims", arrives)
}

// changeHead changes the head of a sequence in which a notice is parked.
func (w *world) changeHead(t *rapid.T) {
	var heads []int
	for k := range w.notes {
		if n := &w.notes[k]; n.waits && w.head(n.at()) >= 0 && w.head(n.at()) != k {
			heads = append(heads, w.head(n.at()))
		}
	}
	k := pick(t, "head", heads)
	ops := map[notice.State][]store.Amendment{notice.Dead: {store.Cancel, store.Purge, store.Redrive, "replace", "erase"},
		notice.Claimed: {store.Cancel, "replace", "die"}, notice.Scheduled: {store.Cancel, store.Reschedule, "replace"}}
	switch op := pick(t, "operation", ops[w.notes[k].public()]); op {
	case "die":
		w.dies(t, k)
	case "erase":
		w.erase(t, k, arrives)
	case "replace":
		w.bodies++
		w.send(t, w.any(t), k, store.Request{Key: w.key(k), Delay: drawWhen(t).delay(), OnDuplicate: store.Replace,
			Content: notice.Content{Body: []byte(strconv.Itoa(w.bodies))}}, "schedules", arrives)
	default:
		w.amendTo(t, k, op, drawWhen(t), arrives)
	}
}

// inLastMillisecond has an instance claim a notice in flight as in the last millisecond of its lease: the
// claim has not expired yet, and the score is not in the future any more. The notice is not parked.
func (w *world) inLastMillisecond(t *rapid.T) {
	var flying []int
	for k := range w.notes {
		if n := &w.notes[k]; n.held() && n.lasts {
			flying = append(flying, k)
		}
	}
	k := pick(t, "in flight", flying)
	n := &w.notes[k]
	in := pick(t, "instance", w.serving(n))
	shadow := w.layouts[len(w.layouts)-1].Shadow(n.at())
	score := func(to float64) {
		if err := w.plain.ZAdd(w.ctx, shadow, redis.Z{Score: to, Member: w.key(k)}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	was, err := w.plain.ZScore(w.ctx, shadow, w.key(k)).Result()
	if err != nil {
		t.Fatalf("key %d, %s, has no score: %v", k, n, err)
	}
	c := w.newCall(t, in)
	w.say("%s claims key %d in the last ms of its lease", in.id, k)
	score(was - 2*float64(long.Milliseconds()))
	got, err := in.store.ClaimKeys(w.ctx, n.at(), c.lease(), []string{w.key(k)})
	if err != nil || got.Lost != 1 {
		t.Fatalf("claim of key %d, %s: %+v, %v", k, n, got, err)
	}
	score(was)
}

// dies settles key k's claim as dead.
func (w *world) dies(t *rapid.T, k int) {
	in, j := w.flying(t, k)
	w.endAsDead(t, in, j, arrives)
}

// retries settles key k's claim after a failed attempt: the notice is scheduled again.
func (w *world) retries(t *rapid.T, k int) {
	in, j := w.flying(t, k)
	j.stage = failed
	e := w.outcome(t, j)
	if e.used >= maxAttempts {
		t.SkipNow()
	}
	e.ending, e.notice.Reason = store.EndRetry, ""
	w.end(t, in, j, e, arrives)
}

// flying returns the job of key k's claim, and its instance.
func (w *world) flying(t *rapid.T, k int) (*instance, *job) {
	for _, in := range w.instances {
		for _, j := range in.jobs {
			if j.key == k && j.stage == claimed && !j.awaits && j.used+j.lapses < maxAttempts && j.end == nil {
				return in, j
			}
		}
	}
	t.SkipNow()
	return nil, nil
}

// member reports whether key k's notice is in the sequence of a partition.
func (w *world) member(k int, p keys.Partition) bool {
	n := &w.notes[k]
	return n.position != "" && !n.away && n.at() == p
}

// head returns the key of the first notice of a partition's sequence, or -1.
func (w *world) head(p keys.Partition) int {
	head := -1
	for k := range w.notes {
		if w.member(k, p) && (head < 0 || w.notes[k].position+" "+w.key(k) < w.notes[head].position+" "+w.key(head)) {
			head = k
		}
	}
	return head
}

// blocked reports whether a claim with this token parks key k's notice.
func (w *world) blocked(k int, p keys.Partition, token string) bool {
	if w.order == unordered {
		return false
	}
	f, flies := w.flights[p]
	return w.head(p) != k || flies && f != flight{k, token}
}

// ready reports whether a claim of key k's notice by another instance wins.
func (w *world) ready(k int) bool {
	n := &w.notes[k]
	return n.claimable() && !w.blocked(k, n.at(), "")
}

// park records in the model that a claim has parked a notice.
func (w *world) park(k int) {
	n := &w.notes[k]
	n.parked, n.waits, n.outlasts, n.far, n.timer, n.score = true, true, false, false, false, w.scores.fresh()
}

// mark records that key k's notice is in flight. A marker of a short lease has expired before the next step.
func (w *world) mark(k int, p keys.Partition, token string, lasts bool) {
	if w.order == unordered {
		return
	}
	for o := range w.notes { // a notice that waits for the end of a longer lease
		if n := &w.notes[o]; o != k && n.parked && n.at() == p && !lasts {
			n.outlasts = true
		}
	}
	delete(w.flights, p)
	if lasts {
		w.flights[p] = flight{k, token}
	}
	w.notes[k].waits, w.notes[k].parked = false, false
}

// free records that the holder of a token has settled key k's notice.
func (w *world) free(k int, p keys.Partition, token string) {
	if w.flights[p] == (flight{k, token}) {
		delete(w.flights, p)
	}
}

// wake makes the head of a sequence due if it is parked.
func (w *world) wake(p keys.Partition) {
	k := w.head(p)
	if k < 0 || !w.notes[k].waits {
		return
	}
	n := &w.notes[k]
	n.score, n.outlasts = w.scores.fresh(), false
	_, n.parked = w.flights[p]
	n.waits = n.parked
}

// leave removes key k's notice from its sequence in the model.
func (w *world) leave(k int) {
	n := &w.notes[k]
	n.position, n.waits, n.parked, n.outlasts = "", false, false, false
}

// join adds key k's notice to its sequence, or gives it a new position. The position consists of a due
// time, Unix ms, the generation and the index in the call. Due 0 is the due time of the record.
func (w *world) join(k int, due int64, index int) {
	if w.order == unordered {
		return
	}
	if w.kind == reshards {
		w.relocate(w.within)
	}
	w.leave(k)
	n, s := &w.notes[k], w.layouts[len(w.layouts)-1]
	if due == 0 {
		record := w.recordOf(k)
		is, err := notice.Decode(w.key(k), n.under, record)
		if err != nil {
			w.t.Fatalf("key %d, %s, has the record %s: %v", k, n, record, err)
		}
		due = is.Due.UnixMilli()
	}
	n.position = fmt.Sprintf("%011x%013x%03x", due, int64(n.made), index)
	is := w.positionIn(s, k)
	if w.kind == reshards && index == 1 && is == n.position[:24]+"000" {
		n.position = is // the notice replaces one in an old shard
	}
	if is != n.position {
		w.t.Fatalf("key %d, %s, has the position %q, want %s", k, n, is, n.position)
	}
}

// positionIn reads the position of key k's notice.
func (w *world) positionIn(s keys.Space, k int) string {
	p := w.notes[k].at()
	head := w.plain.HGet(w.ctx, s.Order(p), keys.OrderKey(w.key(k))).Val()
	if position, key, _ := strings.Cut(head, " "); key == w.key(k) {
		return position
	}
	return w.plain.HGet(w.ctx, s.Positions(p), w.key(k)).Val()
}

// keep records that key k's notice keeps its position, or joins its sequence.
func (w *world) keep(k int, due int64) {
	if w.order != unordered && w.notes[k].position == "" {
		w.join(k, due, 0)
	}
}

// dueBy reports whether the due time of a position has come.
func dueBy(position string, ms int64) bool {
	if position == "" {
		return false
	}
	due, err := strconv.ParseInt(position[:11], 16, 64)
	return err == nil && due <= ms
}

// checkSequences compares the sequences of all prefixes and places with the model.
func (w *world) checkSequences() {
	if w.order == unordered {
		return
	}
	s := w.layouts[len(w.layouts)-1]
	for _, under := range w.under {
		for place := range s.Places() {
			w.checkSequence(s, keys.Partition{Prefix: under, Shard: place})
		}
	}
}

// parkedNotices reads the shadow, the parked notices and the time.
var parkedNotices = redis.NewScript(`
local t = redis.call('TIME')
return {redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('ZRANGE', KEYS[2], 0, -1), t[1] * 1000 + math.floor(t[2] / 1000)}`)

func (w *world) checkSequence(s keys.Space, p keys.Partition) {
	is, failed := testkit.ReadSequences(w.ctx, w.plain, s.Base(p.Shard), p.Prefix)
	v, err := parkedNotices.Run(w.ctx, w.plain, []string{s.Shadow(p), s.Waiting(p)}).Slice()
	if err := errors.Join(failed, err); err != nil {
		w.t.Fatalf("read the sequences of %+v: %v", p, err)
	}
	name := keys.OrderKey(w.key(0))
	scores, waiting, marker := pairs(v[0]), texts(v[1]), is.Markers[name]
	wantMembers, wantWaiting, wantMarker := []string{}, []string{}, ""
	for k := range w.notes {
		if !w.member(k, p) {
			continue
		}
		n, name := &w.notes[k], w.key(k)
		wantMembers = append(wantMembers, keys.OrderKey(name)+" "+n.position+" "+name)
		if n.waits {
			wantWaiting = append(wantWaiting, name)
		}
	}
	if f, flies := w.flights[p]; flies {
		wantMarker = f.token + " " + w.key(f.key)
	}
	slices.Sort(wantMembers)
	slices.Sort(waiting)
	if !slices.Equal(is.Members, wantMembers) {
		w.t.Fatalf("the sequence of %+v is %q, want %q", p, is.Members, wantMembers)
	}
	if !slices.Equal(waiting, wantWaiting) || marker != wantMarker {
		w.t.Fatalf("of the sequence of %+v, %v are parked with the marker %q; want %v, %q", p, waiting, marker, wantWaiting, wantMarker)
	}
	w.checkParked(p, scores, v[2].(int64), int64(is.Left[name]))
}

// checkParked compares when parked notices are due. left is the time to live of the marker.
func (w *world) checkParked(p keys.Partition, scores map[string]string, now, left int64) {
	head := w.head(p)
	for k := range w.notes {
		n := &w.notes[k]
		if !w.member(k, p) || !n.waits {
			continue
		}
		score, err := strconv.ParseFloat(scores[w.key(k)], 64)
		if err != nil || n.parked != (int64(score) > now) {
			w.t.Fatalf("key %d, %s, is parked: %v; its score is %q, now is %d", k, n, n.parked, scores[w.key(k)], now)
		}
		latest := max(now+300_000+150*int64(len(w.notes)), now+long.Milliseconds()+2)
		if k == head && !n.outlasts {
			latest = now + max(left, 0) + expiredSince // TIME in a script is later than the time of its expiries
		}
		if int64(score) > latest {
			w.t.Fatalf("key %d, %s, waits until %d, want %d at the latest", k, n, int64(score), latest)
		}
	}
}

// pairs returns a reply of names and values as a map.
func pairs(v any) map[string]string {
	m, list := map[string]string{}, texts(v)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}

func texts(v any) []string {
	list := []string{}
	for _, x := range v.([]any) {
		list = append(list, x.(string))
	}
	return list
}

// scoresIn reads the scores of all keys in the shadow of a partition, if routes are ordered.
func (w *world) scoresIn(p keys.Partition) (scores [mostKeys]string) {
	if w.order == unordered {
		return scores
	}
	for k := range scores {
		score, err := w.plain.ZScore(w.ctx, w.layouts[len(w.layouts)-1].Shadow(p), w.key(k)).Result()
		if err == nil {
			scores[k] = strconv.FormatFloat(score, 'f', -1, 64)
		}
	}
	return scores
}

// checkAlone fails if another notice of the sequence is in flight.
func (w *world) checkAlone(k int, p keys.Partition) {
	if w.order == unordered {
		return
	}
	for o := range w.notes {
		if n := &w.notes[o]; o != k && n.at() == p && n.held() && !n.late {
			w.t.Fatalf("key %d starts while key %d, %s, of its sequence is in flight", k, o, n)
		}
	}
}

// moved records that key k's notice leaves its place or prefix. It keeps its position, and is due where it arrives.
func (w *world) moved(k int) {
	n := &w.notes[k]
	n.watched = false
	if n.waits {
		n.waits, n.parked, n.outlasts, n.score = false, false, false, w.scores.fresh()
	}
}
