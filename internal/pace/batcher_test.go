package pace

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestItemsGatherWhileSendersAreBusy(t *testing.T) {
	release := make(chan struct{})
	sizes := make(chan int, 100)
	b := NewBatcher(BatcherOptions{MaxSenders: 1, MinExtra: 1, MaxBatch: 10}, func(items []int) {
		sizes <- len(items)
		<-release
	})
	b.Add(0)
	if n := <-sizes; n != 1 {
		t.Fatalf("the first batch has %d items, want 1 at once", n)
	}
	for i := range 25 {
		b.Add(i)
	}
	close(release)
	b.Wait()
	for _, want := range []int{10, 10, 5} {
		if n := <-sizes; n != want {
			t.Errorf("batch of %d, want %d", n, want)
		}
	}
	if b.Len() != 0 {
		t.Errorf("%d left", b.Len())
	}
}

func TestSecondSenderWaitsForMinExtraItems(t *testing.T) {
	release := make(chan struct{})
	sizes := make(chan int, 100)
	b := NewBatcher(BatcherOptions{MaxSenders: 2, MinExtra: 4, MaxBatch: 10}, func(items []int) {
		sizes <- len(items)
		<-release
	})
	b.Add(0)
	if n := <-sizes; n != 1 {
		t.Fatalf("the first batch has %d items, want 1 at once", n)
	}
	for i := range 4 {
		if b.Len() != i {
			t.Fatalf("%d wait, want %d", b.Len(), i)
		}
		b.Add(i)
	}
	if n := <-sizes; n != 4 {
		t.Errorf("the second sender took %d, want 4", n)
	}
	b.Add(9) // both are busy
	close(release)
	b.Wait()
	if n := <-sizes; n != 1 {
		t.Errorf("the last batch has %d items, want 1", n)
	}
}

func TestEveryItemIsSentOnce(t *testing.T) {
	var seen [10000]atomic.Int32
	b := NewBatcher(BatcherOptions{MaxSenders: 3, MinExtra: 5, MaxBatch: 7}, func(items []int) {
		for _, i := range items {
			seen[i].Add(1)
		}
	})
	var wg sync.WaitGroup
	for w := range 10 {
		wg.Go(func() {
			for i := range 1000 {
				b.Add(w*1000 + i)
			}
		})
	}
	wg.Wait()
	b.Wait()
	for i := range seen {
		if n := seen[i].Load(); n != 1 {
			t.Fatalf("item %d was sent %d times", i, n)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	b.ReportAllocs()
	x := NewBatcher(BatcherOptions{MaxSenders: 2, MinExtra: 1, MaxBatch: 128}, func([]int) {})
	for i := range b.N {
		x.Add(i)
	}
	x.Wait()
}

// With an Interval a single item is sent at once. Items soon after it gather until the Interval is over,
// or until there are MinExtra.
func TestItemsGatherUntilIntervalEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		begin := time.Now()
		b := NewBatcher(BatcherOptions{MaxSenders: 2, MinExtra: 4, MaxBatch: 10, Interval: 5 * time.Millisecond}, func(items []int) {
			got = append(got, fmt.Sprint(time.Since(begin), items))
		})
		add := func(at time.Duration, items ...int) {
			time.Sleep(at - time.Since(begin))
			for _, i := range items {
				b.Add(i)
			}
			synctest.Wait()
		}
		add(0, 0)
		add(time.Millisecond, 1)
		add(2*time.Millisecond, 2)
		add(6*time.Millisecond, 3, 4, 5, 6) // enough for a batch
		add(30*time.Millisecond, 7)
		add(31*time.Millisecond, 8)
		b.Wait()
		if want := []string{"0s [0]", "5ms [1 2]", "6ms [3 4 5 6]", "30ms [7]", "35ms [8]"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// SetInterval(0) sends the waiting items, and later items do not wait.
func TestSetIntervalZeroSendsWaitingItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		begin := time.Now()
		b := NewBatcher(BatcherOptions{MaxSenders: 2, MinExtra: 4, MaxBatch: 10, Interval: time.Hour}, func(items []int) {
			got = append(got, fmt.Sprint(time.Since(begin), items))
		})
		b.Add(0)
		synctest.Wait()
		b.Add(1)
		synctest.Wait()
		if b.Len() != 1 {
			t.Fatalf("%d wait, want 1", b.Len())
		}
		b.SetInterval(0)
		synctest.Wait()
		b.Add(2)
		synctest.Wait()
		b.Wait()
		if want := []string{"0s [0]", "0s [1]", "0s [2]"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// With any interval each item is sent once, and Wait waits for the last one.
func TestEveryItemIsSentOnceWithAnInterval(t *testing.T) {
	var seen [4000]atomic.Int32
	b := NewBatcher(BatcherOptions{MaxSenders: 2, MinExtra: 50, MaxBatch: 60, Interval: 20 * time.Microsecond}, func(items []int) {
		for _, i := range items {
			seen[i].Add(1)
		}
	})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				b.Add(w*1000 + i)
				if i%10 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	b.Wait()
	for i := range seen {
		if n := seen[i].Load(); n != 1 {
			t.Fatalf("item %d was sent %d times", i, n)
		}
	}
}

// The items of one destination do not wait for those of another, and Wait waits for all.
func TestGroupHasSendersPerDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []int
		hold := make(chan struct{})
		g := NewBatchers[string](BatcherOptions{MaxSenders: 1, MinExtra: 1, MaxBatch: 10}, func(items []int) {
			if items[0] < 0 {
				<-hold
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, items...)
		})
		if a, again, b := g.For("a"), g.For("a"), g.For("b"); a != again || a == b {
			t.Error("a destination has not exactly one Batcher")
		}
		g.For("a").Add(-1)
		g.For("b").Add(2)
		synctest.Wait()
		mu.Lock()
		if !slices.Equal(got, []int{2}) {
			t.Errorf("%v are sent while one destination hangs", got)
		}
		mu.Unlock()
		close(hold)
		g.Wait()
		if !slices.Equal(got, []int{2, -1}) {
			t.Errorf("%v are sent in the end", got)
		}
	})
}
