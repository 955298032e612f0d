package callback

// neighbours are what stands beside a thing in a byUse.
type neighbours[T any] struct{ newer, older *T }

// byUse is a list of things by when they were used last. Its links stand in the things:
// what goes through it allocates nothing. Whoever has it guards it.
type byUse[T any, P interface {
	*T
	near() *neighbours[T]
}] struct {
	newest, oldest P
	n              int
}

// push puts in a thing that is in no list, as the one used last.
func (l *byUse[T, P]) push(p P) {
	*p.near() = neighbours[T]{older: l.newest}
	if l.newest != nil {
		l.newest.near().newer = p
	} else {
		l.oldest = p
	}
	l.newest = p
	l.n++
}

// remove takes out a thing that is in this list.
func (l *byUse[T, P]) remove(p P) {
	by := p.near()
	if by.newer != nil {
		P(by.newer).near().older = by.older
	} else {
		l.newest = by.older
	}
	if by.older != nil {
		P(by.older).near().newer = by.newer
	} else {
		l.oldest = by.newer
	}
	*by = neighbours[T]{}
	l.n--
}
