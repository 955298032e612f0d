package doctor

import (
	"context"
	"fmt"

	"notifier/internal/callback"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/wire"
)

// triedReceivers is the maximum number of failing receivers to which doctor connects.
const triedReceivers = 5

// olderTLS reports receivers that fail with tls, and would accept an older TLS.
func (r *run) olderTLS(ctx context.Context) {
	const check = "receivers"
	var prefixes []string
	for _, rt := range r.cfg.Routes {
		prefixes = append(prefixes, rt.Prefix)
	}

	w := wire.New(wire.Options{Client: r.conn.Commander, Space: r.space, Cluster: r.conn.Masters != nil})
	states, err := (&receivers.HealthStore{Wire: w}).Read(ctx, prefixes)
	if err != nil {
		r.add(Finding{Check: check, Severity: Error, Message: "cannot read the health of the receivers: " + err.Error()})
		return
	}

	h := callback.New(callback.Options{})
	defer h.Close()

	tried := 0
	for i, state := range states {
		rt := r.cfg.Routes[i]
		for _, receiver := range state.Receivers {
			if !receiver.Failing() || receiver.Reason != string(notice.ReasonTLS) || tried == triedReceivers {
				continue
			}

			if tried++; h.OlderTLSCures(ctx, rt, receiver.Name) {
				r.add(Finding{Check: check, Severity: Warning,
					Message: fmt.Sprintf("%s of route %s accepts only an older TLS", receiver.Name, rt.Name),
					Remedy:  fmt.Sprintf("set NOTIFIER_ROUTE_%s_TLS=compatible", route.EnvName(rt.Name))})
			}
		}
	}
}
