package callback

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the longest delay that a receiver can request.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns the delay that a receiver asks for in the Retry-After header of its answer, at most maxRetryAfter.
// It returns zero if the header is missing, invalid or in the past. If Retry-After is a date, the delay counts from the
// answer's Date header, because the receiver's clock may be wrong. Without a Date header, the delay counts from now.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}

	// NaN fails the comparison. Exponents and hexadecimal floats are accepted and harmless.
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
