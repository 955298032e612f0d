package callback

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a receiver may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter is how long the receiver asks to be left alone, at most
// maxRetryAfter; zero when it says nothing that can be read. A date counts from
// the answer's own Date header, so that a receiver's wrong clock does no harm;
// without one it counts from now.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	// NaN fails the comparison; an exponent or a hex float is read, and harmless.
	if secs, err := strconv.ParseFloat(v, 64); err == nil || math.IsInf(secs, 0) {
		if !(secs > 0) {
			return 0
		}
		return time.Duration(min(secs, maxRetryAfter.Seconds()) * float64(time.Second))
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	from := now
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		from = date
	}
	return min(max(at.Sub(from), 0), maxRetryAfter)
}
