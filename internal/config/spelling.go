package config

// Distance is the number of letters to change, add or drop between two names,
// or limit if it is not less.
func Distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}

	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := 1; i <= len(a); i++ {
		before := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := before
			if a[i-1] != b[j-1] {
				cost = 1 + min(before, row[j], row[j-1])
			}

			before, row[j] = row[j], cost
		}
	}

	return min(row[len(b)], limit)
}
