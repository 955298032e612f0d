package callback

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"sync"
	"time"

	"notifier/internal/notice"
)

// The test binary is also the process that the tests stop. With this variable set, it makes calls to the url
// in it and writes their results.
const envFrozen = "NOTIFIER_TEST_FROZEN"

const (
	frozenCalls = 2 * breakerFailures // half of them to a path that never answers
	// frozenTimeout is longer than a slow machine takes until all calls have arrived.
	frozenTimeout = 4 * time.Second
)

// frozenOutcome is one call of the process.
type frozenOutcome struct {
	Path   string
	Result notice.Result
}

// frozenReport has the outcomes of all calls of the process, whether the receiver's breaker was open after
// them, and one more call.
type frozenReport struct {
	Calls []frozenOutcome
	Open  bool
	Next  notice.Result
}

func frozenHelper(address string) {
	h := New(Options{})
	defer h.Close()
	r := fixedRoute(address)
	r.Timeout, r.HostConcurrency = frozenTimeout, 0
	done := keepBusy()
	var report frozenReport
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range frozenCalls {
		path := []string{"answers", "hangs"}[i%2]
		n := testNotice(path)
		wg.Go(func() {
			res := h.Handle(context.Background(), r, n)
			mu.Lock()
			defer mu.Unlock()
			report.Calls = append(report.Calls, frozenOutcome{path, res})
		})
	}
	wg.Wait()
	close(done)
	to, _ := destinationOf(r.Target.URL)
	report.Open = h.Open(r, to.port)
	report.Next = h.Handle(context.Background(), r, testNotice("next"))
	_ = json.NewEncoder(os.Stdout).Encode(report)
}

// keepBusy delays the poller when the process resumes: the only processor has other work, so the timers fire
// before the sockets are read.
func keepBusy() chan struct{} {
	runtime.GOMAXPROCS(1)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	return done
}
