package store

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// A trim reads large records in smaller parts, when Redis's buffers do not allow larger ones.
func TestLargeRecordsPassSmallBuffers(t *testing.T) {
	t.Parallel()
	const n = 40
	srv := testkit.StartRedis(t, testkit.WithConfig("client-output-buffer-limit normal 150kb 150kb 0"))
	s := on(t, srv.URL(), "notifier")
	s.o.RepeatWindow, s.o.RepeatBytes = time.Hour, 1<<20
	ctx, text := t.Context(), bytes.Repeat([]byte("x"), 64<<10)
	for i := range n {
		key := fmt.Sprintf("app1:m:t:%d", i)
		s.put(t, Request{Key: key, Content: notice.Content{Body: text}})
		s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndDelivered})
	}
	left, failures := n, 0
	s.o.Retain = 0
	for left > 0 && failures < 10 {
		trimmed, _, err := s.Trim(ctx, 0, []Trim{{Prefix: prefix}}, 1000)
		if left -= trimmed; err != nil {
			failures++
		}
	}
	if left > 0 || failures == 0 {
		t.Errorf("%d of %d notices were not trimmed after %d failures", left, n, failures)
	}
	if size := s.w.Replies(0).Size(maxTrimBytes); size > 150<<10 {
		t.Errorf("a reply may have %d bytes", size)
	}
}
