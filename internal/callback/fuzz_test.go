package callback

import (
	"bufio"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// FuzzAnswer checks that an attempt ends within its timeout, with a result of the closed set, whatever bytes
// the receiver answers.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 503 x\r\nRetry-After: 99999999999\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "HTTP/0.9 200\r\n\r\n", "\x00\xff",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 302 x\r\nLocation: \xff\r\n\r\n", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=-9999999999\r\n\r\n",
		"HTTP/1.1 410 Gone\r\nWebhook-Delivery: abort-message\r\n\r\n"} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	var answer atomic.Pointer[[]byte]
	addr := listen(f, nil, func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		if testkit.ReadRequest(in) != nil {
			return
		}
		_, _ = c.Write(*answer.Load())
	})
	h := newHandler(f, Options{})
	f.Fuzz(func(t *testing.T, b []byte, body bool) {
		answer.Store(&b)
		r := fixedRoute("http://" + addr + "/")
		if body {
			r.Ack = *ack(t, "json:code=SUCCESS")
		}
		r.HostConcurrency, r.Timeout = 0, 10*time.Second
		// One handler for each answer: an open breaker would defer the next calls.
		r.Prefix, r.Name = "p"+string(rune('a'+len(b)%26)), "p"
		from := time.Now()
		got := h.Handle(t.Context(), r, testNotice(`{"paid":true}`))
		if took := time.Since(from); took > 15*time.Second {
			t.Errorf("took %s", took)
		}
		if !slices.Contains(notice.Outcomes, got.Outcome) || got.Reason != "" && !slices.Contains(notice.Reasons, got.Reason) ||
			(got.Outcome == notice.OutcomeDelivered) != (got.Reason == "") {
			t.Errorf("%+v", got)
		}
		if got.After < 0 || got.After > maxRetryAfter || len(got.Response) > notice.KeptResponse || !utf8.ValidString(got.Response) {
			t.Errorf("after %s, %d bytes: %q", got.After, len(got.Response), got.Response)
		}
		if got.Outcome == notice.OutcomeDelivered && (got.Status < 200 || got.Status > 299) {
			t.Errorf("status %d counted as a delivery", got.Status)
		}
	})
}
