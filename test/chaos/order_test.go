package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sequenceOf returns the sequence of a key such as pay:standalone:t3:17, and the notice's index in it.
func sequenceOf(key string) (sequence string, nth int, ok bool) {
	parts := strings.Split(key, ":")
	number, ok := strings.CutPrefix(parts[2], "t")
	nth, err := strconv.Atoi(number)
	return parts[3], nth, ok && err == nil
}

// sequences returns the promised notices of each sequence in the order in which they must be delivered, that of the
// calls: all calls for a sequence have the same delay, and each follows the acknowledgement of the previous call. The
// due times in the answers are no order: the answer to a repeated call has the due time of the next attempt.
func (l *ledger) sequences() map[string][]string {
	list := map[string][]string{}
	for key := range l.promises {
		if s, _, ok := sequenceOf(key); ok {
			list[s] = append(list[s], key)
		}
	}
	for _, ks := range list {
		slices.SortFunc(ks, func(a, b string) int {
			_, i, _ := sequenceOf(a)
			_, j, _ := sequenceOf(b)
			return cmp.Compare(i, j)
		})
	}
	return list
}

// overtake is an attempt that started too soon: an earlier notice of its sequence was pending, or another one was
// in flight.
type overtake struct {
	key, other string
	why        string
	attempt    *arrival
	cause      *span // nil = unexplained
}

func (o overtake) String() string {
	cause := "no fault that explains it"
	if o.cause != nil {
		cause = o.cause.what
	}
	return fmt.Sprintf("%s attempt %d by %s at %s: %s %s: %s", o.key, o.attempt.attempt, o.attempt.instance,
		o.attempt.at.Format(stamp), o.other, o.why, cause)
}

// overtakes returns the attempts that started too soon. One is explained by a fault that declares it, or, where
// two were in flight, by a fault that may have had one of them made again.
func (l *ledger) overtakes() (list []overtake) {
	for _, ks := range l.sequences() {
		for j, key := range ks {
			for _, a := range l.arrivals[key] {
				for i, other := range ks {
					switch {
					case i == j:
					case i < j && !l.endedBefore(other, a):
						list = append(list, overtake{key, other, "was pending", a, l.overtaking(a)})
					default:
						if b := l.inFlightWith(other, a); b != nil {
							list = append(list, overtake{key, other, "was in flight", a, cmp.Or(l.overtaking(a), l.cause(b), l.cause(a))})
						}
					}
				}
			}
		}
	}
	return list
}

// endedBefore reports whether a notice was delivered or dead before an attempt of another one started, or was not
// yet acknowledged.
func (l *ledger) endedBefore(key string, a *arrival) bool {
	if l.dead[key] != "" || l.promises[key].acked.After(a.at) {
		return true
	}
	return slices.ContainsFunc(l.arrivals[key], func(b *arrival) bool { return b.ok && !b.done.After(a.at) })
}

// inFlightWith returns the attempt of a notice that was in flight when an attempt of another one started.
func (l *ledger) inFlightWith(key string, a *arrival) *arrival {
	for _, b := range l.arrivals[key] {
		if !b.at.After(a.at) && b.done.After(a.at) {
			return b
		}
	}
	return nil
}

// overtaking returns the fault during which a notice may overtake its predecessor, if there was one.
func (l *ledger) overtaking(a *arrival) *span {
	for _, s := range l.faults {
		end := cmp.Or(s.to, time.Now()).Add(s.felt)
		if s.overtakes && !s.from.After(a.at) && end.After(a.at) {
			return s
		}
	}
	return nil
}
