package callback

import "time"

// hostsKept is how many hosts a route remembers beside those that are being
// called. A producer chooses the hosts: without a bound, names at random at 5,000 a
// second would fill 1.6 GB before the first of them is forgotten for its age.
const hostsKept = 8192

// hostTable is what is known of hosts, bounded. A host that is being called is always
// in it. Of the others those are forgotten first that were called longest ago and
// of which nothing is known that would be missed; for what was learnt of hosts that
// hang or that asked to be called less half of the room is there, and no more, so that
// neither can be used to flush out the other.
type hostTable struct {
	most   int
	byName map[string]*host
	// plain and marked hold the hosts that are not being called.
	plain, marked hostList
}

// hostList is hosts by when they were called.
type hostList = byUse[host, *host]

func (h *host) near() *neighbours[host] { return &h.neighbours }

func newTable() *hostTable { return &hostTable{most: hostsKept, byName: map[string]*host{}} }

// find returns the host, made by create if it is not known.
func (t *hostTable) find(name string, create func() *host) *host {
	h := t.byName[name]
	if h != nil {
		t.take(h)
		return h
	}
	if t.plain.n+t.marked.n >= t.most {
		t.forget()
	}
	h = create()
	h.name = name
	t.byName[name] = h
	return h
}

// take takes a host out of the lists: it is looked at, or being called.
func (t *hostTable) take(h *host) {
	if h.in != nil {
		h.in.remove(h)
		h.in = nil
	}
}

// put back a host that was looked at, unless it is being called.
func (t *hostTable) put(h *host) {
	t.take(h)
	if h.inflight > 0 {
		return
	}
	h.in = &t.plain
	if h.marked() {
		h.in = &t.marked
	}
	h.in.push(h)
	for t.plain.n+t.marked.n > t.most {
		t.forget()
	}
}

// marked reports whether something is known of the host that protects others.
func (h *host) marked() bool { return h.standing == hung || h.allowed > 0 }

func (t *hostTable) forget() {
	from := &t.plain
	if from.n == 0 || t.marked.n > t.most/2 {
		from = &t.marked
	}
	if from.oldest != nil {
		t.drop(from.oldest)
	}
}

func (t *hostTable) drop(h *host) {
	t.take(h)
	delete(t.byName, h.name)
}

// sweep forgets hosts that were not called since.
func (t *hostTable) sweep(since time.Time) {
	for _, l := range []*hostList{&t.plain, &t.marked} {
		for l.oldest != nil && l.oldest.used.Before(since) {
			t.drop(l.oldest)
		}
	}
}
