package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
)

const (
	// lossKept is how long a loss of data is reported.
	lossKept = time.Hour
	// checkEvery is the interval of the checks that Redis still has its data, evictedEvery that of INFO.
	checkEvery, evictedEvery = 10 * time.Second, 20 * time.Second
	// countEach is the shortest interval, for each partition, at which the pending notices are counted, for the report of
	// their loss. So each check counts those of up to 2,375 partitions: one command of Redis for each.
	countEach = 4 * time.Millisecond
	// maxToMark bounds the losses that the history does not record yet.
	maxToMark = 100
)

// losses are the losses of data in Redis that this instance has noticed.
type losses struct {
	metrics Metrics
	logger  *zap.Logger
	alarms  *alarms
	now     func() time.Time
	again   chan struct{} // wakes watchData
	marks   chan struct{} // wakes markLost

	mu      sync.Mutex
	list    []loss
	pending map[int]count        // the last counts by shard; -1 = all; nil = not counted yet
	reports int                  // number of calls of replaced
	toMark  []store.Replaced     // for markLost
	young   map[string]bool      // ids of data that began empty, in place of others
	gone    map[string]bool      // ids of data that Redis no longer has
	evicted map[string]evictions // by address
}

// count is a number of pending notices.
type count struct {
	n        int64
	at       time.Time
	accepted int64 // of this instance, until at
}

// loss is one loss of data.
type loss struct {
	id   string // of the lost data, or what else distinguishes it
	text string
	at   time.Time
}

func newLosses(m Metrics, logger *zap.Logger) *losses {
	return &losses{metrics: m, logger: logger, now: time.Now, again: make(chan struct{}, 1), marks: make(chan struct{}, 1),
		young: map[string]bool{}, gone: map[string]bool{}, evicted: map[string]evictions{}}
}

// replaced reports data that Redis no longer has. It ends the report of data that have returned. Data that an emptied
// Redis has had since are lost too, if any notice was in them.
func (l *losses) replaced(r store.Replaced) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what, where := "this service's data", zap.Skip()
	if r.Place >= 0 {
		what, where = fmt.Sprintf("the data of shard %d", r.Place), zap.Int("shard", r.Place)
	}

	had := len(l.list)
	l.list = slices.DeleteFunc(l.list, func(x loss) bool { return x.id == r.Now })
	if len(l.list) < had {
		l.logger.Warn("Redis has the lost data again", zap.String("identity", r.Now), where)
	}

	pending, known := l.pendingIn(r.Place)
	accepted := l.metrics.Accepted() - pending.accepted
	if empty := l.young[r.Was] && pending.n+accepted == 0; !empty {
		text := "Redis no longer has " + what + "; "
		if known {
			text += fmt.Sprintf("%s pending at %s UTC", counted(pending.n), pending.at.UTC().Format(time.TimeOnly))
		} else {
			text += "its pending notices were not counted yet"
		}

		if accepted > 0 {
			text += fmt.Sprintf(", and this instance has accepted %s since", notice.Count(accepted, "notice"))
			if !known {
				text += " its start"
			}
		}

		l.add(r.Was, text)
		l.logger.Error("Redis no longer has this service's data", zap.String("loss", text),
			zap.String("identity", r.Was), zap.String("replaced_by", r.Now), where)
	}

	if r.Place < 0 {
		l.toMark = append(l.toMark[max(0, len(l.toMark)-maxToMark):], r)
		wake(l.marks)
	}

	l.reports++
	l.begin(r.Place, l.gone[r.Now])
	l.young[r.Now] = l.young[r.Now] || !l.gone[r.Now]
	l.gone[r.Was] = true
	delete(l.gone, r.Now)
}

// isCounted reports whether the pending notices of the present data were counted.
func (l *losses) isCounted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending != nil
}

// isGone reports whether Redis no longer has the data with an identity.
func (l *losses) isGone(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone[id]
}

// counted is a number of notices with its verb.
func counted(n int64) string {
	if n == 1 {
		return "1 notice was"
	}
	return notice.Count(n, "notice") + " were"
}

