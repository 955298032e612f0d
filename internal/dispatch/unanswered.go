package dispatch

import (
	"slices"
	"time"
)

// maxUnanswered bounds the claim calls without a reply that are remembered. Claims beyond it come
// back when their lease expires.
const maxUnanswered = 16

// recoveries are the delays before the second and third call that look for the claims of a sweep without a reply.
// Redis may execute that sweep only after the first of these calls.
var recoveries = []time.Duration{time.Second, 4 * time.Second}

// unanswered is a list of claim calls of one shard whose replies were lost. Redis may have executed such a call and
// reserved notices for this process. To find them before their leases end, the call is repeated or its claims are
// searched for. The lock of readyQueue guards unanswered.
type unanswered struct{ calls []call }

// add appends a call, if there is room. Keys of one call are repeated together: in parts, as slots or the size of
// replies have divided them, they would fill the list.
func (u *unanswered) add(c call) bool {
	for i := range u.calls {
		if o := &u.calls[i]; c.keys != nil && o.keys != nil && o.token == c.token {
			o.keys, o.n = slices.Concat(o.keys, c.keys), o.n+c.n
			return true
		}
	}

	if len(u.calls) >= maxUnanswered {
		return false
	}

	u.calls = append(u.calls, c)
	return true
}

// wants returns the number of slots that the first call needs; 0 if there is none.
func (u *unanswered) wants() int {
	switch {
	case len(u.calls) == 0:
		return 0
	case u.calls[0].keys == nil:
		return u.calls[0].asked - u.calls[0].found
	}
	return u.calls[0].n
}

// take removes the first call, limited to n slots. Remaining keys stay queued; a recovery call
// continues after its reply.
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

// recovery returns the delay until the next recovery call, and false after the last one.
func recovery(c call) (time.Duration, bool) {
	if c.rounds == 0 || c.rounds > len(recoveries) {
		return 0, false
	}
	return recoveries[c.rounds-1], true
}
