package auth

import "sync"

// Shares divides a bound equally among the clients, so that none can use up the share of another. It is safe for
// concurrent use.
type Shares struct {
	each int

	mu   sync.Mutex
	used map[string]int
}

// NewShares returns the shares of a bound for a number of clients.
func NewShares(bound, clients int) *Shares {
	return &Shares{each: max(1, bound/max(1, clients)), used: map[string]int{}}
}

// Take takes one unit of a client's share until release is called; ok is false if the client has used its share.
func (s *Shares) Take(client string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.used[client] >= s.each {
		return nil, false
	}

	s.used[client]++
	return sync.OnceFunc(func() { s.release(client) }), true
}

func (s *Shares) release(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.used[client]--; s.used[client] == 0 {
		delete(s.used, client)
	}
}
