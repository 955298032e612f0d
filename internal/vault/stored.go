package vault

import (
	"context"
	"strings"

	"notifier/internal/seal"
	"notifier/internal/wire"
)

// storedKey is a data key or digest key in a shard's hash.
type storedKey struct {
	field, value string
	of           seal.Subject
	id           string
	digest       bool
	wrapped      string // the end of value
	under        string // the name of the service key
}

// readKey reads a field. ok is false if it has no key.
func readKey(field, value string) (k storedKey, ok bool) {
	parts := strings.Split(value, " ")
	k = storedKey{field: field, value: value, wrapped: parts[len(parts)-1]}
	switch {
	case len(parts) == 2 && seal.IsKeyID(field):
		k.of, k.id = seal.Subject(parts[0]), field
	case len(parts) == 3 && !seal.IsKeyID(field):
		k.of, k.id, k.digest = seal.Subject(field), parts[1], true
	default:
		return k, false
	}

	var err error
	k.under, err = seal.WrappedWith(k.wrapped)
	return k, err == nil
}

// keysAtOnce is about how many keys one reply has, and how many one script call replaces at most.
const keysAtOnce = 200

// scan returns a page of the keys of a shard. Scans from cursor 0 to cursor 0 return all keys that exist throughout, some twice.
func scan(ctx context.Context, w *wire.Client, shard int, cursor uint64) (page []storedKey, next uint64, err error) {
	pairs, next, err := w.Redis.HScan(ctx, w.Space.Seals(shard), cursor, "", keysAtOnce).Result()
	if err != nil {
		return nil, 0, w.Fail("seal", err)
	}

	for i := 0; i+1 < len(pairs); i += 2 {
		if k, ok := readKey(pairs[i], pairs[i+1]); ok {
			page = append(page, k)
		}
	}

	return page, next, nil
}
