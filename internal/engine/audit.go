package engine

import (
	"context"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/pace"
	"notifier/internal/route"
)

// tendAuditEvery is how often an instance registers the clients of its configuration.
const tendAuditEvery = time.Minute

// trail returns the audit log in Redis.
func (e *Engine) trail() *audit.Store { return &audit.Store{Wire: e.store.Wire()} }

// tendAudit registers the clients of the configuration with the audit log until ctx ends: see
// audit.Store.
func (e *Engine) tendAudit(ctx context.Context) error {
	clients := e.o.Clients
	if len(clients) == 0 {
		clients = []string{""} // callers without a name
	}

	recorded := false
	loop := pace.Loop{Min: tendAuditEvery, Max: tendAuditEvery, Logger: e.o.Logger,
		Failure: "cannot tidy the audit, retrying in a minute", Recovered: "tidying the audit again"}
	for {
		wait := tendAuditEvery
		err := e.trail().Tend(ctx, clients)
		if err == nil && !recorded {
			err = e.recordSettings(ctx)
			recorded = err == nil
		}

		if err == nil {
			loop.Succeed()
		} else if ctx.Err() == nil {
			wait = loop.Fail(err)
		}

		if !pace.Wait(ctx, wait) {
			return nil
		}
	}
}

// settingsOf returns the digests of the routes' settings, by name.
func settingsOf(table *route.Table) map[string]string {
	routes := map[string]string{}
	for _, r := range table.All() {
		routes[r.Name] = r.SettingDigests()
	}

	return routes
}

// recordSettings adds an entry to the audit for each route whose settings differ from those that an instance has recorded before.
func (e *Engine) recordSettings(ctx context.Context) error {
	changes, err := e.trail().RecordSettings(ctx, e.settings)
	for _, c := range changes {
		audit.NewTrail(e, e.o.Logger).Note(ctx, audit.Entry{Via: audit.Start, Address: e.o.Instance, Action: audit.Settings, Route: c.Route,
			Prefix: e.o.Routes.Name(c.Route).Prefix, Result: audit.Done, Detail: settingsDetail(c, e.o.Version)})
	}

	return err
}

// settingsDetail describes a change of settings: "ack, timeout: digest 1a2b to 3c4d, version v1.2".
func settingsDetail(c audit.Change, version string) string {
	text := "new route: digest " + c.After
	if c.Before != "" {
		text = strings.Join(c.Settings, ", ") + ": digest " + c.Before + " to " + c.After
	}

	if version != "" {
		text += ", version " + version
	}

	return text
}

// RouteChanges returns the last change of the settings of each route, by its name.
func (e *Engine) RouteChanges(ctx context.Context) (map[string]audit.Change, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return e.trail().Changes(ctx)
}
