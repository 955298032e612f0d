package notice

import (
	"errors"
	"strconv"
	"strings"
)

// ParseRate parses 100/s, 600/m or 5000/h, and returns the rate per second.
func ParseRate(s string) (float64, error) {
	count, unit, _ := strings.Cut(s, "/")
	per, ok := map[string]float64{"s": 1, "m": 60, "h": 3600}[strings.TrimSpace(unit)]
	n, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
	if !ok || err != nil || !(n > 0 && n <= 1e6) {
		return 0, errors.New("want a rate such as 100/s, 600/m or 5000/h")
	}

	return n / per, nil
}
