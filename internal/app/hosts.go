package app

import (
	"notifier/internal/callback"
	"notifier/internal/fleet"
)

// toldHosts is the maximum number of hosts that an instance publishes, those with failures first.
// Each takes about 150 of the 16 KiB that an instance may publish.
const toldHosts = 64

// hosts are the destinations of callbacks.
type hosts struct{ *callback.Handler }

// Figures implements engine.Hosts.
func (h hosts) Figures() []fleet.HostFigures { return hostFigures(h.Handler.Hosts(toldHosts)) }

// hostFigures returns the published figures of this instance's hosts.
func hostFigures(states []callback.HostState) []fleet.HostFigures {
	out := make([]fleet.HostFigures, len(states))
	for i, s := range states {
		out[i] = fleet.HostFigures{Prefix: s.Prefix, Host: s.Host, InFlight: s.InFlight, Slots: s.Slots, Slowed: s.Slowed,
			Calls: s.Calls, Failed: s.Failed, MeanMS: s.Mean.Milliseconds()}
		if s.Breaker != "closed" {
			out[i].Breaker, out[i].RetryMS = s.Breaker, s.Until.UnixMilli()
		}
	}

	return out
}
