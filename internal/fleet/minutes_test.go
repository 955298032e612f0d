package fleet

import (
	"testing"
	"time"
)

func TestMinutesContinueAfterLastEntry(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	for _, text := range []string{"one", "two"} {
		if err := s.AddMinute(t.Context(), text, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	first, err := s.Minutes(t.Context(), "", time.Now().Add(-time.Hour))
	if err != nil || len(first) != 2 || first[0].Text != "one" {
		t.Fatalf("%v, %v", first, err)
	}
	if err := s.AddMinute(t.Context(), "three", time.Hour); err != nil {
		t.Fatal(err)
	}
	next, err := s.Minutes(t.Context(), first[1].ID, time.Time{})
	if err != nil || len(next) != 1 || next[0].Text != "three" {
		t.Errorf("behind the second: %v, %v", next, err)
	}
}
