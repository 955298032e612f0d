package workertest

import (
	"net"
	"sync"
)

// connect returns a connection to a server. Writes are buffered without a bound: with a plain pipe, a server that answers a
// pipeline would block on a client that is still sending it.
func connect(server net.Conn) net.Conn {
	near, far := net.Pipe()
	end := sync.OnceFunc(func() {
		_ = far.Close()
		_ = server.Close()
	})
	pump(far, server, end)
	pump(server, far, end)
	return near
}

// pump moves bytes one way until either side is closed, and calls end then.
func pump(from, to net.Conn, end func()) {
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
			if len(send) == 0 {
				return
			}
			if _, err := to.Write(send); err != nil {
				return
			}
		}
	}()
}
