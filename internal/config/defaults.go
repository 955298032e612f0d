package config

import (
	"slices"
	"strings"

	"notifier/internal/route"
)

// reserved is the name that no route may have, because its variables are the defaults of all routes.
const reserved = "default"

// DefaultsText describes the defaults of all routes, for docs/configuration.md.
func DefaultsText() string {
	var names []string
	for f := range fields(defaultVars{}) {
		names = append(names, "`"+f.name+"`")
	}

	return "`" + routePrefix(reserved) + "` with " + strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1] +
		" sets the default of all routes.\n" +
		"A route's own variable takes precedence, and its own preset also over the `ACK` and `TIMEOUT` of the defaults. A default\n" +
		"that a route's target does not take is skipped. No route may have the name `default`."
}

// defaults reads the defaults of all routes once, so that a wrong one is reported under its own name.
func (r *reader) defaults() {
	var raw defaultVars
	prefix := routePrefix(reserved)
	r.fillOr(prefix, &raw, func(name string) (string, bool) {
		for f := range fields(routeVars{}) {
			if prefix+f.name == name {
				return f.unset, f.unset != ""
			}
		}
		return "", false
	})
	rr := &routeReader{reader: r, prefix: prefix, rt: &route.Route{}, raw: routeVars{Retry: raw.Retry, Jitter: raw.Jitter,
		Expires: raw.Expires,
		Timeout: raw.Timeout, Ack: raw.Ack, Concurrency: raw.Concurrency, HostConcurrency: raw.HostConcurrency, HTTP: raw.HTTP, TLS: raw.TLS}}
	rr.retry()
	rr.limits()
	rr.versions()
	r.booleanAs(prefix+"HTTPS_ONLY", raw.HTTPSOnly)
}

// defaultOf returns the value that a route gets from the defaults for a variable that it does not set itself.
func (rr *routeReader) defaultOf(name string) (string, bool) {
	short := strings.TrimPrefix(name, rr.prefix)
	from := routePrefix(reserved) + short
	value, ok := rr.value(from)
	if !ok || rr.errs.Of(from) || !isDefault(short) || !rr.takes(short, value) {
		return "", false
	}

	return value, true
}

// takes reports whether a default is for this route. Defaults that do not fit its target are skipped, and so are ACK and TIMEOUT
// if the route has a preset of its own.
func (rr *routeReader) takes(short, value string) bool {
	target, _ := rr.value(rr.prefix + "TARGET")
	t, err := route.ParseTarget(target)
	if err != nil {
		return true // reported elsewhere
	}

	own, _ := rr.value(rr.prefix + "RETRY")
	preset := route.FindPreset(strings.ToLower(own)) != nil
	switch short {
	case "ACK":
		a, err := route.ParseAck(value)
		return err == nil && !preset && fits(a, t.Kind)
	case "TIMEOUT":
		return !preset
	case "HOST_CONCURRENCY", "HTTPS_ONLY", "HTTP", "TLS":
		return http(t.Kind)
	}

	return true
}

// isDefault reports whether a variable has a default for all routes.
func isDefault(short string) bool {
	return slices.ContainsFunc(slices.Collect(fields(defaultVars{})), func(f field) bool { return f.name == short })
}

// setBy returns the variable that gives a route its value.
func (rr *routeReader) setBy(short string) string {
	if _, own := rr.value(rr.prefix + short); !own && isDefault(short) {
		return routePrefix(reserved) + short
	}
	return rr.prefix + short
}

// fits reports whether a target can acknowledge in that way. An answer acknowledges an HTTP call; a consumer's report
// acknowledges an entry of a list or stream.
func fits(a route.Ack, kind route.Kind) bool {
	report := a.Kind == route.AckReport
	switch {
	case http(kind):
		return !report
	case kind == route.KindList || kind == route.KindStream:
		return report
	}

	return false
}
