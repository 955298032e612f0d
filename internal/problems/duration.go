package problems

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Units are the units of a duration, from the smallest: milliseconds, seconds, minutes, hours, days.
type Units [5]string

// The units of the languages.
var (
	English = Units{"ms", "s", "m", "h", "d"}
	Chinese = Units{" 毫秒", " 秒", " 分钟", " 小时", " 天"}
)

// Duration is a duration to about two digits: 340ms, 1.2s, 45s, 3m10s, 2h5m, 3d4h.
func (u Units) Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + u.Duration(-max(d, -math.MaxInt64))
	case d == 0:
		return "0"
	case d < 9950*time.Microsecond:
		return u.of(Trimmed(float64(d)/1e6), 0)
	case d < 995*time.Millisecond:
		return u.of(strconv.Itoa(int(math.Round(float64(d)/1e6))), 0)
	case d < 9950*time.Millisecond:
		return u.of(Trimmed(d.Seconds()), 1)
	case d < time.Minute:
		return u.of(strconv.Itoa(int(d.Seconds())), 1)
	case d < time.Hour:
		return u.two(int(d/time.Minute), int(d%time.Minute/time.Second), 2)
	case d < 24*time.Hour:
		return u.two(int(d/time.Hour), int(d%time.Hour/time.Minute), 3)
	}

	return u.two(int(d/(24*time.Hour)), int(d%(24*time.Hour)/time.Hour), 4)
}

func (u Units) of(n string, unit int) string { return strings.TrimSpace(n + u[unit]) }

// two is a number of a unit, and one of the next smaller unit if that is not 0.
func (u Units) two(a, b, unit int) string {
	first := u.of(strconv.Itoa(a), unit)
	switch {
	case b == 0:
		return first
	case u == Chinese && unit == 2:
		first = strings.TrimSuffix(first, "钟") // 3 分 10 秒, but 3 分钟
	}

	if u == Chinese {
		first += " "
	}

	return first + u.of(strconv.Itoa(b), unit-1)
}

// Trimmed is a number with one decimal, if it has one.
func Trimmed(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}
