package notice

import "strconv"

// Count formats a number of things, such as "1 notice" or "2 notices".
func Count[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(int64(n), 10) + " " + one + "s"
}
