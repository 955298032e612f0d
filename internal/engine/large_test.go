//go:build !quick

package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// Claims once repeated for ever at a size that Redis's buffers did not allow.
func TestLargeNoticesPassSmallBuffers(t *testing.T) {
	for _, limit := range []string{"client-output-buffer-limit normal 1mb 1mb 0", "maxmemory-clients 600kb"} {
		t.Run(limit, func(t *testing.T) {
			const n = 400
			srv := testkit.StartRedis(t, testkit.WithConfig(limit))
			core, logs := observer.New(zap.ErrorLevel)
			h, attempts := newSink(2*n), make(chan int, 2*n)
			h.answer = func(n *notice.Notice) notice.Result {
				attempts <- n.AttemptsMade
				return notice.DeliveredResult(200)
			}
			w := start(t, srv, h, func(o *Options) { o.Logger = zap.New(core) }, testRoute("orders", "app1"))
			due := time.Now().Add(5 * time.Second)
			text := bytes.Repeat([]byte("x"), 64<<10)
			for i := range n {
				r := store.Request{Key: fmt.Sprintf("app1:m:t:%d", i), Due: due}
				r.Body = text
				eventually(t, "a repeated call is accepted", func() bool { // Redis may end any connection at these limits
					_, err := w.Schedule(t.Context(), r)
					if err != nil {
						t.Log(err)
					}
					return err == nil
				})
			}
			h.await(t, n)
			eventually(t, "all settled", func() bool {
				c, _, err := w.store.Counts(t.Context(), []string{"app1"})
				return err == nil && c[0].Pending == 0
			})
			h.once(t, n)
			for range n {
				if before := <-attempts; before != 0 {
					t.Errorf("an attempt follows %d", before)
				}
			}
			t.Logf("%s after the due time; limited to %d bytes; %d lines", time.Since(due), w.store.Wire().Limited(), logs.Len())
			eventually(t, "the log and /readyz name the limit", func() bool {
				lines := logs.FilterMessageSnippet("do not get through").All()
				name, _, _ := strings.Cut(limit, " ")
				return len(lines) > 0 && strings.Contains(fmt.Sprint(lines[0].ContextMap()["limit"]), name) &&
					strings.Contains(fmt.Sprint(w.Ready(t.Context())), "do not get through")
			})
		})
	}
}
