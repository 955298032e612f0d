// Package seam connects package worker with package workertest, without a public name.
package seam

import (
	"time"

	"notifier/internal/engine"
	"notifier/internal/wire"
)

// Seam replaces parts of a worker.
type Seam struct {
	Conn   *wire.Conn
	Change func(*engine.Options)
	Now    func() time.Time // the clock of Redis, from which the process's differs by years
}

// Package worker sets these functions when it is imported.
var (
	// Set gives a *worker.Options a Seam.
	Set func(options any, s Seam)
	// Engine returns the engine of a *worker.Worker; nil before its first call.
	Engine func(w any) *engine.Engine
)
