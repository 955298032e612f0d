package dispatch

// want says what a sweep of a shard is to claim.
type want int

const (
	wantNone    want = iota
	wantOverdue      // what the event path has had its grace for
	wantDue          // everything due: this instance had no room for it before
)

// backlog is what sweeps of one route are asked for, by shard. Its queue's mutex
// guards it.
type backlog struct {
	wants  []want
	newest []bool // the end that the next sweep begins at
	last   int    // the shard swept last
}

func newBacklog(shards int) backlog {
	return backlog{wants: make([]want, shards), newest: make([]bool, shards)}
}

// grow makes room for more shards.
func (b *backlog) grow(shards int) {
	for len(b.wants) < shards {
		b.wants, b.newest = append(b.wants, wantNone), append(b.newest, false)
	}
}

// ask asks for a sweep of a shard. A call for more outweighs one for less.
func (b *backlog) ask(shard int, w want) { b.wants[shard] = max(b.wants[shard], w) }

// next is the shard whose turn it is among those asked for that are open.
func (b *backlog) next(open func(shard int) bool) (shard int, asked bool) {
	for i := range b.wants {
		shard := (b.last + 1 + i) % len(b.wants)
		if b.wants[shard] != wantNone && open(shard) {
			b.last = shard
			return shard, true
		}
	}
	return 0, false
}

// begin takes what is asked for of a shard, to be swept from the oldest and the
// newest end in turn.
func (b *backlog) begin(shard int) (w want, newest bool) {
	w, newest = b.wants[shard], b.newest[shard]
	b.wants[shard], b.newest[shard] = wantNone, !newest
	return w, newest
}
