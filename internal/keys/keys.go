// Package keys is the one place that knows how a notice key is spelt and what
// every Redis key of this service is called.
//
// A notice key is app:module:type:id. Three segments of 1 to 64 characters and
// an id of 1 to 128, each of letters, digits, '_', '.', '~' and '-'. Anything
// else that a channel may bring is somebody else's key and no error.
//
// All keys of one notice share the hash tag {shard}, so that each script runs
// within one slot of a cluster. The timer is the exception: its name is the
// user's own, and it carries no tag.
package keys

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The longest a segment and an id may be, in bytes.
const (
	MaxSegment = 64
	MaxID      = 128
	// MaxKey is the longest notice key: three segments, an id, three colons.
	MaxKey = 3*MaxSegment + MaxID + 3
)

// ErrNotKey is what Parse's errors wrap.
var ErrNotKey = errors.New("not a notice key")

// Key is a parsed notice key.
type Key struct {
	App, Module, Type, ID string
}

// String spells the key. Parse is its inverse.
func (k Key) String() string { return k.App + ":" + k.Module + ":" + k.Type + ":" + k.ID }

// Parse reads a notice key. Its error says which segment is wrong and what
// would be right.
func Parse(s string) (Key, error) {
	if len(s) > MaxKey {
		return Key{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrNotKey, len(s), MaxKey)
	}
	parts := strings.Split(s, ":")
	if len(parts) != 4 {
		return Key{}, fmt.Errorf("%w: %q has %d segments, want 4: app:module:type:id", ErrNotKey, s, len(parts))
	}
	names := [4]string{"app", "module", "type", "id"}
	for i, p := range parts {
		limit := MaxSegment
		if i == 3 {
			limit = MaxID
		}
		if err := checkSegment(p, limit); err != nil {
			return Key{}, fmt.Errorf("%w: segment %s %w", ErrNotKey, names[i], err)
		}
	}
	return Key{parts[0], parts[1], parts[2], parts[3]}, nil
}

// Valid tells whether s is a notice key, without allocating: it is asked for
// every key that expires in the whole database.
func Valid(s string) bool {
	if len(s) > MaxKey {
		return false
	}
	colons, start := 0, 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == ':' {
			if n := i - start; n == 0 || n > MaxSegment {
				return false
			}
			if colons++; colons > 3 {
				return false
			}
			start = i + 1
			continue
		}
		if !allowed(c) {
			return false
		}
	}
	n := len(s) - start
	return colons == 3 && n > 0 && n <= MaxID
}

func checkSegment(p string, limit int) error {
	if p == "" {
		return errors.New("is empty")
	}
	if len(p) > limit {
		return fmt.Errorf("has %d characters, at most %d are allowed", len(p), limit)
	}
	for i := 0; i < len(p); i++ {
		if !allowed(p[i]) {
			return fmt.Errorf("%q holds a character that is not a letter, digit, '_', '.', '~' or '-'", p)
		}
	}
	return nil
}

func allowed(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '_' || c == '.' || c == '~' || c == '-'
}

// CheckPrefix reads a route's prefix: app, app:module or app:module:type.
func CheckPrefix(s string) error {
	parts := strings.Split(s, ":")
	if len(parts) > 3 {
		return fmt.Errorf("prefix %q has %d segments; want app, app:module or app:module:type", s, len(parts))
	}
	names := [3]string{"app", "module", "type"}
	for i, p := range parts {
		if err := checkSegment(p, MaxSegment); err != nil {
			return fmt.Errorf("prefix %q: segment %s %w", s, names[i], err)
		}
	}
	return nil
}

// HasPrefix tells whether key lies under prefix at a segment's border:
// "app1" covers "app1:a:b:c" and not "app12:a:b:c". An empty prefix covers all.
func HasPrefix(key, prefix string) bool {
	if prefix == "" {
		return true
	}
	return len(key) > len(prefix) && key[len(prefix)] == ':' && key[:len(prefix)] == prefix
}

// Space names every Redis key of one namespace.
type Space struct {
	Namespace string
	Shards    int
}

// Shard is the shard a notice key lives in: FNV-1a of the key, its halves
// folded together because its low bits alone spread badly, modulo Shards.
func (s Space) Shard(key string) int {
	if s.Shards <= 1 {
		return 0
	}
	h := uint32(2166136261)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return int((h ^ h>>16 ^ h>>8) % uint32(s.Shards))
}

func (s Space) tagged(shard int, kind, rest string) string {
	return s.Namespace + ":{" + strconv.Itoa(shard) + "}:" + kind + ":" + rest
}

// Shadow is the zset of notice keys by next attention.
func (s Space) Shadow(shard int, prefix string) string { return s.tagged(shard, "shadow", prefix) }

// Records is the hash of records by notice key.
func (s Space) Records(shard int, prefix string) string { return s.tagged(shard, "records", prefix) }

// Dead is the zset of dead letters by time of death.
func (s Space) Dead(shard int, prefix string) string { return s.tagged(shard, "dead", prefix) }

// Settled is the zset of delivered and cancelled notices by time.
func (s Space) Settled(shard int, prefix string) string { return s.tagged(shard, "settled", prefix) }

// ClaimPrefix is what stands before the notice key in a claim's name.
func (s Space) ClaimPrefix(shard int) string { return s.tagged(shard, "claim", "") }

// Claim is the claim of one notice.
func (s Space) Claim(key string) string { return s.ClaimPrefix(s.Shard(key)) + key }

// Meta is the hash with layout version and shard count.
func (s Space) Meta() string { return s.Namespace + ":meta" }

// Routes is the set of prefixes that ever held notices.
func (s Space) Routes() string { return s.Namespace + ":routes" }

// Paused is the set of paused prefixes.
func (s Space) Paused() string { return s.Namespace + ":paused" }

// Wake is the pub/sub channel that tells of a notice earlier than the head.
func (s Space) Wake() string { return s.Namespace + ":wake" }

// Expired is the channel on which Redis tells of expired keys of database db.
func Expired(db int) string { return "__keyevent@" + strconv.Itoa(db) + "__:expired" }

// Keyspace is the pattern of all events on the keys under a route's prefix.
func Keyspace(db int, prefix string) string {
	return "__keyspace@" + strconv.Itoa(db) + "__:" + prefix + ":*"
}

// KeyspaceKey is the key that a message on a Keyspace channel tells of; ok is
// false for any other channel.
func KeyspaceKey(channel string) (key string, ok bool) {
	rest, found := strings.CutPrefix(channel, "__keyspace@")
	if !found {
		return "", false
	}
	_, key, ok = strings.Cut(rest, "__:")
	return key, ok
}
