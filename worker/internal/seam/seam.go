// Package seam connects package worker with packages workertest and workerui, without a public name.
package seam

import (
	"context"
	"time"

	"go.uber.org/zap"

	"notifier/internal/config"
	"notifier/internal/engine"
	"notifier/internal/history"
	"notifier/internal/route"
	"notifier/internal/wire"
)

// Seam replaces parts of a worker.
type Seam struct {
	Conn   *wire.Conn
	Change func(*engine.Options)
	Now    func() time.Time // the clock of Redis, from which the process's differs by years
}

// Parts are the parts of a worker that its pages show.
type Parts struct {
	Config  *config.Config
	Engine  *engine.Engine
	Routes  *route.Table
	History *history.DB // nil = none
	Logger  *zap.Logger
	// Go runs a function whose context ends when the worker is closed, which waits for the function.
	Go func(f func(ctx context.Context))
}

// Package worker sets these functions when it is imported.
var (
	// Set gives a *worker.Options a Seam.
	Set func(options any, s Seam)
	// Engine returns the engine of a *worker.Worker; nil before its first call.
	Engine func(w any) *engine.Engine
	// Serve makes the engine of a *worker.Worker with the names of the clients of its API, and returns its parts.
	Serve func(w any, clients []string) (Parts, error)
)
