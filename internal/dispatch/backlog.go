package dispatch

// want is the kind of sweep requested for a shard.
type want int

const (
	wantNone    want = iota
	wantOverdue      // notices overdue by more than the grace
	wantDue          // all due notices: hints for some were dropped
)

// backlog holds the requested sweeps of one route, by shard. The queue's mutex guards it.
type backlog struct {
	wants  []want
	newest []bool   // the next sweep starts with the newest notices
	from   []string // where the next sweep looks for first attempts
	last   int      // the last shard that was swept
}

func newBacklog(shards int) backlog {
	return backlog{wants: make([]want, shards), newest: make([]bool, shards), from: make([]string, shards)}
}

// grow adds entries for new shards.
func (b *backlog) grow(shards int) {
	for len(b.wants) < shards {
		b.wants, b.newest, b.from = append(b.wants, wantNone), append(b.newest, false), append(b.from, "")
	}
}

// ask requests a sweep of a shard. wantDue replaces wantOverdue.
func (b *backlog) ask(shard int, w want) { b.wants[shard] = max(b.wants[shard], w) }

// next returns the next open shard, in turn, for which a sweep is requested.
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

// begin removes and returns the request for a shard. Sweeps start in turn at the oldest and at the
// newest notice.
func (b *backlog) begin(shard int) (w want, newest bool) {
	w, newest = b.wants[shard], b.newest[shard]
	b.wants[shard], b.newest[shard] = wantNone, !newest
	return w, newest
}
