package callback

// links connect an item to its links in a byUse list.
type links[T any] struct{ newer, older *T }

// byUse is a list of items ordered by last use. The links are fields of the items, so no operation allocates.
// It is not safe for concurrent use: the owner holds a lock.
type byUse[T any, P interface {
	*T
	byUseLinks() *links[T]
}] struct {
	newest, oldest P
	n              int
}

// push adds an item that is in no list, as the most recently used.
func (l *byUse[T, P]) push(p P) {
	*p.byUseLinks() = links[T]{older: l.newest}
	if l.newest != nil {
		l.newest.byUseLinks().newer = p
	} else {
		l.oldest = p
	}

	l.newest = p
	l.n++
}

// remove takes an item out of the list.
func (l *byUse[T, P]) remove(p P) {
	by := p.byUseLinks()
	if by.newer != nil {
		P(by.newer).byUseLinks().older = by.older
	} else {
		l.newest = by.older
	}

	if by.older != nil {
		P(by.older).byUseLinks().newer = by.newer
	} else {
		l.oldest = by.newer
	}

	*by = links[T]{}
	l.n--
}
