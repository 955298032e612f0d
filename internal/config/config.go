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

	"notifier/internal/access"
	"notifier/internal/keyring"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/telemetry"
)

// Config is what the environment says, checked.
type Config struct {
	Redis     Redis
	Namespace string
	Key       Secret // the service's own; empty = the one that is kept in Redis
	// Shards is 0 where the variable is not set: then what Redis has holds.
	Shards   int
	Instance string

	Listen string
	// MetricsListen is a second address that serves the metrics alone; empty = none.
	MetricsListen string
	// PprofListen is a loopback address that serves profiles; empty = none.
	PprofListen string

	// TrustedProxies are the networks of proxies whose X-Forwarded headers count.
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

	// Takeover is how long an instance is waited for whose connections are gone;
	// zero = its claims are never taken over before their lease.
	Takeover time.Duration
	// Limits says whom RATE and HOST_CONCURRENCY hold for: LimitsFleet or
	// LimitsInstance.
	Limits string

	// UI: the pages under /ui/ are served.
	UI bool
	// UIMask is what they do not show of bodies and answers.
	UIMask *mask.Rules
	// Durability is what calls wait for, DurabilitySettle what settles wait for; both
	// at most DurabilityTimeout.
	Durability, DurabilitySettle notice.Durability
	DurabilityTimeout            time.Duration

	History History
	// Telemetry is what the OTEL_ variables say.
	Telemetry telemetry.Settings

	LogCalls    string // off, changes, all
	LogAttempts notice.LogAttempts
	LogLevel    string // debug, info, warn, error
	LogFormat   string // json, console; empty = console on a terminal, else json
}

// Redis says where Redis is and of which kind.
type Redis struct {
	// URL may hold a password: it is for go-redis and for nobody else. Where
	// tells the same without it.
	URL  string
	Mode string // standalone, sentinel, cluster
	// TLS, if not nil, is what rediss:// needs beyond the system's authorities.
	TLS *tls.Config
	// SentinelUsername and SentinelPassword are for the sentinels.
	SentinelUsername string
	SentinelPassword Secret
}

// History says where and how what has ended is kept.
type History struct {
	// URL may hold a password; empty = there is no history.
	URL       Secret
	Bodies    string        // keep, hash, drop
	Retention time.Duration // zero = for ever
	Backlog   int           // endings that Redis holds at most
}

// The modes of Redis.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
)

