package config

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"

	"notifier/internal/auth"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/wire"
)

// Config is the checked configuration of the service.
type Config struct {
	Redis     Redis
	Namespace string
	// SealKeys are the service keys for SEAL of routes; nil = there are none.
	SealKeys *seal.ServiceKeys
	SealKeep time.Duration
	Key      Secret // signs cursors, cookies and links; empty = the key stored in Redis
	// Shards is the number of shards; 0 = the number stored in Redis.
	Shards   int
	Instance string

	Listen string
	// MetricsListen is an additional address that serves only the metrics; empty = none.
	MetricsListen string
	// PprofListen is a loopback address that serves Go's profiles; empty = none.
	PprofListen string

	// TrustedProxies are the networks of proxies whose X-Forwarded headers are used.
	TrustedProxies []netip.Prefix
	Clients        []Client
	Routes         []*route.Route // in the order of NOTIFIER_ROUTES

	Concurrency     int
	Grace           time.Duration
	MaxBody         int64
	APIMemory       int64
	Retention       time.Duration
	Retain          int64
	RepeatWindow    time.Duration
	RepeatBytes     int64
	ConfigureRedis  bool
	ShutdownTimeout time.Duration
	// ShutdownDelay is the time between the first signal and the start of the shutdown.
	ShutdownDelay time.Duration

	// Takeover is the time without heartbeat and connections after which an instance is dead and its claims are
	// reclaimed. Zero = claims are never reclaimed before their lease ends.
	Takeover time.Duration
	// Limits is the scope of RATE and HOST_CONCURRENCY: route.LimitsFleet or route.LimitsInstance.
	Limits string

	// UI enables the pages under /ui/.
	UI bool
	// UIMask selects the parts of bodies and answers that the pages hide.
	UIMask *mask.Rules
	// PublicURL is the address of the pages for people, without a final slash; empty = not known.
	PublicURL string
	// Alarm is the address that gets what Redis cannot carry, as a route; nil = none.
	Alarm *route.Route
	// Durability is the confirmation that calls wait for, DurabilitySettle the one for settles. Both wait for
	// DurabilityTimeout at most.
	Durability, DurabilitySettle notice.Durability
	DurabilityTimeout            time.Duration

	History History
	// Telemetry holds the OTEL_ variables.
	Telemetry OTel

	LogCalls    string // off, changes, all
	LogAttempts notice.LogAttempts
	LogLevel    string // debug, info, warn, error
	LogFormat   string // json, console; empty = console on a terminal, else json
}

// Redis is the address of Redis and how to connect.
type Redis struct {
	// URL may contain a password. Only go-redis gets it; use Where for everything that people read.
	URL  string
	Mode string // standalone, sentinel, cluster
	// TLS is used for rediss://; nil = TLS with the system's authorities.
	TLS *tls.Config
	// SentinelUsername and SentinelPassword log in to the sentinels.
	SentinelUsername string
	SentinelPassword Secret
}

// History is the configuration of the history database.
type History struct {
	// URL may contain a password; empty = no history.
	URL       Secret
	Bodies    string        // keep, hash, drop
	Retention time.Duration // zero = unlimited
	Backlog   int           // maximum number of finalized notices buffered in Redis
}

// Connection modes.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
)

// Where returns the URL without credentials.
func (r Redis) Where() string { return redact(r.URL) }

// String returns the URL without credentials, and the mode.
func (r Redis) String() string { return r.Where() + " (" + r.Mode + ")" }

// GoString keeps the password out of %#v.
func (r Redis) GoString() string { return r.String() }

// MarshalText keeps the password out of JSON and logs.
func (r Redis) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Secret is a value that prints as dots.
type Secret []byte

func (Secret) String() string   { return "•••" }
func (Secret) GoString() string { return "•••" }

// MarshalText keeps a secret out of JSON and logs.
func (Secret) MarshalText() ([]byte, error) { return []byte("•••"), nil }

// Client is a configured caller of the HTTP API.
type Client struct {
	Name   string // lower case
	Token  Secret
	Prefix string // scope of its keys; empty = all keys
	Role   auth.Role
	Rate   float64 // requests a second
}

// Owners returns the clients that schedule notices.
func (c *Config) Owners() []receivers.Owner {
	list := []receivers.Owner{}
	for _, x := range c.Clients {
		if x.Role.Includes(auth.Produce) {
			list = append(list, receivers.Owner{Name: x.Name, Prefix: x.Prefix})
		}
	}

	return list
}

