package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// losing is a Fleet that may lose claims.
type losing struct{ lost atomic.Bool }

func (f *losing) ClaimID() string      { return "a" }
func (f *losing) MayStart(string) bool { return true }
func (f *losing) Lost(string) bool     { return f.lost.Load() }

// A worker's handler whose claim is lost learns it, and uses no attempt. Callbacks run on.
func TestLostLeaseEndsHandlersOfWorkers(t *testing.T) {
	for _, kind := range []route.Kind{route.KindWorker, route.KindLog} {
		synctest.Test(t, func(t *testing.T) {
			s, f := newFakeStore(), &losing{}
			s.put("a", 0, 2)
			var causes []error
			w := newWork(func(ctx context.Context, _ *notice.Notice) notice.Result {
				select {
				case <-ctx.Done():
					causes = append(causes, context.Cause(ctx))
					return notice.RetryResult(notice.ReasonRejected, "cancelled")
				case <-time.After(5 * time.Second):
					return notice.DeliveredResult(0)
				}
			})
			r := testRoute("a", 1) // one after the other
			r.Target.Kind = kind
			o := options(s, w, 10, r)
			o.Fleet = f
			d := begin(o)
			d.Sweep(keys.Partition{Prefix: "a"})
			after(time.Second)
			d.CheckLeases() // nothing is lost
			after(time.Millisecond)
			if len(causes) > 0 {
				t.Fatalf("%s: cancelled with %v before the instance was declared dead", kind, causes)
			}

			f.lost.Store(true)
			d.CheckLeases()
			after(time.Millisecond)
			f.lost.Store(false) // the instance has another id
			after(time.Minute)
			d.Sweep(keys.Partition{Prefix: "a"})
			after(time.Minute)
			switch ends := s.endings(); {
			case kind == route.KindLog && (len(causes) > 0 || ends[store.EndDelivered] != 2):
				t.Errorf("%s: cancelled with %v, %v", kind, causes, ends)
			case kind == route.KindWorker && (len(causes) == 0 || !errors.Is(causes[0], ErrLeaseLost) || ends[store.EndPostponed] == 0 ||
				ends[store.EndDelivered] == 0 || ends[store.EndRetry] > 0):
				t.Errorf("%s: cancelled with %v, %v", kind, causes, ends)
			}

			quiet(t, d)
			drain(t, d)
		})
	}
}
