package transport

// Links connect an item of a [ByUse] with its neighbours.
type Links[T any] struct{ newer, older *T }

// ByUse is a list of items ordered by last use. The links are fields of the items, so no operation allocates.
// It is not safe for concurrent use: the owner holds a lock.
type ByUse[T any, P interface {
	*T
	ByUseLinks() *Links[T]
}] struct {
	newest, oldest P
	n              int
}

// Oldest returns the least recently used item; nil if the list is empty.
func (l *ByUse[T, P]) Oldest() P { return l.oldest }

// Len returns the number of items.
func (l *ByUse[T, P]) Len() int { return l.n }

// Push adds an item that is in no list, as the most recently used.
func (l *ByUse[T, P]) Push(p P) {
	*p.ByUseLinks() = Links[T]{older: l.newest}
	if l.newest != nil {
		l.newest.ByUseLinks().newer = p
	} else {
		l.oldest = p
	}

	l.newest = p
	l.n++
}

// Remove takes an item out of the list.
func (l *ByUse[T, P]) Remove(p P) {
	by := p.ByUseLinks()
	if by.newer != nil {
		P(by.newer).ByUseLinks().older = by.older
	} else {
		l.newest = by.older
	}

	if by.older != nil {
		P(by.older).ByUseLinks().newer = by.newer
	} else {
		l.oldest = by.newer
	}

	*by = Links[T]{}
	l.n--
}
