package vault

import (
	"context"
	"slices"
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

// pages calls f with names and values of all fields of a place, about n fields at a time. Fields that exist throughout are among them, some
// twice. A small hash is one page, however many fields it has.
func pages(ctx context.Context, w *wire.Client, place int, n int64, f func(pairs []string) error) error {
	for cursor := uint64(0); ; {
		pairs, next, err := w.Redis.HScan(ctx, w.Space.Seals(place), cursor, "", n).Result()
		if err != nil {
			return w.Fail("seal", err)
		}
		if err := f(pairs); err != nil {
			return err
		}

		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// fields calls f with each field of a place, some twice.
func fields(ctx context.Context, w *wire.Client, place int, f func(name, value string)) error {
	return pages(ctx, w, place, scanned, func(pairs []string) error {
		for i := 0; i+1 < len(pairs); i += 2 {
			f(pairs[i], pairs[i+1])
		}

		return nil
	})
}

// each calls f with all keys of all places, at most keysAtOnce at a time.
func each(ctx context.Context, w *wire.Client, f func(place int, list []storedKey) error) error {
	for place := range w.Space.Places() {
		err := pages(ctx, w, place, keysAtOnce, func(pairs []string) error {
			var page []storedKey
			for i := 0; i+1 < len(pairs); i += 2 {
				if k, ok := readKey(pairs[i], pairs[i+1]); ok {
					page = append(page, k)
				}
			}

			for some := range slices.Chunk(page, keysAtOnce) {
				if err := f(place, some); err != nil {
					return err
				}
			}

			return nil
		})
		if err != nil {
			return err
		}
	}

	return nil
}
