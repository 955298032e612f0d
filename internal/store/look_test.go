package store

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// While something due waits for its claim, what comes next must be seen too:
// otherwise it is found one grace after the first.
func TestLookSeesBeyondWhatIsDue(t *testing.T) {
	s, _ := open(t)
	past := time.Now().Add(30 * time.Second)
	s.put(t, Request{Key: "app1:a:b:next", Due: past.Add(time.Hour)})
	s.put(t, Request{Key: "app1:a:b:later", Due: past.Add(2 * time.Hour)})
	for _, k := range []string{"app1:a:b:now", "app1:a:b:claimed"} {
		s.put(t, Request{Key: k})
	}
	s.take(t, "app1:a:b:claimed", "t-1")
	look := func(n int) string {
		t.Helper()
		v, err := s.Look(t.Context(), prefix, 0, time.Hour, 5*time.Millisecond, n)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, x := range v.Near {
			b.WriteString(x.Key[9:] + " ")
		}
		return b.String()
	}
	// The end of a lease is to come like any other.
	if got := look(10); got != "now claimed " {
		t.Errorf("saw %q", got)
	}
	if got := look(1); got != "now " {
		t.Errorf("with room for one: saw %q", got)
	}
}

// A notice that is due before the next to come wakes the reconcilers, whatever
// else is overdue.
func TestAnOverdueHeadDoesNotKeepTheWake(t *testing.T) {
	s, srv := open(t)
	s.put(t, Request{Key: "app1:a:b:overdue"})
	s.put(t, Request{Key: "app1:a:b:far", Delay: time.Hour})
	ps := srv.Client().Subscribe(t.Context(), s.space.Wake())
	defer func() { _ = ps.Close() }()
	if _, err := ps.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.put(t, Request{Key: "app1:a:b:farther", Delay: 2 * time.Hour})
	near := s.put(t, Request{Key: "app1:a:b:near", Delay: time.Minute})
	m, err := ps.ReceiveTimeout(t.Context(), 30*time.Second)
	if err != nil {
		t.Fatalf("no wake: %v", err)
	}
	if want := near.Due.UnixMilli(); !strings.Contains(m.(interface{ String() string }).String(), strconv.FormatInt(want, 10)) {
		t.Errorf("%v, want one for %d", m, want)
	}
}
