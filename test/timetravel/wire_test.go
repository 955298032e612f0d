package timetravel

import (
	"errors"
	"net"
	"sync"
	"time"

	"notifier/internal/embedded"
)

var errRefused = errors.New("connection refused")

// cable makes the connections of one instance. It buffers writes without a bound. With a plain
// pipe, a server that answers a pipeline would block on a client that is still sending the
// pipeline.
type cable struct {
	em *embedded.Emulation

	mu    sync.Mutex
	links map[*link]struct{}
	down  bool
	dead  bool          // permanent
	gate  chan struct{} // closed = bytes pass
}

func newWire(em *embedded.Emulation) *cable {
	gate := make(chan struct{})
	close(gate)
	return &cable{em: em, links: map[*link]struct{}{}, gate: gate}
}

type link struct{ client, server net.Conn }

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// dial makes a connection.
func (w *cable) dial() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down || w.dead {
		return nil, errRefused
	}
	server, err := w.em.Dial()
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	l := &link{client: far, server: server}
	w.links[l] = struct{}{}
	w.pump(l, far, server)
	w.pump(l, server, far)
	return near, nil
}

// pump moves bytes one way until either side has closed.
func (w *cable) pump(l *link, from, to net.Conn) {
	var mu sync.Mutex
	more := sync.NewCond(&mu)
	var waiting []byte
	ended := false
	go func() {
		buf := make([]byte, 16<<10)
		for {
			n, err := from.Read(buf)
			mu.Lock()
			waiting = append(waiting, buf[:n]...)
			ended = ended || err != nil
			more.Signal()
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer func() {
			l.close()
			w.mu.Lock()
			delete(w.links, l)
			w.mu.Unlock()
		}()
		for {
			mu.Lock()
			for len(waiting) == 0 && !ended {
				more.Wait()
			}
			send, over := waiting, ended
			waiting = nil
			mu.Unlock()
			w.mu.Lock()
			gate := w.gate
			w.mu.Unlock()
			<-gate
			if len(send) > 0 {
				if _, err := to.Write(send); err != nil {
					return
				}
			} else if over {
				return
			}
		}
	}()
}

// cut closes all connections; data in transit are lost.
func (w *cable) cut() {
	w.mu.Lock()
	links := make([]*link, 0, len(w.links))
	for l := range w.links {
		links = append(links, l)
	}
	w.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

// away cuts, and refuses connections for a time.
func (w *cable) away(d time.Duration) {
	w.set(&w.down, true)
	w.cut()
	time.Sleep(d)
	w.set(&w.down, false)
}

// kill cuts all connections permanently, like the end of a process.
func (w *cable) kill() {
	w.set(&w.dead, true)
	w.cut()
}

func (w *cable) set(b *bool, to bool) {
	w.mu.Lock()
	*b = to
	w.mu.Unlock()
}

// hold lets no byte pass for a time, and then all that were sent: a network that
// is half open, or a process that was stopped.
func (w *cable) hold(d time.Duration) {
	gate := make(chan struct{})
	w.mu.Lock()
	w.gate = gate
	w.mu.Unlock()
	time.Sleep(d)
	close(gate)
}