// Load reads and checks the configuration of the service. lookup returns the value of an environment variable. environ
// lists all variables, like os.Environ, so that unknown NOTIFIER_* variables are found. readFile reads the files that
// variables such as NOTIFIER_KEY_FILE name. If there are problems, the error is an [Errors], which lists all that do not
// depend on others.
func Load(lookup envconfig.Lookuper, environ []string, readFile func(string) ([]byte, error)) (*Config, error) {
	r := newReader(lookup, readFile)
	c, raw := r.base()
	c.TrustedProxies = r.networks("TRUSTED_PROXIES", raw.TrustedProxies)
	c.Clients = r.clients(raw.Clients)
	c.Routes = r.routes(raw.Routes, c)
	c.Telemetry = ReadOTel(telemetrySource{r})
	r.across(c)
	r.unknown(environ)
	if len(r.errs) > 0 {
		return nil, r.errs.sorted()
	}

	return c, nil
}

func newReader(lookup envconfig.Lookuper, readFile func(string) ([]byte, error)) *reader {
	return &reader{source: &source{lookup: lookup, readFile: readFile}, known: map[string]bool{}, hookOf: map[string]string{},
		formats: map[string]formatVars{}}
}

// base reads the variables of Redis and those of service.
func (r *reader) base() (*Config, *serviceVars) {
	var raw serviceVars
	var rawRedis redisVars
	r.fill(Prefix, &rawRedis)
	r.fill(Prefix, &raw)
	c := r.service(&raw)
	c.Redis = r.redis(&rawRedis)
	return c, &raw
}

// service reads every variable except those of Redis, clients and routes.
func (r *reader) service(raw *serviceVars) *Config {
	c := &Config{
		Namespace:       raw.Namespace,
		Key:             r.key(raw.Key),
		SealKeys:        r.sealKeys(raw.SealKeys),
		SealKeep:        r.duration("SEAL_KEEP", raw.SealKeep, 24*time.Hour, notice.MaxHorizon),
		Instance:        raw.Instance,
		Listen:          raw.Listen,
		MetricsListen:   raw.MetricsListen,
		PprofListen:     raw.PprofListen,
		Concurrency:     r.integer("CONCURRENCY", raw.Concurrency, 1, 100_000),
		Grace:           r.duration("GRACE", raw.Grace, time.Millisecond, 10*time.Second),
		MaxBody:         r.size("MAX_BODY", raw.MaxBody, 1, notice.MaxBody),
		APIMemory:       r.size("API_MEMORY", raw.APIMemory, 1<<20, 2047<<20),
		Retention:       r.duration("RETENTION", raw.Retention, 0, notice.MaxHorizon),
		Retain:          int64(r.integer("RETAIN", raw.Retain, 0, 100_000_000)),
		RepeatWindow:    r.duration("REPEAT_WINDOW", raw.RepeatWindow, 0, notice.MaxHorizon),
		RepeatBytes:     r.size("REPEAT_BYTES", raw.RepeatBytes, 0, 64<<30),
		ConfigureRedis:  r.boolean("CONFIGURE_REDIS", raw.ConfigureRedis),
		ShutdownTimeout: r.duration("SHUTDOWN_TIMEOUT", raw.ShutdownTimeout, 0, 10*time.Minute),
		ShutdownDelay:   r.duration("SHUTDOWN_DELAY", raw.ShutdownDelay, 0, 10*time.Minute),
		Takeover:        r.takeover(raw.Takeover),
		Limits:          r.oneOf("LIMITS", raw.Limits, route.LimitsFleet, route.LimitsInstance),
		UI:              r.boolean("UI", raw.UI),
		UIMask:          r.mask(raw.UIBodies, raw.UIMask),

		Durability:        r.durability("DURABILITY", raw.Durability),
		DurabilitySettle:  r.durability("DURABILITY_SETTLE", raw.DurabilitySettle),
		DurabilityTimeout: r.duration("DURABILITY_TIMEOUT", raw.DurabilityTimeout, 10*time.Millisecond, 30*time.Second),

		PublicURL:   r.publicURL(raw.PublicURL),
		History:     r.history(raw),
		LogCalls:    r.oneOf("LOG_CALLS", raw.LogCalls, "off", "changes", "all"),
		LogAttempts: r.logAttempts(raw.LogAttempts),
		LogLevel:    r.oneOf("LOG_LEVEL", raw.LogLevel, "debug", "info", "warn", "error"),
	}
	if c.LogFormat = raw.LogFormat; c.LogFormat != "" {
		r.oneOf("LOG_FORMAT", c.LogFormat, "json", "console")
	}

	c.Alarm = r.alarm(raw)
	if raw.Shards != "" {
		c.Shards = r.integer("SHARDS", raw.Shards, 1, 1024)
	}

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

// key reads NOTIFIER_KEY. Its error does not contain the value.
func (r *reader) key(text string) Secret {
	if text == "" {
		return nil
	}

	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		key, err = base64.RawStdEncoding.DecodeString(text)
	}

	switch {
	case err != nil:
		r.wrong("KEY", "", "32 random bytes in base64, as head -c 32 /dev/urandom | base64 prints them; the value is not base64")
	case len(key) != wire.KeySize:
		r.wrong("KEY", "", fmt.Sprintf("32 random bytes in base64, as head -c 32 /dev/urandom | base64 prints them; the value has %d bytes",
			len(key)))
	}

	return key
}

