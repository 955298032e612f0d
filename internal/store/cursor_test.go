package store

import (
	"errors"
	"math"
	"strconv"
	"sync"
	"testing"

	"notifier/internal/wire"
)

func FuzzReadCursor(f *testing.F) {
	for _, s := range []string{"", "{}", cursor{"app1", 1, 2, "1763785200000.5", "app1:a:b:c", 0}.String(), `{"p":"a","v":"nan","k":"b"}`,
		`{"v":"0x_1p-2","k":"b"}`, `{"v":"1e400","k":"b"}`, `{"s":-1}`, `{"z":99}`, `[]`, `null`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := readCursor(text)
		if err != nil {
			if !errors.Is(err, ErrCursor) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		score, err := strconv.ParseFloat(c.Score, 64)
		if c.Score != "" && (err != nil || math.IsNaN(score) || math.IsInf(score, 0)) || c.Shard < 0 || c.Set < 0 || c.Set >= sets {
			t.Errorf("%q was taken: %+v", text, c)
		}
		if again, err := readCursor(c.String()); err != nil || again != c && text != "" && c != (cursor{}) {
			t.Errorf("%q: %+v is decoded as %+v, %v", text, c, again, err)
		}
	})
}

// Of instances that begin together each has the key that one of them made.
func TestTheKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[string]bool{}
	for range 16 {
		wg.Go(func() {
			k, err := s.Layout.Key(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if seen[string(k)] = true; err != nil || len(k) != wire.KeySize {
				t.Errorf("%d bytes, %v", len(k), err)
			}
		})
	}
	wg.Wait()
	name := srv.Namespace() + ":key"
	if kept := srv.Client().Get(t.Context(), name).Val(); len(seen) != 1 || !seen[kept] {
		t.Errorf("%d keys were seen; kept are %d bytes", len(seen), len(kept))
	}
	if ttl := srv.Client().TTL(t.Context(), name).Val(); ttl != -1 {
		t.Errorf("it ends in %s", ttl)
	}
	// An invalid key is an error and is not overwritten.
	srv.Client().Del(t.Context(), name)
	srv.Client().RPush(t.Context(), name, "x")
	if k, err := s.Layout.Key(t.Context()); err == nil {
		t.Errorf("a list was accepted as a key of %d bytes", len(k))
	}
}
