package store

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
	"notifier/internal/seal"
)

// dataKeys returns the ids of the data keys of sealed contents, separated by blanks.
func dataKeys[T any](list []T, content func(*T) *notice.Content) string {
	var ids []string
	for i := range list {
		if id := dataKeyOf(content(&list[i])); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}

	return strings.Join(ids, " ")
}

// dataKeyOf returns the id of the data key of a sealed content; empty if it is not sealed.
func dataKeyOf(c *notice.Content) string {
	if c.Sealed == "" {
		return ""
	}

	return seal.DataKeyOf(c.Sealed) // a malformed text opens nowhere
}

// lacksDataKey reports whether a script has refused newly sealed contents: see lua/lib/datakeys.lua.
func lacksDataKey(err error) bool { return redis.HasErrorPrefix(err, "NODATAKEY") }

// SealedAnew calls f, which seals and stores notices. It calls f again for those whose data keys Redis has lost, after lost was called with
// the key of each: lost makes f seal them with new keys.
func SealedAnew[T any](list []T, key func(*T) string, lost func(key string), f func([]T) []Reply) []Reply {
	out := f(list)
	var again []int
	var rest []T
	for i := range out {
		if errors.Is(out[i].Err, ErrNoDataKey) {
			lost(key(&list[i]))
			again, rest = append(again, i), append(rest, list[i])
		}
	}

	if len(again) == 0 {
		return out
	}

	for j, reply := range f(rest) {
		out[again[j]] = reply
	}

	return out
}
