package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// linePause is the minimum time between two writes of the log, unless a line is urgent. A
	// write for each attempt costs as much as the attempt's share of a settle.
	linePause = 5 * time.Millisecond
	// maxBuffered bounds the buffered bytes. Of these, lineReserve are for lines that are dropped last.
	maxBuffered = 4 << 20
	lineReserve = 256 << 10
	// maxWrite bounds a write of several lines. A pipe takes up to that many bytes at once or none of
	// them, so a line is not written in part if the reader stops.
	maxWrite = 4096
	// stallAfter is the duration of a write after which the log counts as not written.
	stallAfter = time.Second
	// retryWrite is the time between a failed write and the next.
	retryWrite = time.Second
)

// Errors of deliver, after which the line is not written.
var (
	errStalled = errors.New("its reader has stopped reading")
	errFull    = errors.New("its buffer is full")
)

// lines is a buffered writer of log lines that never waits for its output. One goroutine writes; it runs while there
// are lines to write. A line that does not fit in the buffer is dropped and counted.
type lines struct {
	out io.Writer
	// await returns when out has room for maxWrite bytes; nil = out always has.
	await func()
	// report logs the number of dropped lines once lines are written again.
	report func(dropped int64)

	mu      sync.Mutex
	queue   []line
	size    int  // bytes in the queue
	writing int  // lines of the queue that the current write contains
	running bool // the goroutine runs
	hurry   bool // a queued line is urgent
	armed   bool
	next    time.Time // when the next write may begin
	since   time.Time // when the current write, or the first of several failures in a row, began; zero = no write
	err     error     // of the last write
	total   int64     // dropped lines
	unsaid  int64     // dropped lines that were not reported
	watched bool      // check will be called
	waiters sync.Pool // of chan error, unused
	buf     []byte    // of the current write
}

// line is one line in the queue, or several.
type line struct {
	text []byte
	done chan<- error // receives the result; nil = nobody waits
	by   time.Time    // until when somebody waits for a line whose write has begun
}

// importance is how a line is treated.
type importance int

const (
	ordinary importance = iota
	urgent              // written at once
	reserved            // written at once, dropped last
)

// Write takes one line, or several, and returns no error.
func (w *lines) Write(text []byte) (int, error) {
	w.put(text, ordinary)
	return len(text), nil
}

// put adds lines to the buffer, or drops them.
func (w *lines) put(text []byte, i importance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fits(text, i) {
		w.drop(1)
		return
	}

	w.add(line{text: bytes.Clone(text)}, i != ordinary)
}

// fits reports whether the buffer has room.
func (w *lines) fits(text []byte, i importance) bool {
	limit := maxBuffered
	if i != reserved {
		limit -= lineReserve
	}

	return w.size+len(text) <= limit
}

// add adds a line, and writes the buffered lines when that is due. The caller holds mu.
func (w *lines) add(l line, hurry bool) {
	w.queue = append(w.queue, l)
	w.size += len(l.text)
	w.hurry = w.hurry || hurry
	w.start()
}

// start has the buffered lines written: now if that is due, else when the pause is over.
func (w *lines) start() {
	switch wait := time.Until(w.next); {
	case w.running:
	case wait <= 0 || w.hurry && w.err == nil:
		w.running = true
		go w.run()
	case !w.armed:
		w.armed = true
		time.AfterFunc(wait, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.armed = false
			w.start()
		})
	}
}

// run writes lines until none are left or a write fails.
func (w *lines) run() {
	for w.begin() {
		if w.await != nil {
			w.await()
		}

		runtime.Gosched() // others add their lines to this write
		text := w.take()
		n, err := len(text), error(nil)
		if len(text) > 0 {
			n, err = w.out.Write(text)
		}

		if dropped := w.wrote(n, err); dropped > 0 {
			w.report(dropped)
		}
	}
}

// begin reports whether there are lines to write.
func (w *lines) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hurry = false
	if w.running = len(w.queue) > 0 && (w.err == nil || !time.Now().Before(w.next)); !w.running {
		if len(w.queue) > 0 {
			w.start()
		}
		return false
	}

	if w.since.IsZero() {
		w.since = time.Now()
	}

	return true
}

// take returns the lines of the next write. Until it ends, they cannot be withdrawn.
func (w *lines) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.buf[:0]
	for _, l := range w.queue {
		if w.writing > 0 && len(text)+len(l.text) > maxWrite {
			break
		}

		text = append(text, l.text...)
		w.writing++
	}

	w.buf = text
	return text
}

