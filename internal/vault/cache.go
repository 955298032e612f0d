package vault

import "time"

// KeyAge is how long an instance uses a key after it has begun to read the key in Redis, by its monotonic clock. An instance that
// is frozen or has lost Redis does not use it longer either.
const KeyAge = 4 * time.Second

// mostCached bounds the keys of each kind in memory.
const mostCached = 10_000

// held is a key in memory. began is when the read in Redis began.
type held[T any] struct {
	key   T
	began time.Time
}

// fresh returns a key that was read within v.KeyAge; the zero value = there is none.
func fresh[T any](v *Vault, cache map[place]held[T], at place) (key T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h, ok := cache[at]; ok && v.now().Sub(h.began) < v.KeyAge {
		key = h.key
	}

	return key
}

// keep adds a key to a cache for v.KeyAge. A full cache drops any other key.
func keep[T any](v *Vault, cache map[place]held[T], at place, h held[T]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for old := range cache {
		if len(cache) < mostCached {
			break
		}

		delete(cache, old)
	}

	cache[at] = h
	time.AfterFunc(v.KeyAge, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if cache[at].began.Equal(h.began) {
			delete(cache, at)
		}
	})
}

// drop drops the keys of a shard.
func drop[T any](cache map[place]held[T], shard int) {
	for p := range cache {
		if p.shard == shard {
			delete(cache, p)
		}
	}
}
