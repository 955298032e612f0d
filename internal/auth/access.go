package auth

import (
	"crypto/sha256"
	"crypto/subtle"

	"notifier/internal/keys"
)

// Client is a configured user of the API and of the pages.
type Client struct {
	Name  string
	Token string
	// Prefix is the scope of keys that the client may read and change: app, app:module or app:module:type. Empty means
	// all keys.
	Prefix string
	Role   Role
	// Rate is the number of requests a second that the client may make at one instance. 0 means DefaultRate.
	Rate float64
}

// Caller is the client that makes a request. The zero value has no rights.
type Caller struct {
	Name   string // empty if no client is configured
	Prefix string
	Role   Role
}

// Local is the caller at a service without clients. It has all rights.
func Local() Caller { return Caller{Role: Admin} }

// Everything reports whether the caller may make every call for all keys.
func (c Caller) Everything() bool { return c.Prefix == "" && c.Role.Includes(Admin) }

// Covers reports whether a notice's key is in the caller's scope.
func (c Caller) Covers(key string) bool { return keys.HasPrefix(key, c.Prefix) }

// Owns reports whether all keys with that prefix are in the caller's scope.
func (c Caller) Owns(prefix string) bool {
	return prefix == c.Prefix || keys.HasPrefix(prefix, c.Prefix)
}

// Meets reports whether some keys with that prefix can be in the caller's scope.
func (c Caller) Meets(prefix string) bool {
	return c.Owns(prefix) || keys.HasPrefix(c.Prefix, prefix)
}

// Sum is the hash of a token.
type Sum [sha256.Size]byte

// Clients holds the configured clients. It keeps only the hashes of their tokens.
type Clients struct{ list []credential }

type credential struct {
	caller Caller
	sum    Sum
}

// NewClients returns Clients of that list, in which names and tokens are unique.
func NewClients(list []Client) *Clients {
	cs := &Clients{list: make([]credential, len(list))}
	for i, c := range list {
		cs.list[i] = credential{Caller{Name: c.Name, Prefix: c.Prefix, Role: c.Role}, sha256.Sum256([]byte(c.Token))}
	}

	return cs
}

// None reports whether no client is configured.
func (cs *Clients) None() bool { return len(cs.list) == 0 }

// Find returns the caller with that token. It compares the hash with every client's, whichever matches, so that the
// time taken reveals nothing about the tokens.
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

// Named returns the client with that name and its token's hash. Sessions and links are bound to the hash, so that they
// end with the token.
func (cs *Clients) Named(name string) (Caller, Sum, bool) {
	for _, c := range cs.list {
		if c.caller.Name == name {
			return c.caller, c.sum, true
		}
	}
	return Caller{}, Sum{}, false
}
