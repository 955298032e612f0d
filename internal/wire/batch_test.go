package wire

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestBatchIsHalvedUntilItGetsThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 1 << 20
		var b Batch
		failed := 0
		send := func() {
			n := b.Size(MaxBatchBytes)
			if n >= limit {
				failed++
				b.Done(n, 0, 0, io.EOF)
				return
			}
			b.Done(n, n, time.Millisecond, nil)
		}
		for range 100 {
			send()
		}
		if failed != 2 || b.Size(MaxBatchBytes) != limit/2 || b.limited() != limit {
			t.Errorf("%d failed, %d allowed, limited to %d", failed, b.Size(MaxBatchBytes), b.limited())
		}
		time.Sleep(2 * batchRetry) // virtual time
		send()
		if n := b.Size(MaxBatchBytes); n != limit || b.limited() != 0 {
			t.Errorf("%d allowed after a while, want another try of %d", n, limit)
		}
		for range 30 {
			b.Done(b.Size(MaxBatchBytes), 0, 0, io.EOF)
		}
		if n := b.Size(MaxBatchBytes); n != minBatchBytes {
			t.Errorf("%d allowed, want the minimum", n)
		}
		b.Done(minBatchBytes, 1, 0, nil) // says nothing
		for range 20 {
			b.Done(b.Size(MaxBatchBytes), b.Size(MaxBatchBytes), 0, nil)
		}
		if n := b.Size(MaxBatchBytes); n != MaxBatchBytes {
			t.Errorf("%d allowed after successes", n)
		}
		b.Done(MaxBatchBytes, MaxBatchBytes, 2*slowBatch, nil)
		if n := b.Size(MaxBatchBytes); n != MaxBatchBytes/2 {
			t.Errorf("%d allowed after a slow reply", n)
		}
	})
}