// wrote handles the end of a write: the output has taken n bytes. It returns the number of dropped lines
// to report.
func (w *lines) wrote(n int, err error) (dropped int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; w.writing > 0 && n >= len(w.queue[0].text); w.writing-- {
		l := w.queue[0]
		w.queue[0] = line{}
		w.queue, w.size, n = w.queue[1:], w.size-len(l.text), n-len(l.text)
		l.end(nil)
	}

	w.writing, w.err = 0, err
	if err != nil {
		w.failed(n)
		return 0
	}

	w.since = time.Time{}
	if len(w.queue) == 0 {
		w.next = time.Now().Add(linePause)
	}

	if w.size <= maxBuffered/2 {
		dropped, w.unsaid = w.unsaid, 0
	}

	return dropped
}

// failed handles a write that failed after n bytes of the first line. The rest of that line is written
// later, so that the next line begins on a new one. The caller holds mu.
func (w *lines) failed(n int) {
	w.next = time.Now().Add(retryWrite)
	if n > 0 {
		first := &w.queue[0]
		first.end(w.err)
		first.text, first.done, w.size = first.text[n:], nil, w.size-n
	}

	w.remove(w.err, func(l line) bool { return l.done != nil })
	if errors.Is(w.err, syscall.EPIPE) { // nobody will read the lines
		w.drop(int64(len(w.queue)))
		w.queue, w.size = nil, 0
	}
}

// end reports the result to the one who waits for the line.
func (l line) end(err error) {
	if l.done != nil {
		l.done <- err
	}
}

// remove removes queued lines that are not being written, and reports an error to those who wait. The caller holds mu.
func (w *lines) remove(err error, which func(line) bool) {
	kept := w.queue[:w.writing]
	for _, l := range w.queue[w.writing:] {
		if !which(l) {
			kept = append(kept, l)
			continue
		}

		w.size -= len(l.text)
		l.end(err)
	}

	clear(w.queue[len(kept):])
	w.queue = kept
}

// drop counts dropped lines. The caller holds mu.
func (w *lines) drop(n int64) {
	w.total += n
	w.unsaid += n
}

// deliver writes a line and returns nil once the output has taken it. On an error, when ctx ends, and if the log is not
// written, it withdraws the line. It waits until the timeout for a line whose write has begun: that line may still be
// written, as a whole or in part.
func (w *lines) deliver(ctx context.Context, text []byte, timeout time.Duration) error {
	done, _ := w.waiters.Get().(chan error)
	if done == nil {
		done = make(chan error, 1)
	}

	if err := w.enter(line{text, done, time.Now().Add(timeout)}); err != nil {
		return err
	}

	select {
	case err := <-done:
		w.waiters.Put(done) // in the other case a result may still come
		return err
	case <-ctx.Done():
	}

	w.withdraw(done, ctx.Err())
	select {
	case err := <-done: // withdrawn now, or written at this moment
		return err
	default:
		return ctx.Err()
	}
}

// enter adds a line that somebody waits for, unless lines are not written at the moment. After a failed write
// and retryWrite, the line is the next try.
func (w *lines) enter(l line) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.problem(); errors.Is(err, errStalled) || err != nil && time.Now().Before(w.next) {
		return err
	}
	if !w.fits(l.text, ordinary) {
		return errFull
	}

	l.text = bytes.Clone(l.text)
	w.add(l, true)
	w.watch()
	return nil
}

// withdraw removes the line of done, if it is not being written.
func (w *lines) withdraw(done chan<- error, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(err, func(l line) bool { return l.done == done })
}

// watch has check called when the current write may have stalled. One timer serves all lines: there is a line for each
// notice. The caller holds mu.
func (w *lines) watch() {
	if w.watched || len(w.queue) == 0 {
		return
	}

	wait := stallAfter
	if !w.since.IsZero() {
		wait = max(time.Millisecond, stallAfter-time.Since(w.since))
	}

	w.watched = true
	time.AfterFunc(wait, w.check)
}

// check ends the waits for lines if the log is not written, and for those of the current write that have lasted too long.
func (w *lines) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = false
	if err := w.problem(); err != nil {
		w.remove(err, func(l line) bool { return l.done != nil })
		for i := range w.queue[:w.writing] {
			if l := &w.queue[i]; time.Now().After(l.by) {
				l.end(err)
				l.done = nil
			}
		}
	}

	w.watch()
}

// problem returns why lines are not written at the moment. The caller holds mu.
func (w *lines) problem() error {
	if w.err == nil && !w.since.IsZero() && time.Since(w.since) >= stallAfter {
		return errStalled
	}
	return w.err
}

// state returns the number of dropped lines, and why lines are not written at the moment.
func (w *lines) state() (dropped int64, problem error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total, w.problem()
}

// awaitRoom returns a function that waits until f has room for a write of maxWrite bytes. A write that would wait
// cannot be withdrawn; a line that waits for room can.
func awaitRoom(f *os.File) func() {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}

	return func() {
		_ = raw.Control(func(fd uintptr) {
			for {
				poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
				if _, err := unix.Poll(poll, -1); !errors.Is(err, unix.EINTR) {
					return // after another error the write reports it
				}
			}
		})
	}
}
