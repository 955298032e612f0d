package store

import (
	"math"
	"strconv"
	"time"

	"notifier/internal/notice"
)

// The score of a pending notice (in the zset shadow) is a time in Unix ms, plus a fraction that encodes the state:
//
//	fraction      formula       the notice is
//	0                           scheduled, with a timer
//	.0009 – .488  c/1024        claimed until that time, for the c-th time since its last settle (c < 500)
//	.488 – .496   (500+h)/1024  postponed, with a timer
//	.5                          scheduled, without a timer
//	.503 – .538   .5 + h/256    postponed, without a timer
//	.535 – .99    .535 + µs     due at once or parked, without a timer
//
// h is the index of the postponement's cause in notice.Helds, plus ½ if a settle schedules a notice again whose next attempt is
// not its first ([notice.Class]): the scores of such notices show that without their records. If they are not postponed, h is ½.
// The µs make a score differ from earlier ones. A parked notice waits for another one of its sequence; if its last c claims have
// expired, it keeps the fraction c/1024.
//
// In the zset of settled notices, the fraction is .0 for delivered and .5 for cancelled. In the zset of dead letters it is
// the code of the cause, divided by causes (notice.Cause).
const (
	heldTimed   = 500.0 / 1024 // the first fraction of postponed notices with a timer
	heldUntimed = 0.5          // the first fraction of those without a timer, in steps of heldStep
	heldStep    = 1.0 / 256
	causes      = notice.MaxCauseCode + 1
)

// DeadScore returns the score of a notice that died at a time of a cause.
func DeadScore(died time.Time, c notice.Cause) float64 {
	return float64(died.UnixMilli()) + causeFraction(c)
}

func causeFraction(c notice.Cause) float64 { return float64(c.Code()) / causes }

// scoreText returns a score with all its digits.
func scoreText(score float64) string { return strconv.FormatFloat(score, 'g', 17, 64) }

// HasTimer reports whether a pending notice with this score has a timer.
func HasTimer(score float64) bool {
	f := score - math.Floor(score)
	return f == 0 || f >= heldTimed && f < heldUntimed
}

// timedScore is HasTimer of a score as Redis writes it; false without one.
func timedScore(text string) bool {
	score, err := strconv.ParseFloat(text, 64)
	return err == nil && HasTimer(score)
}

// repeated reports whether a score shows that the notice has a timer and that its next attempt is not its first. lib/repeated.lua has the
// rule for scripts, which also decides about notices without a timer.
func repeated(score float64) bool {
	half := (score - math.Floor(score) - heldTimed) * 2048
	return HasTimer(score) && half == math.Trunc(half) && int(half)%2 == 1
}

// IsClaim reports whether a score is that of a claim.
func IsClaim(score float64) bool {
	f := score - math.Floor(score)
	return f > 0 && f < heldTimed
}

// heldIn returns the cause of postponement in a score.
func heldIn(text string) notice.Held {
	score, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return notice.HeldNone
	}

	f, i := score-math.Floor(score), 0.0
	switch {
	case f >= heldUntimed:
		i = (f - heldUntimed) / heldStep
	case f >= heldTimed:
		i = (f - heldTimed) * 1024
	}

	if 2*i != math.Trunc(2*i) || int(i) >= len(notice.Helds) {
		return notice.HeldNone
	}

	return notice.Helds[int(i)]
}

// causeOf returns h of the score of a notice that is scheduled again: see above.
func causeOf(h notice.Held, c notice.Class) float64 {
	if c == notice.ClassFirst {
		return float64(h.Index())
	}
	return float64(h.Index()) + 0.5
}

// heldScore returns the score of a notice that is postponed until ms and has a timer. cause is its causeOf.
func heldScore(ms int64, cause float64) string {
	score := float64(ms)
	if cause > 0 {
		score += heldTimed + cause/1024
	}

	return scoreText(score)
}
