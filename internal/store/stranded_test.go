package store

import (
	"slices"
	"testing"
	"time"

	"notifier/internal/keys"
)

// A notice that was written into a former shard after that was found empty is seen by
// Stranded, whichever of the former ones it lies in.
func TestStranded(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	ks := []string{"app1:a:b:0", "app1:a:b:1", "app1:a:b:2"}
	check := func(when string, want ...bool) {
		t.Helper()
		got, err := s.Stranded(t.Context(), ks)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", when, got, err, want)
		}
	}
	check("no shard was ever replaced", false, false, false)
	s.grow(t, 3)
	s.grow(t, 2)
	if left, err := s.Drained(t.Context(), nil); left != 0 || err != nil || len(s.Formers()) != 0 {
		t.Fatal(left, err, s.Formers())
	}
	for i, k := range ks[:2] {
		place := s.space.Homes(k)[i]
		p := keys.Partition{Prefix: prefix, Shard: place}
		if err := srv.Client().HSet(t.Context(), s.space.Records(p), k, `{"due":1,"made":2}`).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.schedule(t, Request{Key: ks[2], Delay: time.Hour})
	check("two were written there", true, true, false)
}
