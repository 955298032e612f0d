package dispatch

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"notifier/internal/notice"
)

// maxWaiting bounds how many postponed notices of a route are remembered. All others are claimed when their postponement ends.
const maxWaiting = 2000

// waiter is a notice that this instance has postponed because its host was busy.
type waiter struct {
	key   string
	shard int
	score string // as the postponement wrote it
	class notice.Class
	due   time.Time
	until time.Time // when the postponement ends
	host  string
}

// compare orders waiters of a host by class, then by due time.
func (x *waiter) compare(o *waiter) int {
	return cmp.Or(cmp.Compare(x.class, o.class), x.due.Compare(o.due))
}

// waiting holds the notices of one route that wait for slots of their hosts, without a claim. The gate's lock guards it.
type waiting struct {
	byKey map[string]*waiter
	hosts map[string]*hostQueue
	ready []string      // hosts that may have free slots, in turn
	armed bool          // the timer is set that checks all hosts
	n     *atomic.Int32 // length of hosts, without the mutex
}

// byClass is a number of notices by class.
type byClass [notice.Classes]int

// before returns how many are of classes before one.
func (n *byClass) before(c notice.Class) (sum int) {
	for earlier := range c {
		sum += n[earlier]
	}

	return sum
}

func (n *byClass) all() int { return n.before(notice.Classes) }

// hostQueue holds the notices that wait for one host.
type hostQueue struct {
	waiters  []*waiter // in order of compare
	starts   int       // see notice.Next
	coming   byClass   // postponements without a settle
	claiming byClass   // waiters in running claim calls, and claims of them whose handlers have not started
	ready    bool
}

// first returns the index of the first waiter of a class or a later one.
func (h *hostQueue) first(c notice.Class) int {
	at, _ := slices.BinarySearchFunc(h.waiters, c, func(x *waiter, c notice.Class) int { return cmp.Or(cmp.Compare(x.class, c), 1) })
	return at
}

// before returns how many notices that wait go before an attempt of a class: those of earlier classes, and claims of its own class.
func (h *hostQueue) before(c notice.Class) int {
	return h.first(c) + h.coming.before(c) + h.claiming.before(c+1)
}

func newWaiting() waiting {
	return waiting{byKey: map[string]*waiter{}, hosts: map[string]*hostQueue{}, n: new(atomic.Int32)}
}

func (w *waiting) host(name string) *hostQueue {
	h := w.hosts[name]
	if h == nil {
		h = &hostQueue{}
		w.hosts[name] = h
		w.n.Add(1)
	}

	return h
}

// next returns the index of the next of the waiters that may be claimed now, -1 if there is none.
func (h *hostQueue) next(may func(x *waiter) bool) int {
	at := -1
	notice.Next(h.starts, func(c notice.Class) bool {
		for i := h.first(c); i < len(h.waiters) && h.waiters[i].class == c; i++ {
			if may(h.waiters[i]) {
				at = i
				return true
			}
		}

		return false
	})
	return at
}

// tidy deletes an empty hostQueue.
func (w *waiting) tidy(name string) {
	if h := w.hosts[name]; h != nil && len(h.waiters) == 0 && h.coming.all() == 0 && h.claiming.all() == 0 && !h.ready {
		delete(w.hosts, name)
		w.n.Add(-1)
	}
}

// add remembers a notice. If there is no room, the last waiter of the host with the most waiters is dropped, which may be the new one.
func (w *waiting) add(x *waiter) {
	w.remove(x.key)
	if len(w.byKey) >= maxWaiting {
		longest := x.host
		for name, h := range w.hosts {
			if len(h.waiters) > len(w.host(longest).waiters) {
				longest = name
			}
		}

		last := w.host(longest).waiters
		if longest == x.host && (len(last) == 0 || x.compare(last[len(last)-1]) >= 0) {
			return
		}

		w.remove(last[len(last)-1].key)
	}

	h := w.host(x.host)
	at, _ := slices.BinarySearchFunc(h.waiters, x, func(a, b *waiter) int {
		return cmp.Or(a.compare(b), -1) // after equal waiters
	})
	h.waiters = slices.Insert(h.waiters, at, x)
	w.byKey[x.key] = x
	w.wake(x.host)
}

// remove forgets a notice.
func (w *waiting) remove(key string) {
	x := w.byKey[key]
	if x == nil {
		return
	}

	delete(w.byKey, key)
	h := w.hosts[x.host]
	h.waiters = slices.DeleteFunc(h.waiters, func(o *waiter) bool { return o == x })
	w.tidy(x.host)
}

// wake queues a host for a check, if notices wait for it.
func (w *waiting) wake(host string) {
	if h := w.hosts[host]; h != nil && !h.ready && len(h.waiters) > 0 {
		h.ready = true
		w.ready = append(w.ready, host)
	}
}

// take removes up to n notices of one open partition whose hosts have room, one host after another.
func (w *waiting) take(n int, open func(shard int) bool, room func(host string) int) (list []*waiter, shard int) {
	for range len(w.ready) {
		name := w.ready[0]
		w.ready = w.ready[1:]
		h := w.hosts[name]
		h.ready = false
		left := room(name) - h.claiming.all()
		for left > 0 && len(list) < n {
			i := h.next(func(x *waiter) bool { return (len(list) == 0 || x.shard == shard) && open(x.shard) })
			if i < 0 {
				break
			}

			x := h.waiters[i]
			list, shard = append(list, x), x.shard
			delete(w.byKey, x.key)
			h.waiters = slices.Delete(h.waiters, i, i+1)
			h.starts++
			h.claiming[x.class]++
			left--
		}

		if left > 0 && len(list) > 0 {
			w.wake(name) // for other partitions, or once there are slots
		}

		w.tidy(name)
		if len(list) >= n {
			break
		}
	}
	return list, shard
}

func (w *waiting) arrived(x *waiter) {
	if h := w.hosts[x.host]; h != nil {
		h.claiming[x.class]--
		w.wake(x.host)
		w.tidy(x.host)
	}
}

// drop deletes all. It leaves the pointer n as it is, which is read without the mutex.
func (w *waiting) drop() {
	none := newWaiting()
	w.byKey, w.hosts, w.ready, w.armed = none.byKey, none.hosts, none.ready, none.armed
	w.n.Store(0)
}