// pendingIn returns how many notices were pending in a shard, or in all, when they were last counted. The time of several
// counts is that of the oldest.
func (l *losses) pendingIn(place int) (sum count, known bool) {
	for shard, c := range l.pending {
		if place >= 0 && shard != place && shard >= 0 {
			continue
		}

		c.n += sum.n
		if known && sum.at.Before(c.at) {
			c.at, c.accepted = sum.at, sum.accepted
		}

		sum, known = c, true
	}

	return sum, known
}

// begin starts the count of the data of a shard, or of all, that have replaced others.
func (l *losses) begin(place int, returned bool) {
	none := count{0, l.now(), l.metrics.Accepted()}
	switch {
	case returned:
		l.pending = nil
	case place < 0:
		l.pending = map[int]count{-1: none}
	case l.pending != nil:
		l.pending[place] = none
	}
}

// add adds a loss, or renews it.
func (l *losses) add(id, text string) {
	l.metrics.DataLost()
	l.alarms.dataLost(text)
	l.list = append(slices.DeleteFunc(l.list, func(x loss) bool { return x.id == id }), loss{id, text, l.now()})
}

// texts returns the losses of the last hour.
func (l *losses) texts() (texts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(x loss) bool { return l.now().Sub(x.at) >= lossKept })
	for _, x := range l.list {
		texts = append(texts, x.text)
	}

	return texts
}

// conditions returns the losses as conditions of /readyz.
func (l *losses) conditions() (list []fleet.Condition) {
	for _, text := range l.texts() {
		list = append(list, fleet.Condition{Reason: text, Urgent: true})
	}

	return list
}

// setPending sets the counts of some shards, unless other data were reported since began, which returned the other arguments
// before the count. The counts of an unreachable node's shards stay.
func (l *losses) setPending(by map[int]int64, since count, reports int) (set bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reports != reports {
		return false
	}

	if l.pending == nil {
		l.pending = map[int]count{}
	}

	if len(by) > 0 {
		delete(l.pending, -1)
	}

	for place, n := range by {
		l.pending[place] = count{n, since.at, since.accepted}
	}

	return true
}

// unmarked returns the losses that the history does not record yet, oldest first.
func (l *losses) unmarked() []store.Replaced {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.toMark)
}

// marked removes the oldest loss of unmarked.
func (l *losses) marked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toMark = l.toMark[1:]
}

// began begins a count: it returns the time, the notices accepted until then, and the number of calls of replaced. Notices
// accepted during the count are reported as accepted since, although some of them are counted: too many rather than too few.
func (l *losses) began() (since count, reports int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return count{0, l.now(), l.metrics.Accepted()}, l.reports
}

// DataReplaced implements [store.Watcher].
func (w watcher) DataReplaced(r store.Replaced) { w.losses.replaced(r) }

// checkData wakes watchData and keepForgotten.
func (e *Engine) checkData() {
	wake(e.losses.again)
	wake(e.sealed.again)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watchData checks until ctx ends, and after each reconnect, that Redis has the data that this instance knows, and evicts
// none. It counts the pending notices, so that a loss can be reported with their number.
func (e *Engine) watchData(ctx context.Context) error {
	var count, look time.Time
	for {
		var err error
		now := time.Now()
		if now.After(count) || !e.losses.isCounted() {
			err = e.countPending(ctx)
			count = now.Add(countEach * time.Duration(e.store.Space().Places()*len(e.store.Layout.Prefixes())))
		} else {
			err = e.store.Layout.Check(ctx)
		}

		if err == nil && now.After(look) {
			e.watchEvictions(ctx)
			look = now.Add(evictedEvery - checkEvery/2)
		}

		select {
		case <-ctx.Done():
			return nil
		case <-e.losses.again:
		case <-time.After(checkEvery - rand.N(checkEvery/20)):
		}
	}
}

// countPending counts the pending notices and checks the data. After an error the last count holds.
func (e *Engine) countPending(ctx context.Context) error {
	for range 3 {
		since, reports := e.losses.began()
		by, err := e.store.CountPending(ctx)
		switch {
		case errors.Is(err, store.ErrReplaced): // reported now: count the data that Redis has
		case err != nil:
			return err
		case e.losses.setPending(by, since, reports):
			return nil
		}
	}

	return store.ErrReplaced
}
