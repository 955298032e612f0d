package embedded

import (
	"net"
	"sync"
)

// Pipe opens a connection within this process whose writes are buffered without a bound. With a connection of Dial, an
// emulation that answers a pipeline would block on a client that is still sending it. before is called before bytes are
// passed on in either direction, and may block. cut closes the connection, so that bytes in transit are lost. ended is
// called once for each direction when it has ended.
func (e *Emulation) Pipe(before, ended func()) (c net.Conn, cut func(), err error) {
	server, err := e.Dial()
	if err != nil {
		return nil, nil, err
	}

	near, far := net.Pipe()
	cut = func() {
		_ = far.Close()
		_ = server.Close()
	}
	end := func() {
		cut()
		ended()
	}
	pump(far, server, before, end)
	pump(server, far, before, end)
	return near, cut, nil
}

// pump moves bytes one way until either side is closed, and calls end then.
func pump(from, to net.Conn, before, end func()) {
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
		defer end()
		for {
			mu.Lock()
			for len(waiting) == 0 && !ended {
				more.Wait()
			}

			send := waiting
			waiting = nil
			mu.Unlock()
			before()
			if len(send) == 0 {
				return
			}
			if _, err := to.Write(send); err != nil {
				return
			}
		}
	}()
}
