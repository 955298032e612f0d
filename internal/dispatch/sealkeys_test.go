package dispatch

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"notifier/internal/vault"
)

// woken counts its wake-ups.
type woken struct{ n atomic.Int32 }

func (w *woken) wake() { w.n.Add(1) }

// A route claims nothing for avoidFor after a notice needed a key that is missing, and then tries again. The key counts as
// missing for longer.
func TestRouteIsAvoidedWithoutItsServiceKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w woken
		k := &serviceKeys{logger: zap.NewNop(), queue: &w}
		if k.missing() || len(k.names()) != 0 {
			t.Error("a key is missing before any notice needed it")
		}
		k.avoid(fmt.Errorf("open: %w", &vault.MissingKeyError{Name: "new"}))
		k.avoid(fmt.Errorf("open: %w", &vault.MissingKeyError{Name: "new"}))
		after(avoidFor - time.Millisecond)
		if !k.missing() || w.n.Load() != 0 {
			t.Errorf("missing %v, woken %d times", k.missing(), w.n.Load())
		}
		after(time.Millisecond)
		if k.missing() || w.n.Load() != 1 || !slices.Equal(k.names(), []string{"new"}) {
			t.Errorf("missing %v, woken %d times, names %v", k.missing(), w.n.Load(), k.names())
		}
		after(missingFor)
		if len(k.names()) != 0 {
			t.Errorf("names %v", k.names())
		}
	})
}
