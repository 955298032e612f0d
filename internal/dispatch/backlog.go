package dispatch

// want is the kind of sweep requested for a shard.
type want int

const (
	wantNone    want = iota
	wantOverdue      // notices overdue by more than the grace
	wantDue          // all due notices: hints for some were dropped
)

// backlog holds the requested sweeps of one route, by shard. The lock of readyQueue guards it.
type backlog struct {
	shards []sweeps
	last   int // the last shard that was swept
}

// sweeps are those of one shard.
type sweeps struct {
	want   want   // the next one
	newest bool   // it starts with the newest notices
	from   string // where it looks for first attempts
}

func newBacklog(shards int) backlog {
	return backlog{shards: make([]sweeps, shards)}
}

// grow adds entries for new shards.
func (b *backlog) grow(shards int) {
	b.shards = append(b.shards, make([]sweeps, max(shards-len(b.shards), 0))...)
}

// ask requests a sweep of a shard. wantDue replaces wantOverdue.
func (b *backlog) ask(shard int, w want) { b.shards[shard].want = max(b.shards[shard].want, w) }

// next returns the next open shard, in turn, for which a sweep is requested.
func (b *backlog) next(open func(shard int) bool) (shard int, asked bool) {
	for i := range b.shards {
		shard := (b.last + 1 + i) % len(b.shards)
		if b.shards[shard].want != wantNone && open(shard) {
			b.last = shard
			return shard, true
		}
	}
	return 0, false
}

// begin removes and returns the request for a shard. Sweeps start in turn at the oldest and at the
// newest notice.
func (b *backlog) begin(shard int) (w want, newest bool) {
	s := &b.shards[shard]
	w, newest = s.want, s.newest
	s.want, s.newest = wantNone, !newest
	return w, newest
}
