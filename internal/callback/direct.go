package callback

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// direct makes calls over HTTP/1.1 in the goroutine that asks for them: it writes
// the request to a connection of its own and reads the answer with net/http's
// reader. net/http's transport has two more goroutines for each connection, which
// hand each call over and back and hold buffers while nothing comes.
type direct struct {
	dial             dialer
	conf             *tls.Config
	tlsTimeout, keep time.Duration
	idle             *idleConns
}

// exchange is one call on its way.
type exchange struct {
	call  *call
	tr    *tracker
	f     *facts
	end   time.Time // zero: none
	drain bool      // the result needs no body
	seen  *Exchange // nil: nobody is shown it
}

// do makes the call, and makes it again if it was not wholly written because the
// connection was a kept one that turned out to be closed. What the receiver may have
// read whole is not sent again: it may be at work on it. There is an end to it: each
// time a kept connection is used up, and a fresh one is tried once.
func (d *direct) do(ctx context.Context, x *exchange) error {
	for {
		c := d.idle.take(x.call.to.origin)
		reused := c != nil
		if !reused {
			var err error
			if c, err = d.connect(ctx, x); err != nil {
				return err
			}
		}
		again, err := d.exchange(ctx, c, x, reused)
		if !again {
			return err
		}
		x.tr.restart()
	}
}

// connect makes a connection.
func (d *direct) connect(ctx context.Context, x *exchange) (*directConn, error) {
	o := x.call.to.origin
	if !x.end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, x.end)
		defer cancel()
	}
	fail := func(err error) error {
		if ctx.Err() != nil { // what a dialer makes of it looks like a failure of the network
			err = ctx.Err()
			x.f.expired = errors.Is(err, context.DeadlineExceeded)
		}
		return err
	}
	tcp, err := d.dial(httptrace.WithClientTrace(ctx, x.tr.trace(false)), "tcp", o.addr)
	if err != nil {
		return nil, fail(err)
	}
	c := newDirectConn(tcp, o, d.keep)
	if !o.secure {
		return c, nil
	}
	x.tr.advance(stageTLS)
	conf := d.conf.Clone()
	conf.ServerName = o.serverName()
	c.secure, c.raw = tls.Client(tcp, conf), nil
	c.Conn = c.secure
	hand, cancel := context.WithTimeout(ctx, d.tlsTimeout)
	defer cancel()
	if err := c.secure.HandshakeContext(hand); err != nil {
		_ = tcp.Close()
		if hand.Err() != nil {
			err = hand.Err()
		}
		return nil, fail(err)
	}
	return c, nil
}

// exchange makes the call on one connection, which is kept or closed afterwards.
// again: it was a kept one, and the receiver cannot have read the request whole.
func (d *direct) exchange(ctx context.Context, c *directConn, x *exchange, reused bool) (again bool, err error) {
	stop := context.AfterFunc(ctx, c.end)
	whole, keep := false, false
	defer func() {
		if !stop() {
			keep = false // its deadline is past, or is about to be
		}
		switch {
		case err != nil || x.f.bodyErr != nil:
			_ = c.under.Close() // a farewell of TLS might wait
		case !keep || !d.idle.put(c):
			c.close()
		}
	}()
	x.tr.reused.Store(reused)
	x.tr.set(stageSend)
	if x.seen != nil {
		x.tr.connected(c)
	}
	err = c.SetDeadline(x.end)
	if err == nil {
		whole, keep, err = d.talk(c, x, reused)
	}
	now := ctx.Err() // what reading and writing make of it is a timeout
	if now != nil {
		x.f.expired = errors.Is(now, context.DeadlineExceeded)
	}
	switch {
	case err == nil:
		if now != nil && x.f.bodyErr != nil {
			x.f.bodyErr = now
		}
		return false, nil
	case now != nil:
		err = now
	case isTimeout(err):
		x.f.expired = true
	default:
		return reused && !whole, err
	}
	return false, err
}

// inline is the longest body that is sent with the head, before the answer is
// waited for.
const inline = 16 << 10

