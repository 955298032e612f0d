//go:build fault

package timetravel

// How many ladder-days are simulated, and by which seeds: others each time.
const ladderDays, seedOfClock = 100_000, true

// groups are how many notices may be due in one millisecond.
var groups = []int{50, 200, 200}