// Whom limits hold for.
const (
	LimitsFleet    = "fleet"    // all instances together
	LimitsInstance = "instance" // each one
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
type Secret []byte

func (Secret) String() string   { return "•••" }
func (Secret) GoString() string { return "•••" }

// MarshalText keeps a secret out of JSON and logs.
func (Secret) MarshalText() ([]byte, error) { return []byte("•••"), nil }

// Client is one that may call the HTTP API.
type Client struct {
	Name   string // lower case
	Token  Secret
	Prefix string // what it may see and touch; empty = all
	Role   access.Role
	Rate   float64 // requests a second
}

// Load reads the configuration. Values come from lookup, the names that are set
// from environ ("NAME=value", os.Environ's form), and the files that _FILE
// variables and certificates name from readFile. Its error is of type Errors.
func Load(lookup envconfig.Lookuper, environ []string, readFile func(string) ([]byte, error)) (*Config, error) {
	r := &reader{source: &source{lookup: lookup, readFile: readFile}}
	r.known = map[string]bool{}
	var raw serviceVars
	var rawRedis redisVars
	r.fill(Prefix, &rawRedis)
	r.fill(Prefix, &raw)
	c := r.service(&raw)
	c.Redis = r.redis(&rawRedis)
	c.TrustedProxies = r.networks("TRUSTED_PROXIES", raw.TrustedProxies)
	c.Clients = r.clients(raw.Clients)
	c.Routes = r.routes(raw.Routes, c)
	c.Telemetry = telemetry.Read(telemetrySource{r})
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
		Namespace:       raw.Namespace,
		Key:             r.key(raw.Key),
		Instance:        raw.Instance,
		Listen:          raw.Listen,
		MetricsListen:   raw.MetricsListen,
		PprofListen:     raw.PprofListen,
		Concurrency:     r.integer("CONCURRENCY", raw.Concurrency, 1, 100_000),
		Grace:           r.duration("GRACE", raw.Grace, time.Millisecond, 10*time.Second),
		MaxBody:         r.size("MAX_BODY", raw.MaxBody, 1, 16<<20),
		APIMemory:       r.size("API_MEMORY", raw.APIMemory, 1<<20, 2047<<20),
		Retention:       r.duration("RETENTION", raw.Retention, 0, notice.MaxHorizon),
		Retain:          int64(r.integer("RETAIN", raw.Retain, 0, 100_000_000)),
		RepeatWindow:    r.duration("REPEAT_WINDOW", raw.RepeatWindow, 0, notice.MaxHorizon),
		RepeatBytes:     r.size("REPEAT_BYTES", raw.RepeatBytes, 0, 64<<30),
		ConfigureRedis:  r.boolean("CONFIGURE_REDIS", raw.ConfigureRedis),
		ShutdownTimeout: r.duration("SHUTDOWN_TIMEOUT", raw.ShutdownTimeout, 0, 10*time.Minute),
		ShutdownDelay:   r.duration("SHUTDOWN_DELAY", raw.ShutdownDelay, 0, 10*time.Minute),
		Takeover:        r.takeover(raw.Takeover),
		Limits:          r.oneOf("LIMITS", raw.Limits, LimitsFleet, LimitsInstance),
		UI:              r.boolean("UI", raw.UI),
		UIMask:          r.mask(raw.UIBodies, raw.UIMask),

		Durability:        r.durability("DURABILITY", raw.Durability),
		DurabilitySettle:  r.durability("DURABILITY_SETTLE", raw.DurabilitySettle),
		DurabilityTimeout: r.duration("DURABILITY_TIMEOUT", raw.DurabilityTimeout, 10*time.Millisecond, 30*time.Second),

		History:     r.history(raw),
		LogCalls:    r.oneOf("LOG_CALLS", raw.LogCalls, "off", "changes", "all"),
		LogAttempts: r.logAttempts(raw.LogAttempts),
		LogLevel:    r.oneOf("LOG_LEVEL", raw.LogLevel, "debug", "info", "warn", "error"),
	}
	if c.LogFormat = raw.LogFormat; c.LogFormat != "" {
		r.oneOf("LOG_FORMAT", c.LogFormat, "json", "console")
	}
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

// key reads NOTIFIER_KEY. Its error does not quote it.
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
		r.wrong("KEY", "", "32 random bytes in base64, as head -c 32 /dev/urandom | base64 prints them; it is no base64")
	case len(key) != keyring.Size:
		r.wrong("KEY", "", fmt.Sprintf("32 random bytes in base64, as head -c 32 /dev/urandom | base64 prints them; it has %d", len(key)))
	}
	return key
}

// history reads the variables of the history. Its errors do not quote the URL.
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
		r.wrong("HISTORY_URL", "", "sqlite:///path/to/file: three slashes, and the name of a file")
	case scheme != "sqlite" && scheme != "postgres" && scheme != "postgresql":
		r.wrong("HISTORY_URL", "", "postgres://user:password@host:5432/database or sqlite:///path/to/file (what was given is not shown)")
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

// mask reads what the pages do not show.
func (r *reader) mask(bodies, paths string) *mask.Rules {
	rules, err := mask.New(r.oneOf("UI_BODIES", bodies, "shown", "masked") == "masked", paths)
	if err != nil {
		r.add(Prefix+"UI_MASK", paths, err.Error())
	}
	return rules
}

