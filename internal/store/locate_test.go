package store

import (
	"strings"
	"testing"
	"time"
)

// The hot path sends as many commands as before: the guard and the other prefixes are part of the
// script's call.
func TestNothingMoreIsAskedWhereAllHaveOneConfiguration(t *testing.T) {
	s, srv := open(t)
	s.put(t, Request{Key: "app1:a:b:0"})
	before := calls(t, srv, "evalsha")
	for i := range 10 {
		s.put(t, Request{Key: "app1:a:b:x" + strings.Repeat("1", i+1), Delay: time.Hour})
	}
	if n := calls(t, srv, "evalsha") - before; n != 10 {
		t.Errorf("%d calls for 10 notices", n)
	}
}
