package clienttest_test

import (
	"fmt"
	"regexp"
	"time"

	"notifier/client"
)

var origins = regexp.MustCompile(`^http://127\.0\.0\.1:\d+`)

// addresses schedules notices with URLs that are percent-encoded or refused. The second call repeats the first one.
func addresses(w *world) {
	for i, rest := range []string{"/张|%2F?d=2026-11-28 10:00&e=%zz#é", "/%E5%BC%A0%7C%2F?d=2026-11-28%2010:00&e=%25zz#%C3%A9", "/100%",
		"/ ", ":70000/", ":/"} {
		w.schedule(client.Request{Key: fmt.Sprintf("cmp:hook:url:%d", max(i, 1)), Delay: time.Hour, URL: "http://127.0.0.1" + rest})
	}
}
