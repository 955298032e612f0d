package notice

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// LogAttempts selects the attempts that are logged. Failures (outcomes other than delivered and handed) are
// always logged. The zero value selects all attempts.
type LogAttempts struct {
	// every is n to log one in n successes, 0 for all, and -1 for none.
	every int64
}

// maxLogEvery is the largest n in 1/n.
const maxLogEvery = 1_000_000

// ParseLogAttempts parses all, failed or 1/n.
func ParseLogAttempts(s string) (LogAttempts, error) {
	switch s {
	case "all":
		return LogAttempts{}, nil
	case "failed":
		return LogAttempts{every: -1}, nil
	}

	text, ok := strings.CutPrefix(s, "1/")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || n < 1 || n > maxLogEvery {
		return LogAttempts{}, errors.New("want all, failed, or 1/n with n from 1 to 1000000")
	}

	return LogAttempts{every: n}, nil
}

// String returns the text that ParseLogAttempts parses.
func (l LogAttempts) String() string {
	switch {
	case l.every < 0:
		return "failed"
	case l.every == 0:
		return "all"
	}
	return "1/" + strconv.FormatInt(l.every, 10)
}

// Includes reports whether an attempt of n with that outcome is logged. The webhook-id selects successes, so
// that all or none of a notice's are logged, at every instance.
func (l LogAttempts) Includes(n *Notice, o Outcome) bool {
	switch {
	case l.every == 0, o != OutcomeDelivered && o != OutcomeHanded:
		return true
	case l.every < 0:
		return false
	}

	sum := n.digest()
	return binary.BigEndian.Uint64(sum[:])%uint64(l.every) == 0
}

// TraceID returns the trace id of the producer's traceparent; empty if there is none.
func (c *Content) TraceID() string {
	if _, rest, ok := strings.Cut(c.Traceparent, "-"); ok {
		id, _, _ := strings.Cut(rest, "-")
		return id
	}
	return ""
}
