package pace

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// An idle machine takes about 200 µs to run the goroutine that waits for a timer, because a processor must wake. So the timer
// of a wait of at least quiet fires earlier by ahead, and Rest waits for the rest without sleeping. It does so at most once in
// each quiet, so it takes at most 4 % of a core. A process that waits more often has awake processors and precise timers.
const (
	ahead = 500 * time.Microsecond
	quiet = 15 * time.Millisecond
)

// rested is when a Rest of this process last began, in ns since begun.
var (
	begun  = time.Now()
	rested atomic.Int64
)

type timerfd struct {
	c    chan struct{}
	f    *os.File
	done chan struct{}
	due  time.Time // when to fire
}

// NewAlarm returns the most precise Alarm of this system: a timerfd.
func NewAlarm() Alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return NewTimer()
	}

	t := &timerfd{c: make(chan struct{}, 1), f: os.NewFile(uintptr(fd), "timerfd"), done: make(chan struct{})}
	go t.read()
	return t
}

// read waits in the runtime's poller, which occupies no thread.
func (t *timerfd) read() {
	defer close(t.done)
	var b [8]byte
	for {
		if _, err := t.f.Read(b[:]); err != nil {
			return
		}
		notify(t.c)
	}
}

func (t *timerfd) C() <-chan struct{} { return t.c }

func (t *timerfd) Set(d time.Duration) {
	t.due = time.Now().Add(d)
	if d >= quiet {
		d -= ahead
	}

	t.arm(d)
}

func (t *timerfd) arm(d time.Duration) {
	// Zero would disarm it.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(d.Nanoseconds(), 1))}
	raw, err := t.f.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { _ = unix.TimerfdSettime(int(fd), 0, &spec, nil) })
	}

	if err != nil {
		notify(t.c) // closed, or not to be set: better too early than never
	}
}

func (t *timerfd) Rest() {
	left := time.Until(t.due)
	if left <= 0 || left > ahead { // the firing was left over from before the last Set
		return
	}

	now := time.Since(begun)
	if now-time.Duration(rested.Swap(int64(now))) < quiet {
		t.arm(left)
		<-t.c
		return
	}

	for time.Now().Before(t.due) {
		// No sleep is as short.
	}
}

func (t *timerfd) Close() {
	_ = t.f.Close()
	<-t.done
}
