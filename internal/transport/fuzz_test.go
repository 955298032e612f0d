package transport

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// canned is a connection whose other end has written its answers in advance, in parts, and then closes it.
type canned struct {
	net.Conn
	parts  [][]byte
	asked  int
	closed atomic.Bool
}

func (c *canned) Write(b []byte) (int, error) { c.asked++; return len(b), nil }

func (c *canned) Read(b []byte) (int, error) {
	for len(c.parts) > 0 && len(c.parts[0]) == 0 {
		c.parts = c.parts[1:]
	}
	if len(c.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.parts[0])
	c.parts[0] = c.parts[0][n:]
	return n, nil
}

func (c *canned) left() (n int) {
	for _, p := range c.parts {
		n += len(p)
	}
	return n
}

func (c *canned) Close() error                     { c.closed.Store(true); return nil }
func (c *canned) SetDeadline(time.Time) error      { return nil }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }

// isOneAnswer reports whether b is one answer, with 1xx answers before it, and nothing else.
func isOneAnswer(b []byte) bool {
	in := bufio.NewReader(bytes.NewReader(b))
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return false
		}
		if resp.StatusCode >= 100 && resp.StatusCode <= 199 {
			continue
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Close {
			return false
		}
		_, err = in.ReadByte()
		return err == io.EOF
	}
}

// FuzzReadAnswer checks that any bytes of a receiver give an answer within the bounds or an error. A connection is kept
// only if the bytes that were read are one answer.
func FuzzReadAnswer(f *testing.F) {
	for _, s := range []string{"", "\x00\xff", "HTTP/1.1 000\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nto the end",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nx", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nContent-Length: 0\r\n\r\n"} {
		f.Add([]byte(s), uint16(1), false)
		f.Add([]byte(s), uint16(len(s)/2), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint16, statusOnly bool) {
		at := min(int(cut), len(b))
		c := &canned{parts: [][]byte{bytes.Clone(b[:at]), bytes.Clone(b[at:])}}
		o := Origin{Addr: "shop.example:80"}
		d := newDirectConn(c, c, &originState{origin: o}, nil, DefaultIdle)
		p := newPool(t)
		x := postTo(o.Addr, "x")
		x.StatusOnly = statusOnly
		again, err := p.exchange(t.Context(), d, x, false)
		a := &x.Answer
		switch {
		case again || c.asked != 1:
			t.Errorf("sent %d times, again %v", c.asked, again)
		case err != nil && a.Status != 0:
			t.Errorf("%v with status %d", err, a.Status)
		case err == nil && (a.Status < 0 || a.Status > 999 || a.Status >= 100 && a.Status < 200 && a.Status != http.StatusSwitchingProtocols):
			t.Errorf("status %d", a.Status)
		case len(a.Body) > MaxBody, a.More && len(a.Body) != MaxBody:
			t.Errorf("%d bytes of body, more %v", len(a.Body), a.More)
		}
		kept := p.idle.take(o)
		if (kept == nil) != c.closed.Load() {
			t.Errorf("kept %v and closed %v", kept != nil, c.closed.Load())
		}
		if kept == nil {
			return
		}
		defer kept.close()
		if read := b[:len(b)-c.left()]; err != nil || a.BodyErr != nil || a.More || !isOneAnswer(read) {
			t.Errorf("kept after %v, %v: %q", err, a.BodyErr, read)
		}
	})
}
