package dispatch

import "time"

// maxUnanswered bounds how many claim calls without an answer are remembered;
// what others may have claimed comes back when its lease has lapsed.
const maxUnanswered = 16

// recoveries is how long after one look for what an unanswered sweep has won
// there is another: the call itself may reach Redis after the look. What comes
// later still is claimed until its lease has lapsed.
var recoveries = []time.Duration{time.Second, 4 * time.Second}

// unanswered are the claim calls of one shard that failed. Each may have been
// made although no answer came, so it is made again: one that named keys wins
// what it had won, and of a sweep it is looked for that. Its queue's mutex guards
// them.
type unanswered struct{ calls []call }

// add remembers a call, if there is room.
func (u *unanswered) add(c call) bool {
	if len(u.calls) >= maxUnanswered {
		return false
	}
	u.calls = append(u.calls, c)
	return true
}

// wants is how many slots the first call needs; 0 = there is none.
func (u *unanswered) wants() int {
	switch {
	case len(u.calls) == 0:
		return 0
	case u.calls[0].keys == nil:
		return u.calls[0].asked - u.calls[0].found
	}
	return u.calls[0].n
}

// take takes the first call, for n slots; keys beyond them wait for more. What a
// look finds no slots for is looked for when it has been answered.
func (u *unanswered) take(n int) call {
	c := u.calls[0]
	u.calls = u.calls[1:]
	if c.keys != nil && n < len(c.keys) {
		rest := c
		rest.keys, rest.n = c.keys[n:], c.n-n
		u.calls = append(u.calls, rest)
		c.keys = c.keys[:n]
	}
	c.n = n
	return c
}

// recovery is how long after a look there is to be another; false if that was the
// last.
func recovery(c call) (time.Duration, bool) {
	if c.looks == 0 || c.looks > len(recoveries) {
		return 0, false
	}
	return recoveries[c.looks-1], true
}
