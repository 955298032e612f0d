//go:build fault

package timetravel

// The size of TestLadderDays in `make fault`: see size_test.go.
const ladderDays, seedOfClock, perJourney = 100_000, true, 500

// groups are how many notices may be due in one millisecond.
var groups = []int{50, 200, 200}
