package recur

import (
	"math/bits"
	"strconv"
	"strings"
	"time"
)

const (
	maxCron = 256
	// horizon is longer than the longest gap between ticks: 40 years, of a 29 February on a given weekday.
	horizon = 41
)

// cron is a parsed expression. Each set has a bit for each value that matches.
type cron struct {
	minute, hour, day, month, weekday uint64
	lastDay                           bool // the last day of a month matches
	// bothDays is set if the day of the month and the day of the week must match, as one of their fields begins with *.
	bothDays bool
	// fixed is set if the hours follow the clock when it changes. Otherwise each minute that the clock shows counts.
	fixed bool
}

// field describes a field of an expression.
type field struct {
	name      string
	low, high int
	words     string // three letters for each value from low on
}

var fields = [5]field{
	{"minute", 0, 59, ""}, {"hour", 0, 23, ""}, {"day of the month", 1, 31, ""},
	{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"}, {"day of the week", 0, 7, "sunmontuewedthufrisat"},
}

var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// parseCron reads an expression of five fields, or one of the macros.
func parseCron(text string) (*cron, error) {
	if len(text) > maxCron {
		return nil, invalid("cron has %d characters, at most %d are allowed", len(text), maxCron)
	}

	expanded := strings.TrimSpace(text)
	if strings.HasPrefix(expanded, "@") {
		if expanded = macros[strings.ToLower(expanded)]; expanded == "" {
			return nil, invalid("cron %q is unknown; want @yearly, @monthly, @weekly, @daily or @hourly, or every for an interval", text)
		}
	}

	parts := strings.Fields(expanded)
	if len(parts) > 0 && strings.Contains(parts[0], "TZ=") {
		return nil, invalid("cron %q names a zone; want it in zone", text)
	}

	if len(parts) != len(fields) {
		return nil, invalid("cron %q has %d fields; want five, such as 0 2 * * *: minute, hour, day of the month, month, day of the week",
			text, len(parts))
	}

	c := &cron{fixed: !strings.ContainsAny(parts[1], "*/"), bothDays: parts[2][0] == '*' || parts[4][0] == '*'}
	parts[2], c.lastDay = cutLast(parts[2])
	for i, set := range []*uint64{&c.minute, &c.hour, &c.day, &c.month, &c.weekday} {
		var err error
		if *set, err = fields[i].parse(parts[i]); err != nil && !(i == 2 && c.lastDay && parts[i] == "") {
			return nil, invalid("cron %q: %s", text, err)
		}
	}

	c.weekday |= c.weekday >> 7 & 1 // 7 is Sunday too
	if c.hour == 1<<24-1 {
		c.fixed = false // 0-23 is *
	}

	if _, ok := c.match(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}); !ok {
		return nil, invalid("cron %q matches no date; want a day that one of its months has", text)
	}

	return c, nil
}

// cutLast removes L, the last day of a month, from the list of a field.
func cutLast(list string) (rest string, found bool) {
	var kept []string
	for item := range strings.SplitSeq(list, ",") {
		if item == "L" || item == "l" {
			found = true
		} else {
			kept = append(kept, item)
		}
	}

	return strings.Join(kept, ","), found
}

// wrong is an error in a field.
type wrong string

func (w wrong) Error() string { return string(w) }

func (f *field) fault(item, want string) error {
	return wrong(strconv.Quote(item) + " is no " + f.name + "; want " + want)
}

// span returns the range of values, for messages.
func (f *field) span() string { return strconv.Itoa(f.low) + "-" + strconv.Itoa(f.high) }

// parse reads a list of values, ranges and steps.
func (f *field) parse(list string) (set uint64, err error) {
	for item := range strings.SplitSeq(list, ",") {
		part, err := f.item(item)
		if err != nil {
			return 0, err
		}

		set |= part
	}
	return set, nil
}

func (f *field) item(item string) (set uint64, err error) {
	values, stepText, hasStep := strings.Cut(item, "/")
	lowText, highText, isRange := strings.Cut(values, "-")
	low, high := f.low, f.high
	if values == "*" {
		isRange = true
		if f.high == 7 {
			high = 6 // 7 is 0
		}
	} else if low, high, err = f.limits(item, lowText, highText, isRange); err != nil {
		return 0, err
	}

	step := 1
	if hasStep {
		if !isRange {
			return 0, f.fault(item, values+"-"+strconv.Itoa(f.high)+"/"+stepText+" for a start with a step")
		}
		if step, err = number(stepText); err != nil || step < 1 || step > high-low+1 {
			return 0, f.fault(item, "a step from 1 to "+strconv.Itoa(high-low+1)+", or every for other intervals")
		}
	}

	for v := low; v <= high; v += step {
		set |= 1 << v
	}

	return set, nil
}

// limits reads a value, or a range of values.
func (f *field) limits(item, lowText, highText string, isRange bool) (low, high int, err error) {
	want := "* or " + f.span() + ", a range such as " + f.span() + ", or a list of these"
	low, ok := f.value(lowText)
	if !ok {
		return 0, 0, f.fault(item, want)
	}
	if !isRange {
		return low, low, nil
	}
	if high, ok = f.value(highText); !ok {
		return 0, 0, f.fault(item, want)
	}

	if f.high == 7 && high == 0 && low > 0 {
		high = 7 // fri-sun
	}

	if low > high {
		return 0, 0, f.fault(item, "the lower value first, or a list of two ranges")
	}

	return low, high, nil
}

// value reads a number or a name.
func (f *field) value(text string) (v int, ok bool) {
	if at := strings.Index(f.words, strings.ToLower(text)); len(text) == 3 && at >= 0 && at%3 == 0 {
		return f.low + at/3, true
	}

	v, err := number(text)
	return v, err == nil && v >= f.low && v <= f.high
}

// number reads one or two digits.
func number(text string) (int, error) {
	if len(text) > 2 {
		return 0, strconv.ErrRange
	}

	v, err := strconv.ParseUint(text, 10, 8)
	return int(v), err
}

// match returns the first matching minute from a time on and before end. Times are wall times written as UTC. Without an
// end, the search ends after the horizon.
func (c *cron) match(from, end time.Time) (time.Time, bool) {
	if end.IsZero() {
		end = from.AddDate(horizon, 0, 0)
	}

	year, month, date := from.Date()
	t := time.Date(year, month, date, 0, 0, 0, 0, time.UTC)
	for first := from.Hour()*60 + from.Minute(); t.Before(end); first = 0 {
		if c.month>>t.Month()&1 == 0 {
			t = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}

		if m := c.minuteOfDay(first); m >= 0 && c.onDay(t) {
			t = t.Add(time.Duration(m) * time.Minute)
			return t, t.Before(end)
		}

		t = t.AddDate(0, 0, 1)
	}

	return t, false
}

// minuteOfDay returns the first matching minute from a minute of a day on, or -1.
func (c *cron) minuteOfDay(from int) int {
	hour, minute := from/60, from%60
	if c.hour>>hour&1 == 1 && c.minute>>minute != 0 {
		return hour*60 + minute + bits.TrailingZeros64(c.minute>>minute)
	}
	if later := c.hour >> (hour + 1); later != 0 {
		return (hour+1+bits.TrailingZeros64(later))*60 + bits.TrailingZeros64(c.minute)
	}

	return -1
}

func (c *cron) onDay(t time.Time) bool {
	date := c.day>>t.Day()&1 == 1 || c.lastDay && t.AddDate(0, 0, 1).Day() == 1
	weekday := c.weekday>>t.Weekday()&1 == 1
	if c.bothDays {
		return date && weekday
	}

	return date || weekday
}
