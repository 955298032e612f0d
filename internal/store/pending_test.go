package store

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Each unclaimed pending notice is read once, also if many have one score.
func TestPendingReadsAllButClaimed(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	want := map[string]time.Time{}
	for i := range 2*pendingPage + 50 {
		k, at := fmt.Sprintf("app1:a:b:%03d", i), due
		if i > pendingPage+30 {
			at = due.Add(time.Duration(i/2) * time.Millisecond)
		}
		want[k] = at
		s.put(t, Request{Key: k, Due: at})
	}
	if err := s.c.Set(t.Context(), s.space.Claim("app1:a:b:007"), "a token", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	delete(want, "app1:a:b:007")

	looked := 0
	for cursor := ""; ; {
		p, err := s.Pending(t.Context(), prefix, cursor)
		if err != nil {
			t.Fatal(err)
		}
		looked += p.Looked
		for i := range p.Items {
			f := &p.Items[i]
			if next, ok := want[f.Key]; !ok || !f.NextAttemptAt().Equal(next) {
				t.Errorf("%s, next attempt %s: read twice, or not to be read", f.Key, f.NextAttemptAt())
			}
			delete(want, f.Key)
		}
		if cursor = p.Cursor; cursor == "" {
			break
		}
	}
	if len(want) > 0 || looked != 2*pendingPage+50 {
		t.Errorf("%d are missing, %d were read", len(want), looked)
	}
	for _, bad := range []string{"x", `{"s":-1}`, `{"s":1}`} {
		if _, err := s.Pending(t.Context(), prefix, bad); !errors.Is(err, ErrCursor) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