// history reads the variables of the history database. Its errors do not contain the URL.
func (r *reader) history(raw *serviceVars) History {
	h := History{URL: Secret(raw.HistoryURL), Bodies: r.oneOf("HISTORY_BODIES", raw.HistoryBodies, "keep", "hash", "drop"),
		Backlog: r.integer("HISTORY_BACKLOG", raw.HistoryBacklog, 1000, 100_000_000)}
	if raw.HistoryKeep != "" {
		h.Retention = r.duration("HISTORY_RETENTION", raw.HistoryKeep, 24*time.Hour, 100*365*24*time.Hour)
	}

	scheme, rest, _ := strings.Cut(raw.HistoryURL, "://")
	switch {
	case raw.HistoryURL == "":
	case scheme == "sqlite" && (!strings.HasPrefix(rest, "/") || strings.HasSuffix(rest, "/")):
		r.wrong("HISTORY_URL", "", "sqlite:///path/to/file: three slashes and an absolute path")
	case scheme != "sqlite" && scheme != "postgres" && scheme != "postgresql":
		r.wrong("HISTORY_URL", "", "postgres://user:password@host:5432/database or sqlite:///path/to/file (the value is not shown)")
	}

	return h
}

// logAttempts reads NOTIFIER_LOG_ATTEMPTS.
func (r *reader) logAttempts(text string) notice.LogAttempts {
	which, err := notice.ParseLogAttempts(text)
	if err != nil {
		r.add(Prefix+"LOG_ATTEMPTS", text, err.Error())
	}

	return which
}

// mask reads the rules for hiding parts of bodies and answers on the pages.
func (r *reader) mask(bodies, paths string) *mask.Rules {
	rules, err := mask.New(r.oneOf("UI_BODIES", bodies, "shown", "masked") == "masked", paths)
	if err != nil {
		r.add(Prefix+"UI_MASK", paths, err.Error())
	}

	return rules
}

// Bounds of TAKEOVER. Below the minimum, a paused process would be declared dead.
const (
	minTakeover = time.Second
	maxTakeover = time.Hour
)

// takeover reads TAKEOVER: a duration, or "lease" for zero.
func (r *reader) takeover(s string) time.Duration {
	if s == "lease" {
		return 0
	}

	d, err := notice.ParseDuration(s)
	if err != nil || d < minTakeover || d > maxTakeover {
		r.wrong("TAKEOVER", s, fmt.Sprintf("a duration from %s to %s, such as 3s, or lease", notice.Short(minTakeover),
			notice.Short(maxTakeover)))
	}

	return d
}

func (r *reader) durability(name, s string) notice.Durability {
	d, err := notice.ParseDurability(s)
	if err != nil {
		r.add(Prefix+name, s, err.Error())
	}

	return d
}

// instance returns a unique name for this process: the host name and a random suffix.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}

	host, _, _ = strings.Cut(host, ".")
	return host + "-" + strings.ToLower(rand.Text()[:6])
}

// Describe returns a summary of the effective configuration, for the start log and the command config: the durability,
// each route with its ladder, each client with its scope.
func Describe(c *Config) []string {
	shards := notice.Count(c.Shards, "shard")
	if c.Shards == 0 {
		shards = "the number of shards stored in Redis"
	}

	lines := []string{fmt.Sprintf("redis %s, namespace %s, %s", c.Redis, c.Namespace, shards)}
	whose := " from all instances"
	if c.Limits == route.LimitsInstance {
		whose = " from each instance"
	}

	lines = append(lines, "durability: "+c.Promise())
	if len(c.History.URL) > 0 {
		keeps := "for ever"
		if c.History.Retention > 0 {
			keeps = "for " + notice.Short(c.History.Retention)
		}

		lines = append(lines, fmt.Sprintf("history: %s, bodies %s, kept %s; Redis buffers at most %d finalized notices",
			redact(string(c.History.URL)), c.History.Bodies, keeps, c.History.Backlog))
	}

	if c.Alarm != nil {
		lines = append(lines, fmt.Sprintf("alarms without Redis: %s (%s)", origin(c.Alarm.Target.URL), c.Alarm.Robot))
	}

	if text := telemetryText(c.Telemetry); text != "" {
		lines = append(lines, text)
	}

	for _, rt := range c.Routes {
		lines = append(lines, describe(rt, whose))
	}

	for _, cl := range c.Clients {
		scope := "all keys"
		if cl.Prefix != "" {
			scope = "keys under " + cl.Prefix
		}

		lines = append(lines, fmt.Sprintf("client %s: role %s, %s", cl.Name, cl.Role, scope))
	}

	return lines
}

