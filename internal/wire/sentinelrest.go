package wire

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// restMost is the maximum duration of a rest after one failover that a sentinel has begun. During a rest nothing is
// sent to the master, which may be replaced. A usual failover takes at most 13 s: 11 s for the election and 2 s for the
// promotion. A failover that takes longer may take minutes, and the old master may be needed during that time.
const restMost = 15 * time.Second

// ErrFailover is returned by Dial during a rest. Nothing was sent.
var ErrFailover = errors.New("a failover is in progress")

// restError is an ErrFailover with the sentinel that began the failover.
type restError struct{ sentinel, master string }

func (e *restError) Error() string {
	return fmt.Sprintf("sentinel %s has begun a failover: nothing is sent to the master %s until it has ended", e.sentinel, e.master)
}

func (e *restError) Is(target error) bool { return target == ErrFailover }

// rests returns an ErrFailover during a rest, and nil otherwise. The error has the form of a failed dial,
// because nothing was sent. The caller holds mu.
func (w *Watch) rests() error {
	if w.by == "" {
		return nil
	}
	return &net.OpError{Op: "dial", Net: "tcp", Err: &restError{w.by, w.now.addr}}
}

// updateRest begins or ends a rest, after a sentinel has answered or failed. The caller holds mu.
func (w *Watch) updateRest() {
	before := w.by
	w.by = w.failingOver()

	switch {
	case before == "" && w.by != "":
		w.closeConns()
		if w.o.OnRest != nil {
			w.o.OnRest(fmt.Sprintf("sentinel %s has begun a failover: nothing is sent to the master %s until it names another, gives up, ends, or "+
				"%s are over",
				w.by, w.now.addr, w.most))
		}
	case before != "" && w.by == "" && w.o.OnResume != nil:
		w.o.OnResume(fmt.Sprintf("the master %s is used again: sentinel %s %s", w.now.addr, before, w.endOfRest(before)))
	}
}

// failingOver returns a sentinel that is failing over the present master: the present cause of the rest, if its
// failover goes on. It is empty if there is none.
func (w *Watch) failingOver() (by string) {
	for addr, s := range w.sentinels {
		// A failover of an earlier master, or of this one at an earlier epoch, has ended, even if that sentinel does not know yet.
		of := s.failing
		if of.addr == "" || of.addr != w.now.addr || of.epoch < w.now.epoch || time.Since(s.since) >= w.most {
			continue
		}

		if by == "" || addr == w.by {
			by = addr
		}
	}

	return by
}

// endOfRest describes why the rest for a sentinel's failover has ended.
func (w *Watch) endOfRest(by string) string {
	switch s := w.sentinels[by]; {
	case s.failing.addr != "":
		return fmt.Sprintf("has named no other for %s", w.most)
	case s.lost:
		return "has ended"
	}
	return "has given its failover up"
}

// closeConns closes all connections to the master. The caller holds mu.
func (w *Watch) closeConns() {
	for c := range w.conns {
		_ = c.Conn.Close() // its user gets an error
	}
	clear(w.conns)
}
