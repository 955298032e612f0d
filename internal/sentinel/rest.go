package sentinel

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// restMost is how long a rest may last by one failover. A sentinel gives an election up
// after 11 s at most: it begins it up to a second late, and waits for min(failover-timeout,
// 10 s). One that was elected promotes a replica that it reaches at once, and sees within
// two seconds more that it is a master. What lasts longer waits for a replica that does
// not answer, for up to twice the failover-timeout, which is minutes: the old master may
// be of use so long.
const restMost = 15 * time.Second

// ErrFailover is what a Dial comes to in a rest. Nothing was sent.
var ErrFailover = errors.New("a failover is under way")

// restError is an ErrFailover that says whose it is.
type restError struct{ sentinel, master string }

func (e *restError) Error() string {
	return fmt.Sprintf("sentinel %s has begun a failover: nothing is sent to the master %s until it has ended", e.sentinel, e.master)
}

func (e *restError) Is(target error) bool { return target == ErrFailover }

// rests is an ErrFailover in a rest, else nil: the failure of a dial, since nothing was
// sent. The caller holds mu.
func (w *Watch) rests() error {
	if w.by == "" {
		return nil
	}
	return &net.OpError{Op: "dial", Net: "tcp", Err: &restError{w.by, w.now.addr}}
}

// weigh begins a rest or ends it, after a sentinel has said something or has failed to.
// The caller holds mu.
func (w *Watch) weigh() {
	before, by := w.by, ""
	for addr, s := range w.told {
		// What replaces a former master, or this one at an earlier epoch, has ended, though
		// that sentinel may not know yet.
		of := s.failing
		if of.addr != "" && of.addr == w.now.addr && of.epoch >= w.now.epoch && time.Since(s.since) < w.most && (by == "" || addr == before) {
			by = addr
		}
	}
	w.by = by
	switch {
	case before == "" && by != "":
		w.letGo()
		if w.o.OnRest != nil {
			w.o.OnRest(fmt.Sprintf("sentinel %s has begun a failover: nothing is sent to the master %s until it names another, gives up, ends, or "+
				"%s are over",
				by, w.now.addr, w.most))
		}
	case before != "" && by == "" && w.o.OnResume != nil:
		why := "has given its failover up"
		switch s := w.told[before]; {
		case s.failing.addr != "":
			why = fmt.Sprintf("has named no other for %s", w.most)
		case s.lost:
			why = "has ended"
		}
		w.o.OnResume(fmt.Sprintf("the master %s is used again: sentinel %s %s", w.now.addr, before, why))
	}
}

// letGo closes all connections. The caller holds mu.
func (w *Watch) letGo() {
	for c := range w.conns {
		_ = c.Conn.Close() // who uses it finds it broken
	}
	clear(w.conns)
}
