package audit

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/wire"
)

//go:embed lua/settings.lua
var settingsSource string

var settingsScript = wire.NewScript("settings", settingsSource, true).Anywhere()

// Change is a change of the settings of a route, as an instance that started with other settings found it.
type Change struct {
	Route string
	At    time.Time
	// Before and After are digests of all settings; Before is empty for a new route. Settings are the names of the changed ones.
	Before, After string
	Settings      []string
}

// changedSuffix is the end of the fields of the record with the last change of a route. No route's name has a space.
const changedSuffix = " changed"

// RecordSettings records the digests of the settings of routes, by their names, and returns the changes since the last record. Each
// text is a digest of all settings, followed by name=digest of each.
func (s *Store) RecordSettings(ctx context.Context, routes map[string]string) (list []Change, err error) {
	var args []any
	for name, text := range routes {
		args = append(args, name, text)
	}

	if len(args) == 0 {
		return nil, nil
	}

	v, err := s.Wire.Run(ctx, settingsScript, []string{s.Wire.Space.AuditSettings()}, args)
	for i := 0; i+1 < len(v); i += 2 {
		name, _ := v[i].(string)
		was, _ := v[i+1].(string)
		if text, ok := routes[name]; ok {
			list = append(list, changeOf(name, was, text))
		}
	}

	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Route, b.Route) })
	return list, err
}

// Changes returns the last recorded change of each route, by its name.
func (s *Store) Changes(ctx context.Context) (map[string]Change, error) {
	all, err := s.Wire.Redis.HGetAll(ctx, s.Wire.Space.AuditSettings()).Result()
	if err != nil {
		return nil, s.Wire.Fail("settings", err)
	}

	out := map[string]Change{}
	for name, text := range all {
		route, ok := strings.CutSuffix(name, changedSuffix)
		if !ok {
			continue
		}

		ms, was, _ := strings.Cut(text, " ")
		if n, err := strconv.ParseInt(ms, 10, 64); err == nil {
			c := changeOf(route, was, all[route])
			c.At = time.UnixMilli(n).UTC()
			out[route] = c
		}
	}

	return out, nil
}

// changeOf compares two texts of settings.
func changeOf(route, before, after string) Change {
	c := Change{Route: route}
	c.Before, before, _ = strings.Cut(before, " ")
	c.After, after, _ = strings.Cut(after, " ")
	if c.Before == "" {
		return c
	}

	was := map[string]string{}
	for _, f := range strings.Fields(before) {
		name, d, _ := strings.Cut(f, "=")
		was[name] = d
	}

	for _, f := range strings.Fields(after) {
		name, d, _ := strings.Cut(f, "=")
		if was[name] != d {
			c.Settings = append(c.Settings, name)
		}

		delete(was, name)
	}

	for name := range was { // no longer set
		c.Settings = append(c.Settings, name)
	}

	slices.Sort(c.Settings)
	return c
}
