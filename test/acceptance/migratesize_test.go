//go:build !fault

package acceptance

import "time"

// How large the migration of TestMigrateToAClusterAndBack is: how many notices wait far
// ahead, how often the mover is killed on each way, for how long an instance is stopped
// there, and how many calls the producers make a second.
const (
	farAhead       = 3000
	killsOfMover   = 2
	stoppedFor     = 2 * time.Second
	producersCalls = 60
)
