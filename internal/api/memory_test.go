package api

import (
	"math/rand/v2"
	"testing"
)

// TestMemoryHoldsAShareForEachClient takes and gives back at random, as nine hostile
// clients: together they never hold more than the total, none of them more than a
// quarter, and a tenth client can always take what is reserved for it.
func TestMemoryHoldsAShareForEachClient(t *testing.T) {
	t.Parallel()
	const total, clients = 1 << 20, 10
	m := newMemory(total, clients, unobserved{})
	d := rand.New(rand.NewPCG(1, 20261123))
	held := map[string][]int64{}
	sum := map[string]int64{}
	for range 100_000 {
		name := string(rune('a' + d.IntN(clients-1)))
		if d.IntN(3) > 0 {
			if n := d.Int64N(total / 8); m.take(name, n) {
				held[name], sum[name] = append(held[name], n), sum[name]+n
			}
		} else if list := held[name]; len(list) > 0 {
			n := list[len(list)-1]
			m.giveBack(name, n)
			held[name], sum[name] = list[:len(list)-1], sum[name]-n
		}
		all := int64(0)
		for _, n := range sum {
			if all += n; n > total/4 {
				t.Fatalf("one client holds %d of %d", n, total)
			}
		}
		if all > total {
			t.Fatalf("%d of %d are held", all, total)
		}
		if !m.take("honest", m.reserved) {
			t.Fatalf("nothing is left for the tenth client; others hold %v", sum)
		}
		m.giveBack("honest", m.reserved)
	}
	for name, list := range held {
		for _, n := range list {
			m.giveBack(name, n)
		}
	}
	if m.beyond != 0 || len(m.held) != 0 {
		t.Errorf("all was given back, and %d and %v are held", m.beyond, m.held)
	}
}
