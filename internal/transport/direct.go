package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"
)

// exchange makes the call on one connection, and afterwards keeps or closes the connection. again reports
// that the connection was a kept one and that the receiver cannot have read the whole request.
func (p *Pool) exchange(ctx context.Context, c *directConn, x *Exchange, reused bool) (again bool, err error) {
	stop := context.AfterFunc(ctx, c.end)
	whole, keep := false, false
	defer func() {
		if !stop() {
			keep = false // its deadline has passed or is about to
		}

		switch {
		case err != nil || x.Answer.BodyErr != nil:
			_ = c.under.Close() // not c.Close: writing the TLS close message could block
		case !keep || !p.idle.put(c):
			c.close()
		}
	}()

	x.Progress.set(StageSend)
	if x.Observe {
		x.Progress.connected(c.Conn)
	}

	err = c.SetDeadline(x.Deadline)
	if err == nil {
		whole, keep, err = c.talk(x, reused)
	}

	if !errors.Is(err, errClosed) {
		x.Progress.Requests++
	}

	if reused && err != nil && ctx.Err() == nil && !IsTimeout(err) && time.Since(c.taken) < closedEvery {
		c.foundClosed(c.taken) // before the request, or while it was on its way
	}

	return x.judge(ctx.Err(), err, reused && !whole)
}

// judge returns the error of an exchange, and whether to repeat the exchange. ended is the error of its context: reading and
// writing report the end of a context as a timeout. unsent means that the receiver cannot have read the whole request.
func (x *Exchange) judge(ended, err error, unsent bool) (again bool, _ error) {
	if ended != nil {
		x.Answer.Expired = errors.Is(ended, context.DeadlineExceeded)
	}

	switch {
	case err == nil:
		if ended != nil && x.Answer.BodyErr != nil {
			x.Answer.BodyErr = ended
		}
		return false, nil
	case ended != nil:
		return false, ended
	case IsTimeout(err):
		x.Answer.Expired = true
		return false, err
	}

	return unsent, err
}

// inline is the longest body that is written together with the head, before the answer is read.
const inline = 16 << 10

// talk sends the request and reads the answer into x.Answer. whole reports that the kernel has taken all of the request, keep that
// the connection can carry another one.
func (c *directConn) talk(x *Exchange, reused bool) (whole, keep bool, err error) {
	body, whole, err := c.send(x, reused)
	if err != nil {
		return whole, false, err
	}

	r := getReader(c, x.Deadline)
	defer putReader(r)

	resp, err := r.head()
	if err != nil {
		if body.stop() {
			whole = true
			x.Progress.set(StageHeaders)
		}
		return whole, false, err
	}

	return true, x.readAnswer(c, r, resp, body), nil
}

// send writes the request. A long body is written in a separate goroutine, the returned sending. whole reports that the kernel
// has taken all of the request.
func (c *directConn) send(x *Exchange, reused bool) (body *sending, whole bool, err error) {
	b := getBuffer()
	*b = x.Request.appendHead(*b, x.proxy)

	if len(x.Request.Body) > inline {
		if reused && c.check != nil && c.check.closed() {
			putBuffer(b)
			return nil, false, errClosed
		}
		return c.start(b, x.Request.Body), false, nil
	}

	*b = append(*b, x.Request.Body...)
	if whole, err = c.write(b, reused); whole {
		x.Progress.set(StageHeaders)
		if err != nil && IsTimeout(err) {
			err = nil // the answer may have come in time: see reader.Read
		}
	}

	return nil, whole, err
}

// readAnswer reads the answer after its head into x.Answer, and reports whether the connection can carry another request. body is
// the part of the request that is still being written.
func (x *Exchange) readAnswer(c *directConn, r *reader, resp *http.Response, body *sending) (keep bool) {
	a := &x.Answer
	x.answered(resp)
	c.readKeepAlive(resp.Header)

	if a.Status == http.StatusSwitchingProtocols { // a stream, not an answer
		body.stop()
		return false
	}

	drained := false // the read deadline is earlier than the deadline of the call
	if x.StatusOnly && !r.has(resp.ContentLength) {
		if at := time.Now().Add(bodyDrain); x.Deadline.IsZero() || at.Before(x.Deadline) {
			drained = c.SetReadDeadline(at) == nil
		}
	}

	all := a.readBody(resp.Body, resp.ContentLength)
	if a.BodyErr != nil && IsTimeout(a.BodyErr) {
		a.Expired = !drained
	}

	return body.stop() && all && !resp.Close && r.br.Buffered() == 0
}