// Promise returns one sentence that says which failures a successfully answered call survives.
func (c *Config) Promise() string {
	var b strings.Builder
	switch d := c.Durability; {
	case d.Fsync:
		b.WriteString("a call succeeds once its writes are on Redis's disk: a crash of the machine loses none of them, " +
			"but a failover loses writes that the promoted replica had not received")
	case d.Replicas > 0:
		fmt.Fprintf(&b, "a call succeeds once %s received its writes: a failover loses none of them", replicas(d.Replicas))
		if d.Replicas > 1 {
			fmt.Fprintf(&b, " while at most %d of them %s partitioned together with the master", d.Replicas-1,
				map[bool]string{true: "is", false: "are"}[d.Replicas == 2])
		} else {
			b.WriteString(" unless that replica is partitioned together with the master")
		}

		b.WriteString(" and all replicas have the same replica-priority")
	default:
		b.WriteString("a call succeeds once its writes are in Redis's memory: a failover loses writes that the promoted replica had not " +
			"received, and a crash of the machine loses writes that were not on disk")
	}

	switch d := c.DurabilitySettle; {
	case d.Fsync:
		b.WriteString("; delivered notices are not delivered again after a crash of Redis's machine")
	case d.Replicas > 0:
		b.WriteString("; delivered notices are not delivered again after a failover")
	}

	if c.Durability.Waits() {
		b.WriteString("; this does not cover plain timers, adoption and deploy/schedule.lua")
	}

	return b.String()
}

func replicas(n int) string {
	if n == 1 {
		return "1 replica has"
	}
	return strconv.Itoa(n) + " replicas have"
}

// describe returns the summary of one route; whose names the instances that share its limits.
func describe(rt *route.Route, whose string) string {
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
		fmt.Fprintf(&b, ", acknowledged by %s within %s, %d at a time here and %d to a host%s", rt.Ack, notice.Short(rt.Timeout),
			rt.Concurrency, rt.HostConcurrency, whose)
		if len(rt.OnStatus) > 0 {
			fmt.Fprintf(&b, ", on status %s", rt.OnStatus)
		}

		if rt.PauseAfter > 0 {
			fmt.Fprintf(&b, ", a receiver paused after %s of failures", notice.Short(rt.PauseAfter))
		}

		b.WriteString(", " + rt.SignedText())
		if rt.OAuth2 != nil {
			fmt.Fprintf(&b, ", with access tokens from %s", rt.OAuth2.TokenURL.Hostname())
		}

		if !rt.HeadersTo.Empty() {
			fmt.Fprintf(&b, ", headers to %s", rt.HeadersTo)
		}
	} else {
		if rt.Ack.Kind == route.AckReport {
			b.WriteString(", acknowledged by its consumer's report")
		}
		fmt.Fprintf(&b, ", within %s, %d at a time", notice.Short(rt.Timeout), rt.Concurrency)
	}

	if rt.Rate > 0 {
		fmt.Fprintf(&b, ", %g/s at most%s", rt.Rate, whose)
	}

	if rt.Adopt {
		b.WriteString(", adopts plain timers")
	}

	if rt.Seal != "" {
		b.WriteString(sealText(rt))
	}

	switch rt.Order {
	case route.OrderSkip:
		b.WriteString(", the notices of an id in order")
	case route.OrderBlock:
		b.WriteString(", the notices of an id in order, and none after a dead letter")
	}

	return b.String() + deadText(rt) + hookText(rt)
}

func targetText(t route.Target) string {
	switch t.Kind {
	case route.KindFixed:
		return origin(t.URL)
	case route.KindList, route.KindStream:
		return string(t.Kind) + ":" + t.Key
	case route.KindNotice:
		return "each notice's url"
	}
	return string(t.Kind)
}

func http(k route.Kind) bool { return k == route.KindFixed || k == route.KindNotice }
