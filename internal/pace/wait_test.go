package pace

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		from := time.Now()
		if !Wait(ctx, 2*time.Second) || time.Since(from) != 2*time.Second {
			t.Errorf("it has waited for %s instead of 2s, or says that ctx ended", time.Since(from))
		}
		if Wait(ctx, 2*time.Second) || time.Since(from) != 3*time.Second {
			t.Errorf("it went on for %s beyond its ctx, or does not say so", time.Since(from)-3*time.Second)
		}
	})
}
