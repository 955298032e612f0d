//go:build quick && !fault

package timetravel

// The size of TestLadderDays in `make test`: see size_test.go.
const ladderDays, seedOfClock, perJourney = 200, false, 50

var groups = []int{200}
