//go:build !fault && !quick

package timetravel

// How many ladder-days are simulated, whether the seeds differ from run to run, and how many
// notices go through their ladders in one bubble; each instance has slots for all of them.
const ladderDays, seedOfClock, perJourney = 2000, false, 500

// groups are how many notices may be due in one millisecond.
var groups = []int{200}
