package notice

import (
	"encoding/json"
	"strconv"
	"time"
)

// Held is the cause of a late exchange, from a closed set: it is a label of the lateness.
type Held string

// The causes. None, busy and redis are this service's own capacity and state; all others are limits and
// settings that operators chose, or receivers that do not answer.
const (
	HeldNone    Held = "none"    // nothing held it: it was due and had not been claimed, or its instance died
	HeldBusy    Held = "busy"    // all slots of its host were taken
	HeldRate    Held = "rate"    // the route's rate was used up
	HeldBreaker Held = "breaker" // the breaker of its host was open
	HeldPaused  Held = "paused"  // its route was paused
	HeldHeaders Held = "headers" // the headers of its route are for another scheme or port of its host
	HeldToken   Held = "token"   // its access token was not available
	HeldRedis   Held = "redis"   // the Redis of its list or stream was unavailable
)

// Helds lists every cause. The shadow's scores contain a cause as its index: new ones go to the end.
var Helds = [...]Held{HeldNone, HeldBusy, HeldRate, HeldBreaker, HeldPaused, HeldHeaders, HeldToken, HeldRedis}

// Index is the place of h in Helds; 0 if it is not there.
func (h Held) Index() int {
	for i, v := range Helds {
		if v == h {
			return i
		}
	}
	return 0
}

// Own reports whether h is a cause that NotifierLate reports.
func (h Held) Own() bool { return h == HeldNone || h == HeldBusy || h == HeldRedis }

// HeldBy is the cause of a deferral with reason r. HeldNone: the reason is no cause, and the
// cause before it still holds.
func HeldBy(r Reason) Held {
	switch r {
	case ReasonBusy:
		return HeldBusy
	case ReasonRate:
		return HeldRate
	case ReasonBreaker:
		return HeldBreaker
	case ReasonHeaders:
		return HeldHeaders
	case ReasonToken:
		return HeldToken
	case ReasonQueue:
		return HeldRedis
	}
	return HeldNone
}

// Waits is how long each cause has held a notice, from its due time until Until.
// The zero value is that of a notice that nothing has held. It belongs to one promise: a later due time voids it.
type Waits struct {
	Until time.Time
	For   [len(Helds)]time.Duration // by the index of the cause
}

// Since is w, or an empty Waits from due on if w belongs to an earlier promise.
func (w Waits) Since(due time.Time) Waits {
	if w.Until.After(due) {
		return w
	}
	return Waits{Until: due}
}

// Add says that h held the notice from w.Until to at; an earlier at adds nothing.
func (w *Waits) Add(h Held, at time.Time) {
	if at.After(w.Until) {
		w.For[h.Index()] += at.Sub(w.Until)
		w.Until = at
	}
}

// Longest is the cause that has held for the longest time, the first of several in Helds.
func (w *Waits) Longest() Held {
	longest := 0
	for i, d := range w.For {
		if d > w.For[longest] {
			longest = i
		}
	}
	return Helds[longest]
}

// append appends the record's member "held": the instant and the ms of each cause.
func (w *Waits) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, `,"held":{"until":`...), w.Until.UnixMilli(), 10)
	for i, d := range w.For {
		if ms := d.Milliseconds(); ms > 0 {
			b = appendInt(b, string(Helds[i]), ms)
		}
	}
	return append(b, '}')
}

// waitsOf reads the member. Causes that this version does not know are left out.
func waitsOf(member []byte) (w Waits) {
	var m map[string]int64
	if err := json.Unmarshal(member, &m); err != nil || m["until"] <= 0 || m["until"] > maxNumber {
		return Waits{}
	}
	w.Until = time.UnixMilli(m["until"]).UTC()
	for i, h := range Helds {
		if ms := m[string(h)]; ms > 0 && ms <= MaxHorizon.Milliseconds() {
			w.For[i] = time.Duration(ms) * time.Millisecond
		}
	}
	return w
}
