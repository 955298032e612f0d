package keys

import (
	"fmt"
	"slices"
	"testing"
)

// A reshard leaves the numbers of the places there are, and takes no tag again.
func TestPlacesKeepTheirNumbers(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		s := Space{Namespace: "n", Shards: 2}.Live()
		if cluster {
			s.Tags = SpreadTags(2)
		}
		copied := s
		homes := map[string][]int{}
		for _, n := range []int{6, 4, 4, 1} {
			before := s.Now()
			next := s.Replace(n, cluster)
			if !s.Grow(next) || s.Grow(next) {
				t.Fatalf("%+v does not grow to %+v once", before, next)
			}
			if copied.Places() != s.Places() || s.First() != before.Places() || s.Places() != before.Places()+n {
				t.Errorf("%+v", s.Now())
			}
			var tags []string
			for i := range s.Places() {
				tags = append(tags, s.Tag(i))
				if i < before.Places() && s.Tag(i) != before.Tag(i) || s.Place(s.Tag(i)) != i {
					t.Errorf("place %d was %s and is %s", i, before.Tag(i), s.Tag(i))
				}
			}
			if slices.Sort(tags); len(slices.Compact(tags)) != s.Places() {
				t.Errorf("a tag comes twice: %v", tags)
			}
			for i := range 50 {
				key := fmt.Sprintf("a:b:c:%d", i)
				homes[key] = append([]int{before.Shard(key)}, homes[key]...)
				if got := s.Homes(key); !slices.Equal(got, homes[key]) || s.Shard(key) < s.First() || s.Shard(key) >= s.Places() {
					t.Errorf("%s: %v, want %v, and %d", key, got, homes[key], s.Shard(key))
				}
			}
			if back, ok := ParseCounts(JoinCounts(s.Now().Replaced)); !ok || !slices.Equal(back, s.Now().Replaced) {
				t.Errorf("%v", back)
			}
		}
		if other := (Space{Namespace: "n", Shards: 2, Former: []string{"x", "y"}}); s.Grow(other) ||
			(Space{Namespace: "n", Shards: 1}).Grow(other) {
			t.Error("it grew to what it was never part of")
		}
	}
}

func TestNewestPlacesAreFirst(t *testing.T) {
	s := Space{Namespace: "n", Shards: 2}.Replace(1, false).Replace(3, false)
	if got, want := s.Newest(), []int{3, 4, 5, 2, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := s.Older(), []int{2, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("older %v, want %v", got, want)
	}
}
