package callback

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// keptIdle is how long a connection stays open without a call if the receiver announces no time. It
// is below the limits of usual servers, which close a connection after 5 s (Node) or more.
const keptIdle = 4 * time.Second

// keptFor returns the maximum idle time of a connection that its receiver closes after says. The
// result is up to a second shorter, so that the last request arrives in time.
func keptFor(says time.Duration) time.Duration {
	return min(says-min(says/2, time.Second), idleTimeout)
}

// keepAliveTimeout returns the timeout of a header such as "Keep-Alive: timeout=5, max=100".
func keepAliveTimeout(h http.Header) (time.Duration, bool) {
	for _, line := range h["Keep-Alive"] {
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if !strings.EqualFold(name, "timeout") {
				continue
			}
			if n, err := strconv.ParseUint(strings.Trim(value, `" `), 10, 32); err == nil {
				return time.Duration(n) * time.Second, true
			}
		}
	}

	return 0, false
}
