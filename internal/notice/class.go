package notice

// Class decides which attempts begin first while notices of a route wait for its slots, for a receiver's slots or for a
// rate. Otherwise due times alone decide.
type Class uint8

// The classes, first things first.
const (
	ClassFirst Class = iota // the first attempt of a notice
	ClassRetry              // a later one
	ClassBulk               // each attempt of a notice that a redrive, a resend or a replay has scheduled again

	Classes = 3 // their number
)

// Class returns the class of the next attempt.
func (n *Notice) Class() Class {
	switch {
	case n.Endings > 0 || n.Replay != "":
		return ClassBulk
	case n.AttemptsMade > 0:
		return ClassRetry
	}
	return ClassFirst
}

// turns is a cycle of starts. Each class but the first has one of them, so that none is left out.
const turns = 10

// Next returns the class of a start, which are counted from 0: that of the turn if one of its attempts waits, otherwise the first
// class of which one waits. It returns ClassFirst if none waits.
func Next(start int, waits func(c Class) bool) Class {
	if turn := start%turns - (turns - Classes); turn > 0 && waits(Class(turn)) {
		return Class(turn)
	}

	for c := range Class(Classes) {
		if waits(c) {
			return c
		}
	}

	return ClassFirst
}
