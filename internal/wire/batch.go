package wire

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sizes of batches, in bytes, and the times of calls that change them.
const (
	MaxBatchBytes   = 4 << 20
	minBatchBytes   = 1 << 10
	firstBatchBytes = 256 << 10

	quickBatch = 250 * time.Millisecond // after it, a full batch is doubled
	slowBatch  = time.Second            // after it, a full batch is halved
	batchRetry = time.Minute            // until a size that failed twice is tried again
)

// Batch is the size of the large replies, or requests, of one shard. Redis closes a connection whose buffers exceed
// client-output-buffer-limit or maxmemory-clients, and a slow link does not carry a large reply in time. A batch that got
// no reply is halved, one that was quick is doubled. The zero value is ready for use.
type Batch struct {
	mu     sync.Mutex
	size   int // 0 = firstBatchBytes
	failed int // the size that got no reply last; 0 = larger ones got through since
	until  time.Time
}

// Size returns how many bytes the next call may have, at most most.
func (b *Batch) Size(most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size == 0 {
		b.size = firstBatchBytes
	}

	return min(b.size, most)
}

// Done records a call that was allowed a number of bytes and had got, and reports whether the next one is smaller.
func (b *Batch) Done(allowed, got int, took time.Duration, err error) (smaller bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if allowed != b.size || errors.Is(err, context.Canceled) {
		return false // of a call that began before the last change
	}

	switch {
	case err != nil && !mayHaveRun(err):
	case err != nil && allowed == minBatchBytes: // the size is not the cause
		b.failed, b.until = 0, time.Time{}
	case err != nil:
		if allowed == b.failed {
			b.until = time.Now().Add(batchRetry)
		}

		b.failed, b.size = allowed, max(allowed/2, minBatchBytes)
		return b.size < allowed
	case 2*got < allowed: // so small that it says nothing about this size
	case took > slowBatch:
		b.size = max(allowed/2, minBatchBytes)
	case took < quickBatch && allowed < MaxBatchBytes && (2*allowed < b.failed || time.Now().After(b.until)):
		if b.size = 2 * allowed; allowed >= b.failed {
			b.failed = 0
		}
	}

	return false
}

// Reply makes a call whose reply may have at most so many bytes of texts, at most most, and adapts the size to the result.
// smaller reports whether the next call may have fewer.
func (b *Batch) Reply(most int, call func(bytes int) ([]any, error)) (v []any, smaller bool, err error) {
	bytes, sent := b.Size(most), time.Now()
	v, err = call(bytes)
	return v, b.Done(bytes, ReplySize(v), time.Since(sent), err), err
}

// limited returns the size that failed repeatedly while smaller ones got through; 0 if there is none.
func (b *Batch) limited() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().After(b.until) {
		return 0
	}

	return b.failed
}

// batches are the Batches of a Client, by shard.
type batches struct{ replies, requests sync.Map }

// Replies returns the size of the replies of a shard.
func (w *Client) Replies(shard int) *Batch { return batchOf(&w.batches.replies, shard) }

// Requests returns the size of the requests to a shard.
func (w *Client) Requests(shard int) *Batch { return batchOf(&w.batches.requests, shard) }

func batchOf(m *sync.Map, shard int) *Batch {
	if b, ok := m.Load(shard); ok {
		return b.(*Batch)
	}

	b, _ := m.LoadOrStore(shard, new(Batch))
	return b.(*Batch)
}

// Limited returns the smallest size in bytes that does not get through repeatedly; 0 if there is none.
func (w *Client) Limited() (size int) {
	for _, m := range []*sync.Map{&w.batches.replies, &w.batches.requests} {
		m.Range(func(_, b any) bool {
			if n := b.(*Batch).limited(); n > 0 && (size == 0 || n < size) {
				size = n
			}
			return true
		})
	}

	return size
}

// ReplySize returns the number of bytes of the texts in a reply.
func ReplySize(v []any) (n int) {
	for _, x := range v {
		switch x := x.(type) {
		case string:
			n += len(x)
		case []any:
			n += ReplySize(x)
		}
	}

	return n
}

// BufferLimits names the settings of a server that limit the size of replies and requests.
func BufferLimits(ctx context.Context, c redis.Cmdable) string {
	var found []string
	if m, err := c.ConfigGet(ctx, "client-output-buffer-limit").Result(); err == nil {
		f := strings.Fields(m["client-output-buffer-limit"])
		if len(f) > 3 && f[0] == "normal" && (f[1] != "0" || f[2] != "0") {
			found = append(found, "client-output-buffer-limit is "+strings.Join(f[:4], " "))
		}
	}

	if m, err := c.ConfigGet(ctx, "maxmemory-clients").Result(); err == nil && m["maxmemory-clients"] != "" && m["maxmemory-clients"] != "0" {
		found = append(found, "maxmemory-clients is "+m["maxmemory-clients"])
	}

	if len(found) == 0 {
		return "the connection to Redis may be slow"
	}

	return strings.Join(found, ", ")
}

// BigReply asks a server for a reply of a number of bytes.
func BigReply(ctx context.Context, c redis.Cmdable, bytes int) error {
	return c.Eval(ctx, "return string.rep('x', tonumber(ARGV[1]))", nil, bytes).Err()
}
