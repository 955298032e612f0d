package store

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/expire.lua
var expireSource string

var expireScript = wire.NewScript("claim", WithParts(expireSource), false)

// ErrExpires means that a notice would have expired when it is due.
var ErrExpires = fmt.Errorf("%w: the notice would have expired by then; want a later expires, or an earlier due time", notice.ErrInvalid)

// disarm deletes, in a cluster, the timers of notices that were claimed before they were due.
func (s *Store) disarm(ctx context.Context, prefix string, c *Claimed) {
	if !s.o.Cluster {
		return
	}

	timers := make([]timer, len(c.Won))
	for i := range c.Won {
		timers[i] = timer{key: c.Won[i].Key, was: c.Won[i].before}
	}

	s.Timers.arm(ctx, prefix, timers, c.Now)
}

// appendExpiry appends to a due time for schedule.lua or amend.lua when the notice expires, if x says so.
func appendExpiry(b []byte, x notice.Expiry) []byte {
	switch {
	case x.After > 0:
		return strconv.AppendInt(append(b, " +"...), x.After.Milliseconds(), 10)
	case !x.At.IsZero():
		return strconv.AppendInt(append(b, " ="...), x.At.UnixMilli(), 10)
	}

	return b
}

// newTail returns the tail of the record of a new notice: the script adds when it expires.
func (r *Request) newTail(b []byte) []byte {
	n := notice.Notice{Content: r.Content, Client: r.Client}
	n.Expires = time.Time{}
	return n.AppendTail(b)
}
