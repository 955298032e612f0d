package notice

import (
	"encoding/json"
	"strconv"
	"time"
)

// Held is the cause of a late start of an attempt. It is a label of the lateness metric, so its values are a
// closed set.
type Held string

// The causes. None, busy, redis and local are caused by this service's own capacity and state. All others are limits
// and settings of operators, or receivers that do not answer.
const (
	HeldNone    Held = "none"    // no cause: the notice was due and not claimed, or its instance died
	HeldBusy    Held = "busy"    // all slots of its host were taken
	HeldRate    Held = "rate"    // the route's rate was used up
	HeldBreaker Held = "breaker" // the breaker of its host was open
	HeldPaused  Held = "paused"  // its route or its receiver was paused
	HeldHeaders Held = "headers" // its route's headers are not allowed for the url's scheme or port
	HeldToken   Held = "token"   // its access token was not available
	HeldRedis   Held = "redis"   // the Redis of its list or stream was unavailable
	HeldLocal   Held = "local"   // a shortage of the instance's machine, see Shortage
	HeldSealed  Held = "sealed"  // the instances that claimed it cannot open it
)

// Helds lists every cause. The scores in the shadow contain the index of a cause, so new causes are added at
// the end.
var Helds = [...]Held{HeldNone, HeldBusy, HeldRate, HeldBreaker, HeldPaused, HeldHeaders, HeldToken, HeldRedis, HeldLocal, HeldSealed}

// Index returns the index of h in Helds; 0 if Helds does not contain it.
func (h Held) Index() int {
	for i, v := range Helds {
		if v == h {
			return i
		}
	}
	return 0
}

// Own reports whether h is a cause that the alert NotifierLate counts.
func (h Held) Own() bool { return h == HeldNone || h == HeldBusy || h == HeldRedis || h == HeldLocal }

// HeldBy returns the cause for a deferral with reason r. HeldNone means that the reason is not a cause, so
// the earlier cause still holds.
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
	case ReasonPaused:
		return HeldPaused
	case ReasonQueue:
		return HeldRedis
	case ReasonLocal:
		return HeldLocal
	case ReasonSealed:
		return HeldSealed
	}

	return HeldNone
}

// Waits measures how long each cause has held a notice, from its due time until Until. The zero value means
// that no cause has. The times belong to one due time: a later due time resets them.
type Waits struct {
	Until time.Time
	For   [len(Helds)]time.Duration // by the index of the cause
}

// Since returns w, or an empty Waits starting at due if w belongs to an earlier due time.
func (w Waits) Since(due time.Time) Waits {
	if w.Until.After(due) {
		return w
	}
	return Waits{Until: due}
}

// Add records that h held the notice from w.Until to at. An earlier at adds nothing.
func (w *Waits) Add(h Held, at time.Time) {
	if at.After(w.Until) {
		w.For[h.Index()] += at.Sub(w.Until)
		w.Until = at
	}
}

// Longest returns the cause that has held the notice for the longest time; of equal ones the first in Helds.
func (w *Waits) Longest() Held {
	longest := 0
	for i, d := range w.For {
		if d > w.For[longest] {
			longest = i
		}
	}

	return Helds[longest]
}

// append appends the record's member "held": the instant and the milliseconds of each cause.
func (w *Waits) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, `,"held":{"until":`...), w.Until.UnixMilli(), 10)
	for i, d := range w.For {
		if ms := d.Milliseconds(); ms > 0 {
			b = appendInt(b, string(Helds[i]), ms)
		}
	}

	return append(b, '}')
}

// waitsOf parses the member "held". Causes that this version does not know are ignored.
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