// talk sends the request and reads the answer into x.f. whole: the kernel has taken
// all of the request. keep: the connection can carry another.
func (d *direct) talk(c *directConn, x *exchange, reused bool) (whole, keep bool, err error) {
	b := getBuffer()
	*b = x.call.appendHead(*b)
	var body *sending
	if len(x.call.body) <= inline {
		*b = append(*b, x.call.body...)
		if whole, err = c.write(b, reused); whole {
			x.tr.set(stageHeaders)
		}
		if err != nil && !(whole && isTimeout(err)) { // an answer may have come in time: see reader.Read
			return whole, false, err
		}
	} else {
		if reused && c.check != nil && c.check.closed() {
			putBuffer(b)
			return false, false, errClosed
		}
		body = c.start(b, x.call.body)
	}
	r := getReader(c, x.end)
	defer putReader(r)
	resp, err := r.head()
	if err != nil {
		if body.stop() {
			whole = true
			x.tr.set(stageHeaders)
		}
		return whole, false, err
	}
	x.tr.set(stageBody)
	f := x.f
	f.status, f.header = resp.StatusCode, resp.Header
	if x.seen != nil {
		x.seen.answer(resp)
	}
	c.readKeepAlive(resp.Header)
	if f.status == http.StatusSwitchingProtocols { // a stream, not an answer
		body.stop()
		return true, false, nil
	}
	drained := false // until a time before the call's end
	if x.drain && !r.has(resp.ContentLength) {
		if at := time.Now().Add(bodyDrain); x.end.IsZero() || at.Before(x.end) {
			drained = c.SetReadDeadline(at) == nil
		}
	}
	all := readBody(f, resp.Body, resp.ContentLength)
	if f.bodyErr != nil && isTimeout(f.bodyErr) {
		f.expired = !drained
	}
	keep = body.stop() && all && !resp.Close && r.br.Buffered() == 0
	return true, keep, nil
}

// sending is a long body on its way: the answer to it may come before its end.
type sending struct {
	c    *directConn
	done chan struct{}
	err  error
}

// start writes a head and a long body in a goroutine of its own.
func (c *directConn) start(head *[]byte, body []byte) *sending {
	s := &sending{c: c, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_, s.err = c.Write(*head)
		putBuffer(head)
		if s.err == nil {
			_, s.err = c.Write(body)
		}
	}()
	return s
}

// lateWrite is how long a body may need to be written after its answer was read.
const lateWrite = 50 * time.Millisecond

// stop ends the sending and reports whether all was written. Without a sending, all was.
func (s *sending) stop() bool {
	if s == nil {
		return true
	}
	select {
	case <-s.done:
	default: // mostly it is only that the goroutine has not run yet
		late := time.AfterFunc(lateWrite, s.c.end)
		<-s.done
		if !late.Stop() {
			return false
		}
	}
	return s.err == nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// getBuffer lends an empty buffer for a request.
func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	*b = (*b)[:0]
	buffers.Put(b)
}

// reader reads one answer.
type reader struct {
	br   *bufio.Reader
	c    *directConn
	end  time.Time // of the call; zero: none
	late bool      // it reads after the end
	left int       // of what the head may be long, all 1xx before it included
	err  error     // the last of reading
}

var readers = sync.Pool{New: func() any {
	r := &reader{}
	r.br = bufio.NewReader(r)
	return r
}}

func getReader(c *directConn, end time.Time) *reader {
	r := readers.Get().(*reader)
	r.c, r.end, r.late, r.left, r.err = c, end, false, maxResponseHeads, nil
	r.br.Reset(r)
	return r
}

func putReader(r *reader) {
	r.c, r.err = nil, nil
	readers.Put(r)
}

// Read is what r.br reads by.
func (r *reader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongHead
	}
	n, err := r.c.Read(p[:min(len(p), r.left)])
	if n == 0 && r.readsLate(err) {
		n, err = r.c.Read(p[:min(len(p), r.left)])
	}
	r.left -= n
	r.err = err
	return n, err
}

const (
	// missedBy is how long after the call's end its timeout is found, at least, if this
	// process did not run at the end.
	missedBy = 10 * time.Millisecond
	// lateRead is how long the answer is read then.
	lateRead = 50 * time.Millisecond
)

// readsLate reports whether to read once more after a timeout. A process that was stopped
// at the end of a call finds the timeout and an answer that came in time together.
func (r *reader) readsLate(err error) bool {
	if err == nil || r.late || r.end.IsZero() || !isTimeout(err) || time.Since(r.end) < missedBy {
		return false
	}
	r.late = true
	return r.c.SetReadDeadline(time.Now().Add(lateRead)) == nil
}

var errLongHead = fmt.Errorf("its head is longer than %d KiB", maxResponseHeads>>10)

// asked is what net/http's reader wants to know of the request: not a HEAD.
var asked = &http.Request{Method: http.MethodPost}

// head reads the answer's head; what is said before it by 1xx is passed over.
func (r *reader) head() (*http.Response, error) {
	if _, err := r.br.Peek(1); err != nil {
		return nil, err // as it is: http.ReadResponse makes one of another meaning of it
	}
	for {
		resp, err := http.ReadResponse(r.br, asked)
		if err != nil {
			if r.err != nil && isTimeout(r.err) { // a line that is cut off by it looks malformed
				err = r.err
			}
			return nil, err
		}
		if resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			r.left = math.MaxInt
			return resp, nil
		}
	}
}

// has reports whether a body of that length is here already.
func (r *reader) has(length int64) bool {
	return length >= 0 && length <= int64(r.br.Buffered())
}
