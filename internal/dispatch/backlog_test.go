package dispatch

import "testing"

func TestBacklogAlternatesShardsAndEnds(t *testing.T) {
	b, all := newBacklog(3), func(int) bool { return true }
	if _, asked := b.next(all); asked {
		t.Error("no sweep was requested")
	}
	b.ask(2, wantDue)
	b.ask(2, wantOverdue) // wantDue stays
	b.ask(0, wantOverdue)
	for _, c := range []struct {
		shard  int
		want   want
		newest bool
	}{{2, wantDue, false}, {0, wantOverdue, false}} {
		shard, asked := b.next(all)
		w, newest := b.begin(shard)
		if !asked || shard != c.shard || w != c.want || newest != c.newest {
			t.Errorf("shard %d (%v), %v, newest %v; want %+v", shard, asked, w, newest, c)
		}
	}
	if _, asked := b.next(all); asked {
		t.Error("a sweep that has begun is still requested")
	}
	for shard := range 3 {
		b.ask(shard, wantDue)
	}
	if shard, _ := b.next(all); shard != 1 {
		t.Errorf("shard %d, want the one after the last", shard)
	}
	if _, newest := b.begin(2); !newest {
		t.Error("the oldest end again")
	}
}