// The bounds of a takeover. Shorter, a pause of the process would be taken for
// its end.
const (
	minTakeover = time.Second
	maxTakeover = time.Hour
)

// takeover reads a duration, or lease for none.
func (r *reader) takeover(s string) time.Duration {
	if s == "lease" {
		return 0
	}
	d, err := notice.ParseDuration(s)
	if err != nil || d < minTakeover || d > maxTakeover {
		r.wrong("TAKEOVER", s, fmt.Sprintf("a duration from %s to %s, such as 3s, or lease", notice.Short(minTakeover), notice.Short(maxTakeover)))
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
	shards := notice.Count(c.Shards, "shard")
	if c.Shards == 0 {
		shards = "as many shards as it has"
	}
	lines := []string{fmt.Sprintf("redis %s, namespace %s, %s", c.Redis, c.Namespace, shards)}
	whose := " from all instances"
	if c.Limits == LimitsInstance {
		whose = " from each instance"
	}
	lines = append(lines, "durability: "+c.Promise())
	if len(c.History.URL) > 0 {
		keeps := "for ever"
		if c.History.Retention > 0 {
			keeps = "for " + notice.Short(c.History.Retention)
		}
		lines = append(lines, fmt.Sprintf("history: %s, bodies %s, kept %s; Redis holds %d endings at most", redact(string(c.History.URL)), c.History.Bodies, keeps,
			c.History.Backlog))
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

// Promise says in one sentence what the settings of durability promise of a call
// that was answered with success.
func (c *Config) Promise() string {
	var b strings.Builder
	switch d := c.Durability; {
	case d.Fsync:
		b.WriteString("a call is answered with success once Redis has what it wrote on disk, so that a crash of the machine loses none of it, " +
			"and a failover what the promoted replica had not received")
	case d.Replicas > 0:
		fmt.Fprintf(&b, "a call is answered with success once %s received what it wrote, so that a failover loses none of it", replicas(d.Replicas))
		if d.Replicas > 1 {
			fmt.Fprintf(&b, " while at most %d of them %s cut off together with the master", d.Replicas-1, map[bool]string{true: "is", false: "are"}[d.Replicas == 2])
		} else {
			b.WriteString(" unless that replica is cut off together with the master")
		}
		b.WriteString(" and all replicas have the same replica-priority")
	default:
		b.WriteString("a call is answered with success once Redis has what it wrote in memory, so that a failover loses what the promoted replica had not received, " +
			"and a crash of the machine what was not on disk")
	}
	switch d := c.DurabilitySettle; {
	case d.Fsync:
		b.WriteString("; what was delivered is not delivered again after a crash of Redis's machine")
	case d.Replicas > 0:
		b.WriteString("; what was delivered is not delivered again after a failover")
	}
	if c.Durability.Waits() {
		b.WriteString("; notices by plain Redis, deploy/schedule.lua and adoption have nothing of it")
	}
	return b.String()
}

func replicas(n int) string {
	if n == 1 {
		return "1 replica has"
	}
	return strconv.Itoa(n) + " replicas have"
}

// describe says what a route comes to; whose tells whom its limits hold for.
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
		b.WriteString(", " + rt.SignedText())
		if rt.OAuth2 != nil {
			fmt.Fprintf(&b, ", with tokens of %s", rt.OAuth2.TokenURL.Hostname())
		}
		if !rt.HeadersTo.Empty() {
			fmt.Fprintf(&b, ", headers to %s", rt.HeadersTo)
		}
	} else {
		if rt.Ack.Kind == route.AckReport {
			b.WriteString(", reported by its consumer")
		}
		fmt.Fprintf(&b, ", within %s, %d at a time", notice.Short(rt.Timeout), rt.Concurrency)
	}
	if rt.Rate > 0 {
		fmt.Fprintf(&b, ", %g/s at most%s", rt.Rate, whose)
	}
	if rt.Adopt {
		b.WriteString(", adopts plain timers")
	}
	return b.String()
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
