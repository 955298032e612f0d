//go:build !fault

package timetravel

// How many ladder-days are simulated, and by which seeds: `make test` runs the
// same each time.
const ladderDays, seedOfClock = 2000, false

// groups are how many notices may be due in one millisecond.
var groups = []int{200}
