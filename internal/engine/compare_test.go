package engine

import (
	"context"
	"testing"
	"time"

	"notifier/internal/notice"
)

// A timer is cancelled where a producer has put a key of another type in its place, of which Redis sends an event.
func TestATimerThatBecomesAHashIsCancelled(t *testing.T) {
	t.Parallel()
	w, c := adopting(t, newGot(10))
	ctx := context.Background()
	for i := range 20 {
		k := key(i)
		c.Set(ctx, k, "p", time.Hour)
		w.until(t, k, notice.Scheduled)
		p := c.TxPipeline()
		p.Del(ctx, k)
		p.HSet(ctx, k, "f", "v")
		if _, err := p.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		w.until(t, k, notice.Cancelled)
	}
}
