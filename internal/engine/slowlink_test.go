//go:build !quick

package engine

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// slowRate is the number of bytes a second that all connections of a slow link receive together.
const slowRate = 1 << 20

// slowLink forwards connections to Redis, and returns its address.
func slowLink(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var link sync.Mutex
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			all.Go(func() { _, _ = io.Copy(r, c); _ = r.Close() })
			all.Go(func() {
				defer func() { _, _ = c.Close(), r.Close() }()
				b := make([]byte, 16<<10)
				for {
					n, err := r.Read(b)
					if err != nil {
						return
					}
					link.Lock()
					time.Sleep(time.Duration(n) * time.Second / slowRate) // sleep: the speed of the link
					link.Unlock()
					if _, err := c.Write(b[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	return l.Addr().String()
}

// A reply of 4 MiB takes longer than the timeout of a reply.
func TestLargeNoticesPassSlowLink(t *testing.T) {
	const n = 100
	srv := testkit.StartRedis(t)
	h := newSink(2 * n)
	w := start(t, srv, h, func(o *Options) {
		conn, err := wire.Open(wire.Address{URL: strings.Replace(srv.URL(), srv.Addr(), slowLink(t, srv.Addr()), 1)})
		if err != nil {
			t.Fatal(err)
		}
		_ = o.Conn.Close()
		t.Cleanup(func() { _ = conn.Close() })
		o.Conn = conn
	}, testRoute("orders", "app1"))
	due := time.Now().Add(3 * time.Second)
	for i := range n {
		r := store.Request{Key: fmt.Sprintf("app1:m:t:%d", i), Due: due}
		r.Body = bytes.Repeat([]byte("x"), 64<<10)
		if _, err := w.Schedule(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	h.await(t, n)
	h.once(t, n)
	t.Logf("%s after the due time", time.Since(due))
}
