package notice

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Ladder is the list of delays between attempts. The first delay is between attempts 1 and 2, so a ladder of
// n steps allows n+1 attempts. Nil means "not given", empty means "no retry". A negative last step repeats: written 1h*, it is every hour
// until the notice expires, and once for a notice that does not expire.
type Ladder []time.Duration

// LeastRepeated is the minimum of a step that repeats.
const LeastRepeated = time.Minute

// Repeats reports whether the last step repeats.
func (l Ladder) Repeats() bool { return len(l) > 0 && l[len(l)-1] < 0 }

// Repeated returns the ladder with a last step that repeats.
func (l Ladder) Repeated() Ladder {
	x := slices.Clone(l)
	if len(x) > 0 && !x.Repeats() {
		x[len(x)-1] = -x[len(x)-1]
	}

	return x
}

// Total returns the time from the first attempt to the last, with one repetition.
func (l Ladder) Total() time.Duration {
	var t time.Duration
	for _, d := range l {
		t += max(d, -d)
	}

	return t
}

// String returns the form that ParseLadder parses.
func (l Ladder) String() string {
	if len(l) == 0 {
		return "none"
	}

	s := make([]string, len(l))
	for i, d := range l {
		s[i] = StepText(d)
	}

	return strings.Join(s, ",")
}

// StepText returns a step as ParseLadder parses it.
func StepText(d time.Duration) string {
	if d < 0 {
		return Short(-d) + "*"
	}
	return Short(d)
}

// Summary returns the ladder's length and total, such as "9 retries over 25h13m15s".
func (l Ladder) Summary() string {
	text := fmt.Sprintf("%d retries over %s", len(l), Short(l.Total()))
	switch len(l) {
	case 0:
		return "no retry"
	case 1:
		text = "1 retry over " + Short(l.Total())
	}

	if l.Repeats() {
		text += ", then one every " + Short(-l[len(l)-1]) + " until it expires"
	}

	return text
}

// Short formats a duration without zero units at its end, such as 10m, 2h or 1h30m.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}

	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}

	return s
}

// ParseLadder parses steps such as "15s,3m,10m", or "none".
func ParseLadder(s string) (Ladder, error) {
	s = strings.TrimSpace(s)
	if s == "none" {
		return Ladder{}, nil
	}

	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
	if len(parts) == 0 {
		return nil, invalid("an empty ladder; want steps such as 15s,3m,10m, or none")
	}

	l := make(Ladder, len(parts))
	for i, p := range parts {
		d, err := ParseStep(p)
		if err != nil {
			return nil, invalid("step %d: %s", i+1, strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": "))
		}

		l[i] = d
	}

	return l, l.Check()
}

// ParseStep parses a step of a ladder: a duration, with a final * if it repeats.
func ParseStep(s string) (time.Duration, error) {
	s, repeats := strings.CutSuffix(strings.TrimSpace(s), "*")
	d, err := ParseDuration(s)
	if repeats {
		d = -d
	}

	return d, err
}

// Check validates the number and the length of the steps.
func (l Ladder) Check() error {
	if len(l) > MaxSteps {
		return invalid("%d steps, at most %d are allowed", len(l), MaxSteps)
	}

	for i, d := range l {
		if d < 0 && i < len(l)-1 {
			return invalid("step %d repeats, and only the last one may", i+1)
		}
		if d < 0 && -d < LeastRepeated {
			return invalid("step %d is %s; a step that repeats is at least %s", i+1, StepText(d), Short(LeastRepeated))
		}

		if d = max(d, -d); d < time.Millisecond || d > MaxHorizon {
			return invalid("step %d is %s; a step is from 1ms to %s", i+1, d, Short(MaxHorizon))
		}
	}

	return nil
}

// ParseDuration parses a Go duration (15s, 1h30m), also with weeks and days (2w, 7d, 1d12h), or a number of seconds.
func ParseDuration(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	if secs, ok := seconds(s); ok {
		if !(secs >= 0 && secs <= MaxHorizon.Seconds()) {
			return 0, invalid("%q is not from 0 to %.0f seconds", s, MaxHorizon.Seconds())
		}
		return time.Duration(secs * float64(time.Second)), nil
	}

	d, err := parseUnits(s)
	if err != nil {
		return 0, invalid("%.80q is not a duration; %s", s, WantDuration(s))
	}
	if d < 0 || d > MaxHorizon {
		return 0, invalid("%q is not from 0 to %s", s, Short(MaxHorizon))
	}

	return d, nil
}

// Jittered spreads d over ±share of it, so that notices that failed together are not retried together. The
// result is at least 1 ms.
func Jittered(d time.Duration, share float64) time.Duration {
	if share <= 0 {
		return d
	}

	d += time.Duration((2*rand.Float64() - 1) * share * float64(d))
	return max(d, time.Millisecond)
}

func mustLadder(s string) Ladder {
	l, err := ParseLadder(s)
	if err != nil {
		panic("notice: preset: " + err.Error())
	}

	return l
}

// The ladders that payment platforms publish. See route.Preset for the settings that belong to them.
var (
	// DefaultLadder is the default of a route: 25h13m15s in all.
	DefaultLadder = mustLadder("15s,3m,10m,30m,30m,1h,2h,6h,15h")
	// AlipayLadder is that of Alipay's asynchronous notice, whose documentation begins with 4m: 24h24m in
	// all.
	AlipayLadder = mustLadder("4m,10m,10m,1h,2h,6h,15h")
	// WeChatLadder is that of WeChat Pay v3: 24h4m in all.
	WeChatLadder = mustLadder("15s,15s,30s,3m,10m,20m,30m,30m,30m,60m,3h,3h,3h,6h,6h")
	// StandardLadder is the example of Standard Webhooks: 75h35m5s in all.
	StandardLadder = mustLadder("5s,5m,30m,2h,5h,10h,14h,20h,24h")
)
