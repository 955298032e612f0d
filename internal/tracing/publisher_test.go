package tracing

import (
	"testing"
	"time"

	"go.uber.org/zap"
)

// publishing are copies that a Publisher has published at the times of a clock.
type publishing struct {
	*node
	c  *clock
	at []time.Time
	// bytes are those of the messages.
	bytes []int
}

// try makes n attempts on a key, one each step, and returns how many copies were published.
func (x *publishing) try(key string, n int, body []byte, step time.Duration) (published int) {
	for range n {
		if x.attempted(key, body) {
			published++
			x.at, x.bytes = append(x.at, x.c.at), append(x.bytes, len(<-x.queue))
		}
		x.c.at = x.c.at.Add(step)
	}
	return published
}

// most returns the most copies and bytes of any second.
func (x *publishing) most() (copies, bytes int) {
	for i, from := range x.at {
		n, sum := 0, 0
		for j := i; j < len(x.at) && x.at[j].Sub(from) < time.Second; j++ {
			n, sum = n+1, sum+x.bytes[j]
		}
		copies, bytes = max(copies, n), max(bytes, sum)
	}
	return copies, bytes
}

func newPublishing(instances int, taps ...string) *publishing {
	c := &clock{time.Unix(1, 0)}
	seen := &counts{by: map[string]int{}}
	p := NewPublisher(PublisherOptions{Observer: seen, Logger: zap.NewNop(), Now: c.now})
	p.Watch(taps, instances)
	return &publishing{node: &node{Publisher: p, counts: seen}, c: c}
}

// No second has more copies than the limit, wherever it begins: a token bucket allowed twice as many.
func TestAnySecondHasAtMostTheShareOfCopies(t *testing.T) {
	t.Parallel()
	for instances, copies := range map[int]int{1: Copies, 2: Copies / 2, 8: Copies / 8} {
		x := newPublishing(instances, "shop a app1")
		x.try("app1:orders:x:1", 5000, nil, time.Millisecond)
		if n, _ := x.most(); n != copies {
			t.Errorf("%d instances: %d copies within a second, want %d", instances, n, copies)
		}
		if n := len(x.at); n < 4*copies || n+x.counts.of(Dropped) != 5000 {
			t.Errorf("%d instances: %d copies in five seconds, %d dropped", instances, n, x.counts.of(Dropped))
		}
		x.c.at = x.c.at.Add(time.Second)
		x.at, x.bytes = nil, nil
		x.try("app1:orders:x:1", 250, make([]byte, MaxBody), 20*time.Millisecond)
		if _, n := x.most(); n > Bytes/instances || len(x.at) < 4 {
			t.Errorf("%d instances: %d bytes within a second in %d copies, want at most %d", instances, n, len(x.at), Bytes/instances)
		}
	}
}

// Copies for the taps of one client do not use up the share of another client.
func TestCopiesOfAClientAreItsShare(t *testing.T) {
	t.Parallel()
	x := newPublishing(1, "shop a app1", "shop b app1:orders", "till c app2")
	if n := x.try("app1:orders:x:1", 1000, nil, 0); n != Copies/2 {
		t.Errorf("%d copies, want half of all", n)
	}
	if n := x.try("app2:orders:x:1", 10, nil, 0); n != 10 {
		t.Errorf("%d of the other client's 10 attempts were copied", n)
	}
	for _, w := range x.watched.Load().prefixes {
		want := int64(1000 - Copies/2)
		if w.name == "app2" {
			want = 0
		}
		if got := w.dropped.Load(); got != want {
			t.Errorf("prefix %s counts %d dropped, want %d", w.name, got, want)
		}
	}
	if n := newPublishing(1, "shop a app1", "till b app1").try("app1:orders:x:1", 1000, nil, 0); n != Copies {
		t.Errorf("%d copies for two clients, want all", n)
	}
}
