package embedded

import (
	"container/heap"
	"strconv"
	"strings"
	"time"
)

// expiry is a key with the time at which it may expire. A later command may have changed that time or deleted
// the key.
type expiry struct {
	key string
	at  time.Time
}

// instants is a heap of expiries, the earliest first.
type instants []expiry

func (h instants) Len() int           { return len(h) }
func (h instants) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h instants) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *instants) Push(x any) {
	if e, ok := x.(expiry); ok {
		*h = append(*h, e)
	}
}

// Pop implements heap.Interface.
func (h *instants) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// add adds x and reports whether x is now the earliest.
func (h *instants) add(x expiry) bool {
	heap.Push(h, x)
	return (*h)[0] == x
}

// due removes and returns the expiries up to now, each key once.
func (h *instants) due(now time.Time) []expiry {
	var list []expiry
	seen := map[string]bool{}
	for len(*h) > 0 && !(*h)[0].at.After(now) {
		if x, ok := heap.Pop(h).(expiry); ok && !seen[x.key] {
			seen[x.key] = true
			list = append(list, x)
		}
	}

	return list
}

// units are the options of SET and GETEX, and the commands, that set a TTL.
var units = map[string]struct {
	unit     time.Duration
	absolute bool
}{
	"EX": {time.Second, false}, "PX": {time.Millisecond, false}, "EXAT": {time.Second, true}, "PXAT": {time.Millisecond, true},
	"EXPIRE": {time.Second, false}, "PEXPIRE": {time.Millisecond, false}, "SETEX": {time.Second, false}, "PSETEX": {time.Millisecond, false},
	"EXPIREAT": {time.Second, true}, "PEXPIREAT": {time.Millisecond, true},
}

// expiries returns the times at which a command may make keys expire. known are those of earlier commands, and TTLs count from now.
func expiries(cmd string, args []string, now time.Time, known instants) []expiry {
	switch cmd {
	case "SET":
		if len(args) > 2 {
			return optionExpiry(args[0], args[2:], now)
		}
	case "GETEX":
		if len(args) > 1 {
			return optionExpiry(args[0], args[1:], now)
		}
	case "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "SETEX", "PSETEX":
		if len(args) > 1 {
			return expiryAt(args[0], cmd, args[1], now)
		}
	case "RENAME", "RENAMENX", "COPY":
		if len(args) > 1 {
			return known.copied(args[0], args[1])
		}
	}

	return nil
}

// optionExpiry returns the expiry of a key by the first option that sets a TTL.
func optionExpiry(key string, options []string, now time.Time) []expiry {
	for i := 0; i+1 < len(options); i++ {
		if x := expiryAt(key, options[i], options[i+1], now); x != nil {
			return x
		}
	}
	return nil
}

// expiryAt returns the expiry of a key by an option, or a command, and its value; nil if that sets no TTL.
func expiryAt(key, option, value string, now time.Time) []expiry {
	u, ok := units[strings.ToUpper(option)]
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case !ok || err != nil:
		return nil
	case u.absolute:
		return []expiry{{key, time.UnixMilli(n * int64(u.unit/time.Millisecond))}}
	}

	return []expiry{{key, now.Add(time.Duration(n) * u.unit)}}
}

// copied returns the expiries of one key for another one.
func (h instants) copied(from, to string) []expiry {
	var list []expiry
	for _, x := range h {
		if x.key == from {
			list = append(list, expiry{to, x.at})
		}
	}

	return list
}
