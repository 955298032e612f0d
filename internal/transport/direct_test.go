package transport

import (
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// The goroutine that writes the body can run late, and the connection is kept; a write that had to be interrupted is an error.
func TestLateEndOfABodyKeepsItsConnection(t *testing.T) {
	for _, err := range []error{nil, os.ErrDeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			ended := false
			s := &sending{c: &directConn{end: func() { ended = true }}, done: make(chan struct{})}
			time.AfterFunc(2*lateWrite, func() {
				s.err = err
				close(s.done)
			})
			if whole := s.stop(); whole != (err == nil) || !ended {
				t.Errorf("with %v: whole %v, interrupted %v", err, whole, ended)
			}
		})
	}
}