// sending is a long body that is written in a separate goroutine, because the answer may come before its end.
type sending struct {
	c    *directConn
	done chan struct{}
	err  error
}

// start begins to write a head and a long body in a separate goroutine.
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

// lateWrite is the time limit for writing the rest of a body after its answer was read.
const lateWrite = 50 * time.Millisecond

// stop ends the writing of the body and reports whether all of it was written. On a nil sending it returns
// true.
func (s *sending) stop() bool {
	if s == nil {
		return true
	}

	select {
	case <-s.done:
	default: // usually the goroutine just has not run yet
		ended := make(chan struct{})
		late := time.AfterFunc(lateWrite, func() {
			defer close(ended)
			s.c.end()
		})
		<-s.done
		if !late.Stop() {
			<-ended // it must not interrupt the next call
		}
	}

	return s.err == nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// getBuffer returns an empty buffer for a request, from a pool.
func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	*b = (*b)[:0]
	buffers.Put(b)
}

// reader reads the head and body of one answer from a connection, with a limit on the size of the head. The
// readers are pooled.
type reader struct {
	br   *bufio.Reader
	c    *directConn
	end  time.Time // deadline of the call; zero: none
	late bool      // the time after the deadline was used, see readsLate
	left int       // bytes that the head may still have, all 1xx heads included
	line [80]byte  // beginning of the status line
	err  error     // last error of Read
}

var readers = sync.Pool{New: func() any {
	r := &reader{}
	r.br = bufio.NewReader(r)
	return r
}}

func getReader(c *directConn, end time.Time) *reader {
	r := readers.Get().(*reader)
	r.c, r.end, r.late, r.left, r.err = c, end, false, MaxHead, nil
	r.br.Reset(r)
	return r
}

func putReader(r *reader) {
	r.c, r.err = nil, nil
	readers.Put(r)
}

// Read fills r.br. It limits the length of the head and retries once after a late timeout.
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
	// missedBy is the minimal delay between the call's deadline and its timeout that shows that this process
	// did not run at the deadline.
	missedBy = 10 * time.Millisecond
	// lateRead is the time for which the answer is read after such a timeout.
	lateRead = 50 * time.Millisecond
)

// readsLate reports whether to read once more after a timeout, and extends the deadline for that. A process
// that was stopped at the deadline finds the timeout together with an answer that arrived in time.
func (r *reader) readsLate(err error) bool {
	if err == nil || r.late || r.end.IsZero() || !IsTimeout(err) || time.Since(r.end) < missedBy {
		return false
	}

	r.late = true
	return r.c.SetReadDeadline(time.Now().Add(lateRead)) == nil
}

var errLongHead = fmt.Errorf("its head is longer than %d KiB", MaxHead>>10)

// postRequest tells http.ReadResponse that the request was not a HEAD, so the answer may have a body.
var postRequest = &http.Request{Method: http.MethodPost}

// head reads the answer's head and skips 1xx answers.
func (r *reader) head() (*http.Response, error) {
	if _, err := r.br.Peek(1); err != nil {
		return nil, err // returned unchanged: http.ReadResponse would replace it
	}

	for {
		seen, _ := r.br.Peek(r.br.Buffered())
		line := r.line[:copy(r.line[:], seen)]
		resp, err := http.ReadResponse(r.br, postRequest)
		if err != nil {
			return nil, r.headError(err, line)
		}

		if resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			r.left = math.MaxInt
			return resp, nil
		}
	}
}

// HeadError means that the head of the answer could not be read.
type HeadError struct {
	error
	Line string // beginning of the status line
}

// Unwrap returns the error of the parser or of the connection.
func (e *HeadError) Unwrap() error { return e.error }

// headError returns the error of a head that begins with that line. err is the parser's.
func (r *reader) headError(err error, line []byte) error {
	const version = "HTTP/"
	// The end of the connection, or a timeout, cuts a line off, which looks malformed.
	if r.err != nil && strings.HasPrefix(version, string(line[:min(len(line), len(version))])) {
		err = r.err
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}

	line, _, whole := bytes.Cut(line, []byte("\n"))
	if !whole && len(line) == len(r.line) { // it may end within a secret that the receiver repeats
		line = line[:len("HTTP/1.1 200")]
	}

	return &HeadError{err, string(bytes.TrimSpace(line))}
}

// has reports whether a body of that length is already buffered.
func (r *reader) has(length int64) bool {
	return length >= 0 && length <= int64(r.br.Buffered())
}
