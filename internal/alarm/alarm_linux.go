package alarm

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

type timerfd struct {
	c    chan struct{}
	f    *os.File
	done chan struct{}
}

// New returns the most precise Alarm of this system: a timerfd.
func New() Alarm {
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

func (t *timerfd) Close() {
	_ = t.f.Close()
	<-t.done
}
