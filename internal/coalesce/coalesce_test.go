package coalesce

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestItemsGatherOnlyWhileSendersAreBusy(t *testing.T) {
	release := make(chan struct{})
	sizes := make(chan int, 100)
	b := New(Options{MaxSenders: 1, MinExtra: 1, MaxBatch: 10}, func(items []int) {
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

func TestASecondSenderWaitsForItemsWorthACall(t *testing.T) {
	release := make(chan struct{})
	sizes := make(chan int, 100)
	b := New(Options{MaxSenders: 2, MinExtra: 4, MaxBatch: 10}, func(items []int) {
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
	b := New(Options{MaxSenders: 3, MinExtra: 5, MaxBatch: 7}, func(items []int) {
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
	x := New(Options{MaxSenders: 2, MinExtra: 1, MaxBatch: 128}, func([]int) {})
	for i := range b.N {
		x.Add(i)
	}
	x.Wait()
}
