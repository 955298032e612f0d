package auth

import "testing"

func TestSharesLeaveOthersTheirs(t *testing.T) {
	t.Parallel()
	s := NewShares(5, 2)
	var releases []func()
	for range 2 {
		release, ok := s.Take("a")
		if !ok {
			t.Fatal("the share is smaller than half")
		}
		releases = append(releases, release)
	}
	if _, ok := s.Take("a"); ok {
		t.Error("a takes more than its share")
	}
	if _, ok := s.Take("b"); !ok {
		t.Error("b has no share")
	}
	releases[0]()
	releases[0]() // counts once
	if _, ok := s.Take("a"); !ok {
		t.Error("a released unit is not free")
	}
	if _, ok := s.Take("a"); ok {
		t.Error("a release counted twice")
	}
	if _, ok := NewShares(1, 5).Take("a"); !ok {
		t.Error("a share is at least one")
	}
}
