//go:build fault

package acceptance

import "time"

// How large the migration of TestMigrationToClusterAndBack is: see migratesize_test.go.
const (
	farAhead       = 100_000
	killsOfMover   = 5
	stoppedFor     = 10 * time.Second
	producersCalls = 300
)
