//go:build !quick

package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// At 1 MiB a second a reply of 4 MiB takes longer than the timeout of a reply.
func TestLargeNoticesPassSlowLink(t *testing.T) {
	const n = 100
	srv := testkit.StartRedis(t)
	h := newSink(2 * n)
	w := start(t, srv, h, func(o *Options) {
		conn, err := wire.Open(wire.Address{URL: strings.Replace(srv.URL(), srv.Addr(), testkit.SlowLink(t, srv.Addr(), 1<<20), 1)})
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
