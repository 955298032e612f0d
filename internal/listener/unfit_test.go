package listener

import (
	"strings"
	"testing"

	"notifier/internal/notice"
)

// A producer can set a timer under a route's prefix whose key is not a notice key, and wait for its
// callback in vain. The first such key of each prefix is logged.
func TestInvalidTimerKeyIsLoggedOncePerPrefix(t *testing.T) {
	l, e, logs := newListener(t, nil, "notifier", nil)
	long := strings.Repeat("x", 10_000)
	for range 3 {
		for _, key := range []string{"app1:orders:17", "app1:a:b:c:d", "app1:a:b:c d", "app1:a:b:" + long, "old:a", // under prefixes
			"app2:orders:17", "session", "app1", "app12:x", "", ":", "notifier:{0}:claim:app1:a:b:c", "app1:a:b:c"} {
			l.expired(key, &group{})
		}
	}
	logged := logs.FilterMessageSnippet("key that no notice can have").All()
	if len(logged) != 2 {
		t.Fatalf("%v", logged)
	}
	first := logged[0].ContextMap()
	for name, want := range map[string]string{"key": "app1:orders:17", "route": "app1", "prefix": "app1", "why": "3 segments, want 4",
		"remedy": "app:module:type:id"} {
		if s, _ := first[name].(string); !strings.Contains(s, want) {
			t.Errorf("%s is %q, want %q", name, s, want)
		}
	}
	if p := logged[1].ContextMap()["prefix"]; p != "old" {
		t.Errorf("the second has the prefix %v", p)
	}
	if e.counts[notice.EventForeign] != 36 || e.counts[notice.EventDispatched] != 3 {
		t.Errorf("%v", e.counts)
	}
	// The part of a foreign key that is logged is bounded.
	l, _, logs = newListener(t, nil, "notifier", nil)
	l.expired("app1:a:b:"+long, &group{})
	for _, entry := range logs.All() {
		for name, v := range entry.ContextMap() {
			if s, _ := v.(string); len(s) > 300 {
				t.Errorf("%s has %d bytes", name, len(s))
			}
		}
	}
}
