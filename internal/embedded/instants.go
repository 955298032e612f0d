package embedded

import (
	"container/heap"
	"strconv"
	"strings"
	"time"
)

// expiry is a key and when it may expire: a later command may have moved that,
// or taken the key away.
type expiry struct {
	key string
	at  time.Time
}

// instants is a heap, the earliest first.
type instants []expiry

func (h instants) Len() int           { return len(h) }
func (h instants) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h instants) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *instants) Push(x any) {
	if e, ok := x.(expiry); ok {
		*h = append(*h, e)
	}
}

// Pop is for package heap.
func (h *instants) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// add reports whether x is the earliest now.
func (h *instants) add(x expiry) bool {
	heap.Push(h, x)
	return (*h)[0] == x
}

// due takes those up to an instant, each key once.
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

// units of the options of SET and GETEX, and of the commands that set a TTL.
var units = map[string]struct {
	unit     time.Duration
	absolute bool
}{
	"EX": {time.Second, false}, "PX": {time.Millisecond, false}, "EXAT": {time.Second, true}, "PXAT": {time.Millisecond, true},
	"EXPIRE": {time.Second, false}, "PEXPIRE": {time.Millisecond, false}, "SETEX": {time.Second, false}, "PSETEX": {time.Millisecond, false},
	"EXPIREAT": {time.Second, true}, "PEXPIREAT": {time.Millisecond, true},
}

// expiries are the instants at which a command may let keys expire; known are
// those of earlier ones, now is where TTLs are counted from.
func expiries(cmd string, args []string, now time.Time, known instants) []expiry {
	at := func(option, value string) []expiry {
		u, ok := units[strings.ToUpper(option)]
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case !ok || err != nil:
			return nil
		case u.absolute:
			return []expiry{{args[0], time.UnixMilli(n * int64(u.unit/time.Millisecond))}}
		}
		return []expiry{{args[0], now.Add(time.Duration(n) * u.unit)}}
	}
	switch cmd {
	case "SET", "GETEX":
		for i := 1; i+1 < len(args); i++ {
			if cmd == "SET" && i == 1 {
				continue // the value
			}
			if x := at(args[i], args[i+1]); x != nil {
				return x
			}
		}
	case "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "SETEX", "PSETEX":
		if len(args) > 1 {
			return at(cmd, args[1])
		}
	case "RENAME", "RENAMENX", "COPY":
		var list []expiry
		for _, x := range known {
			if len(args) > 1 && x.key == args[0] {
				list = append(list, expiry{args[1], x.at})
			}
		}
		return list
	}
	return nil
}
