package callback

import (
	"time"

	"notifier/internal/transport"
)

// hostsKept is the maximum number of idle hosts that a route remembers. A producer chooses the hosts: without
// a bound, random names at 5,000 per second would fill 1.6 GB before the first of them expires.
const hostsKept = 8192

// hostTable holds the hosts that one route calls, with at most most idle ones. A full table drops the idle host whose
// last call is the oldest. A host with running calls is never dropped.
type hostTable struct {
	most   int
	byName map[string]*host
	// plain and marked hold the idle hosts, which have no running call. marked has the hosts that hang, or asked for
	// fewer calls by an answer of 429 or 503; plain has the others. A full table drops a host of plain. If marked has
	// more than most/2 hosts, or plain is empty, it drops one of marked instead. So neither list can displace the
	// other.
	plain, marked hostList
}

// hostList is a list of hosts ordered by their last call.
type hostList = transport.ByUse[host, *host]

func (h *host) ByUseLinks() *transport.Links[host] { return &h.Links }

func newTable() *hostTable { return &hostTable{most: hostsKept, byName: map[string]*host{}} }

// find returns the host, created by create if it is unknown. The host is then in no list: the caller puts it
// back.
func (t *hostTable) find(name string, create func() *host) *host {
	h := t.byName[name]
	if h != nil {
		t.take(h)
		return h
	}

	if t.plain.Len()+t.marked.Len() >= t.most {
		t.forget()
	}

	h = create()
	h.name = name
	t.byName[name] = h
	return h
}

// take removes a host from its list while the host is in use.
func (t *hostTable) take(h *host) {
	if h.in != nil {
		h.in.Remove(h)
		h.in = nil
	}
}

// put returns a host to the lists, unless it has running calls.
func (t *hostTable) put(h *host) {
	t.take(h)
	if h.inflight > 0 {
		return
	}

	h.in = &t.plain
	if h.marked() {
		h.in = &t.marked
	}

	h.in.Push(h)
	for t.plain.Len()+t.marked.Len() > t.most {
		t.forget()
	}
}

// marked reports whether the host hangs or asked for fewer calls.
func (h *host) marked() bool { return h.health == hung || h.allowed > 0 }

func (t *hostTable) forget() {
	from := &t.plain
	if from.Len() == 0 || t.marked.Len() > t.most/2 {
		from = &t.marked
	}

	if from.Oldest() != nil {
		t.drop(from.Oldest())
	}
}

func (t *hostTable) drop(h *host) {
	t.take(h)
	delete(t.byName, h.name)
}

// sweep forgets hosts that were not called after that time.
func (t *hostTable) sweep(since time.Time) {
	for _, l := range []*hostList{&t.plain, &t.marked} {
		for l.Oldest() != nil && l.Oldest().used.Before(since) {
			t.drop(l.Oldest())
		}
	}
}
