package app

import (
	"io"
	"sync"
	"time"
)

const (
	// linePause is the minimum time between two writes of the log, unless a flush is requested. A
	// write for each attempt costs as much as the attempt's share of a settle.
	linePause = 5 * time.Millisecond
	// mostHeld is how many bytes of lines wait at most.
	mostHeld = 256 << 10
)

// lines is a buffered writer of log lines. A line after a pause is written at once, so that a kill does not lose it.
// Lines that follow within linePause are written together. Sync writes all buffered lines.
type lines struct {
	out io.Writer

	mu    sync.Mutex
	held  []byte
	next  time.Time // when the next write may begin
	timer *time.Timer
	armed bool
}

// Write takes one line, or several.
func (w *lines) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.held = append(w.held, text...)
	wait := time.Until(w.next)
	if wait <= 0 || len(w.held) >= mostHeld {
		return len(text), w.flush()
	}

	if !w.armed {
		w.armed = true
		w.arm(wait)
	}

	return len(text), nil
}

// Sync writes the lines that wait. The file itself is not synced: a pipe and a
// terminal cannot be, and no process waits for a log to reach a disk.
func (w *lines) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// arm has the lines written when the pause is over.
func (w *lines) arm(wait time.Duration) {
	if w.timer != nil {
		w.timer.Reset(wait)
		return
	}
	w.timer = time.AfterFunc(wait, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.armed = false
		_ = w.flush() // lines that were not written are tried again with the next
	})
}

// flush writes the lines that wait. Lines that cannot be written wait for the next
// write, unless too many do: then they are dropped.
func (w *lines) flush() error {
	if len(w.held) == 0 {
		return nil
	}

	n, err := w.out.Write(w.held)
	w.next = time.Now().Add(linePause)
	if err == nil || len(w.held) >= mostHeld {
		n = len(w.held)
	}

	w.held = w.held[:copy(w.held, w.held[n:])]
	return err
}
