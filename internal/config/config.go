// Package config reads the environment into a [Config].
//
// Everything is checked at once: Load reports each wrong, missing and unknown
// NOTIFIER_* variable in one error, with what would be right, and never with a
// secret. A setting that could not be kept at run time (a listener open to the
// network without clients, two routes on one prefix) is refused here, at start.
package config

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"

	"notifier/internal/notice"
	"notifier/internal/route"
)

//go:generate go run ../tools/configdoc ../../docs/configuration.md

// Config is what the environment says, checked.
type Config struct {
	Redis     Redis
	Namespace string
	Shards    int
	Instance  string

	Listen  string
	Clients []Client
	Routes  []*route.Route // in the order of NOTIFIER_ROUTES

	Concurrency     int
	Grace           time.Duration
	MaxBody         int64
	Retention       time.Duration
	Retain          int64
	ConfigureRedis  bool
	ShutdownTimeout time.Duration

	LogLevel  string // debug, info, warn, error
	LogFormat string // json, console
}

// Redis says where Redis is and of which kind.
type Redis struct {
	// URL may hold a password: it is for go-redis and for nobody else. Where
	// tells the same without it.
	URL  string
	Mode string // standalone, sentinel, cluster
}

// The modes of Redis.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
)

// Where is the URL without what may be secret.
func (r Redis) Where() string { return redact(r.URL) }

// String keeps the password out of a log.
func (r Redis) String() string { return r.Where() + " (" + r.Mode + ")" }

// GoString keeps the password out of %#v.
func (r Redis) GoString() string { return r.String() }

// MarshalText keeps it out of JSON.
func (r Redis) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Secret is a value that prints as dots.
type Secret = route.Secret

// Client is one that may call the HTTP API.
type Client struct {
	Name   string // lower case
	Token  Secret
	Prefix string // what it may see and touch; empty = all
}

// Load reads the configuration. Values come from lookup, the names that are set
// from environ ("NAME=value", os.Environ's form), and the files that _FILE
// variables and certificates name from readFile. Its error is of type Errors.
func Load(lookup envconfig.Lookuper, environ []string, readFile func(string) ([]byte, error)) (*Config, error) {
	r := &reader{source: &source{lookup: lookup, readFile: readFile}}
	r.known = map[string]bool{}
	var raw serviceVars
	r.fill(Prefix, &raw)
	c := r.service(&raw)
	c.Clients = r.clients(raw.Clients)
	c.Routes = r.routes(raw.Routes, c)
	r.across(c)
	r.unknown(environ)
	if len(r.errs) > 0 {
		return nil, r.errs.sorted()
	}
	return c, nil
}

// service reads everything but clients and routes.
func (r *reader) service(raw *serviceVars) *Config {
	c := &Config{
		Redis:           Redis{URL: raw.RedisURL, Mode: raw.RedisMode},
		Namespace:       raw.Namespace,
		Shards:          r.integer("SHARDS", raw.Shards, 1, 1024),
		Instance:        raw.Instance,
		Listen:          raw.Listen,
		Concurrency:     r.integer("CONCURRENCY", raw.Concurrency, 1, 100_000),
		Grace:           r.duration("GRACE", raw.Grace, time.Millisecond, 10*time.Second),
		MaxBody:         r.size("MAX_BODY", raw.MaxBody, 1, 16<<20),
		Retention:       r.duration("RETENTION", raw.Retention, 0, notice.MaxHorizon),
		Retain:          int64(r.integer("RETAIN", raw.Retain, 0, 100_000_000)),
		ConfigureRedis:  r.boolean("CONFIGURE_REDIS", raw.ConfigureRedis),
		ShutdownTimeout: r.duration("SHUTDOWN_TIMEOUT", raw.ShutdownTimeout, 0, 10*time.Minute),
		LogLevel:        r.oneOf("LOG_LEVEL", raw.LogLevel, "debug", "info", "warn", "error"),
		LogFormat:       r.oneOf("LOG_FORMAT", raw.LogFormat, "json", "console"),
	}
	r.redis(c.Redis)
	if !segment.MatchString(c.Namespace) {
		r.wrong("NAMESPACE", c.Namespace, "1 to 64 letters, digits, '_', '.', '~' or '-'")
	}
	if c.Instance == "" {
		c.Instance = instance()
	} else if !segment.MatchString(c.Instance) {
		r.wrong("INSTANCE", c.Instance, "1 to 64 letters, digits, '_', '.', '~' or '-'")
	}
	return c
}

// instance names this process: where it runs, and which of those that ran there.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host, _, _ = strings.Cut(host, ".")
	return host + "-" + strings.ToLower(rand.Text()[:6])
}

// Describe says in lines for the start log what the configuration comes to:
// what a reader of it would have to compute, the ladders first.
func Describe(c *Config) []string {
	lines := []string{fmt.Sprintf("redis %s, namespace %s, %d shards", c.Redis, c.Namespace, c.Shards)}
	if c.Shards == 1 {
		lines[0] = strings.TrimSuffix(lines[0], "s")
	}
	for _, rt := range c.Routes {
		lines = append(lines, describe(rt))
	}
	for _, cl := range c.Clients {
		scope := "everything"
		if cl.Prefix != "" {
			scope = cl.Prefix
		}
		lines = append(lines, fmt.Sprintf("client %s: may see and touch %s", cl.Name, scope))
	}
	return lines
}

func describe(rt *route.Route) string {
	var b strings.Builder
	fmt.Fprintf(&b, "route %s: %s to %s, %s", rt.Name, rt.Prefix, targetText(rt.Target), rt.Ladder.Summary())
	if len(rt.Ladder) > 0 {
		fmt.Fprintf(&b, " (%s", rt.Ladder)
		if rt.Jitter > 0 {
			fmt.Fprintf(&b, " ± %g %%", rt.Jitter*100)
		}
		b.WriteString(")")
	}
	if http(rt.Target.Kind) {
		fmt.Fprintf(&b, ", acknowledged by %s within %s, %d at a time and %d a host", rt.Ack, notice.Short(rt.Timeout),
			rt.Concurrency, rt.HostConcurrency)
		if len(rt.Secrets) == 0 {
			b.WriteString(", unsigned")
		}
	} else {
		if rt.Ack.Kind == route.AckReport {
			b.WriteString(", reported by its consumer")
		}
		fmt.Fprintf(&b, ", within %s, %d at a time", notice.Short(rt.Timeout), rt.Concurrency)
	}
	if rt.Rate > 0 {
		fmt.Fprintf(&b, ", %g/s at most", rt.Rate)
	}
	if rt.Adopt {
		b.WriteString(", adopts plain timers")
	}
	return b.String()
}

func targetText(t route.Target) string {
	switch t.Kind {
	case route.KindFixed:
		return redact(t.URL)
	case route.KindList, route.KindStream:
		return string(t.Kind) + ":" + t.Key
	case route.KindNotice:
		return "each notice's url"
	}
	return string(t.Kind)
}

func http(k route.Kind) bool { return k == route.KindFixed || k == route.KindNotice }
