package ui

import (
	"context"
	"time"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/receivers"
	"notifier/internal/store"
)

// Engine is the service behind the pages. All its methods may be called at the same time.
type Engine interface {
	api.Engine
	Amender
}

// Beside returns the options of pages that are served beside an API: with its clients, limits, figures and history.
func Beside(a *api.Options, e interface {
	Engine
	Physician
	Now() time.Time
}) Options {
	o := Options{Engine: e, Routes: a.Routes, Mask: a.Mask, Loopback: a.Loopback, Logger: a.Logger, Version: a.Version, Tests: a.Tests,
		Keys: a.Keys, Recurrences: a.Recurrences, Meter: auth.NewMeter(a.Clients), Health: e, Now: e.Now, Sampler: a.Sampler,
		Sessions: auth.NewSessions(auth.SessionOptions{Keys: a.Keys, Clients: auth.NewClients(a.Clients), Register: e,
			Failures: a.Failures,
			Now:      e.Now})}
	if h, ok := a.History.(Historian); ok {
		o.History, o.Replays = h, a.Replayer
	}

	return o
}

// Physician reads the health of the receivers of each route.
type Physician interface {
	Health(ctx context.Context) ([]receivers.RouteHealth, error)
	// ReceiverDay returns the responses of a receiver of a route within a day.
	ReceiverDay(ctx context.Context, prefix, receiver string) (receivers.Day, error)
}

// Amender changes many notices at once.
type Amender interface {
	// AmendAll makes one bounded step of a change of many dead letters.
	AmendAll(ctx context.Context, b store.Bulk) (store.Amends, error)
}
