package access

import (
	"crypto/sha256"
	"crypto/subtle"

	"notifier/internal/keys"
)

// Client is somebody who may call the API and sign in to the pages.
type Client struct {
	Name  string
	Token string
	// Prefix is what the client may see and touch: app, app:module or
	// app:module:type. Empty means all.
	Prefix string
	Role   Role
	// Rate is how many requests a second the client may make at one instance. 0 means
	// DefaultRate.
	Rate float64
}

// Caller is the client that makes a request. The zero value may do nothing.
type Caller struct {
	Name   string // empty if no client is configured
	Prefix string
	Role   Role
}

// Local is the caller of a service without clients: it may do everything.
func Local() Caller { return Caller{Role: Admin} }

// Everything reports whether the caller may do all there is with all keys.
func (c Caller) Everything() bool { return c.Prefix == "" && c.Role.Includes(Admin) }

// Covers reports whether a notice's key lies within the caller's scope.
func (c Caller) Covers(key string) bool { return keys.HasPrefix(key, c.Prefix) }

// Owns reports whether all keys under prefix lie within the scope.
func (c Caller) Owns(prefix string) bool {
	return prefix == c.Prefix || keys.HasPrefix(prefix, c.Prefix)
}

// Meets reports whether some keys under prefix may lie within the scope.
func (c Caller) Meets(prefix string) bool {
	return c.Owns(prefix) || keys.HasPrefix(c.Prefix, prefix)
}

// Sum is what is kept of a token.
type Sum [sha256.Size]byte

// Clients are those of the configuration. Their tokens are kept as hashes only.
type Clients struct{ list []credential }

type credential struct {
	caller Caller
	sum    Sum
}

// NewClients keeps clients; their names and tokens differ.
func NewClients(list []Client) *Clients {
	cs := &Clients{list: make([]credential, len(list))}
	for i, c := range list {
		cs.list[i] = credential{Caller{Name: c.Name, Prefix: c.Prefix, Role: c.Role}, sha256.Sum256([]byte(c.Token))}
	}
	return cs
}

// None reports whether no client is configured.
func (cs *Clients) None() bool { return len(cs.list) == 0 }

// Find is the caller that a token stands for. Hashing makes all tokens equally
// long, and every credential is looked at whether or not an earlier one fitted,
// so the time taken tells nothing about any token.
func (cs *Clients) Find(token string) (Caller, bool) {
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range cs.list {
		match := subtle.ConstantTimeCompare(sum[:], cs.list[i].sum[:])
		found = subtle.ConstantTimeSelect(match, i, found)
	}
	if found < 0 {
		return Caller{}, false
	}
	return cs.list[found].caller, true
}

// Named is the client of that name, and the hash of its token, with which is made
// what shall end with the token.
func (cs *Clients) Named(name string) (Caller, Sum, bool) {
	for _, c := range cs.list {
		if c.caller.Name == name {
			return c.caller, c.sum, true
		}
	}
	return Caller{}, Sum{}, false
}
