package listener

import (
	"strings"
	"testing"

	"notifier/internal/notice"
)

// Timers of three segments, or with a character too many, were counted as
// somebody else's: who set them under a route's prefix waited for ever.
func TestATimerThatCanBeNoNoticeIsToldOncePerPrefix(t *testing.T) {
	l, e, logs := newListener(t, nil, "notifier", nil)
	long := strings.Repeat("x", 10_000)
	for range 3 {
		for _, key := range []string{"app1:orders:17", "app1:a:b:c:d", "app1:a:b:c d", "app1:a:b:" + long, "old:a", // under prefixes
			"app2:orders:17", "session", "app1", "app12:x", "", ":", "notifier:{0}:claim:app1:a:b:c", "app1:a:b:c"} {
			l.expired(key, &group{})
		}
	}
	told := logs.FilterMessageSnippet("can be no notice").All()
	if len(told) != 2 {
		t.Fatalf("%v", told)
	}
	first := told[0].ContextMap()
	for name, want := range map[string]string{"key": "app1:orders:17", "route": "app1", "prefix": "app1", "why": "3 segments, want 4",
		"remedy": "app:module:type:id"} {
		if s, _ := first[name].(string); !strings.Contains(s, want) {
			t.Errorf("%s is %q, want %q", name, s, want)
		}
	}
	if p := told[1].ContextMap()["prefix"]; p != "old" {
		t.Errorf("the second is of %v", p)
	}
	if e.counts[notice.EventForeign] != 36 || e.counts[notice.EventDispatched] != 3 {
		t.Errorf("%v", e.counts)
	}
	// What comes into the log of a stranger's key is bounded.
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
