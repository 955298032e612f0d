//go:build !fault

package acceptance

import "time"

// The size of TestMigrationToClusterAndBack: the notices due far ahead, the kills of the
// mover in each direction, the pause of an instance, and the producers' calls a second.
const (
	farAhead       = 3000
	killsOfMover   = 2
	stoppedFor     = 2 * time.Second
	producersCalls = 60
)
