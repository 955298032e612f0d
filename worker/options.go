package worker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/sethvargo/go-envconfig"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"notifier/internal/config"
	"notifier/internal/seal"
	"notifier/worker/internal/seam"
)

// Options configure a Worker. The zero value of each is the default of the service's variable of that name, which
// docs/configuration.md lists. A negative number or duration means zero where zero is allowed.
type Options struct {
	// Redis is the address of the service's Redis: redis://user:password@host:6379/0, rediss:// for TLS. Empty =
	// redis://127.0.0.1:6379/0.
	Redis string
	// RedisMode is standalone, sentinel or cluster; empty = standalone.
	RedisMode string
	// RedisTLS is for rediss:// addresses; nil = the system's authorities.
	RedisTLS *tls.Config
	// SentinelUsername and SentinelPassword log in to the sentinels.
	SentinelUsername, SentinelPassword string
	// Namespace is that of the service; empty = notifier.
	Namespace string
	// Shards is the number of shards of new data. It is ignored once Redis has data.
	Shards int
	// Instance is the worker's name in the list of instances; empty = the host's name and a random suffix.
	Instance string
	// Concurrency is the maximum number of running handlers; 0 = 512.
	Concurrency int
	// ShutdownTimeout is how long running handlers may take after the end of Run's context; 0 = 25 s. Then their contexts
	// end, and Run waits 3 s for their results.
	ShutdownTimeout time.Duration

	// Durability is what Schedule and other calls wait for: memory, replicas:N or fsync. DurabilitySettle is what the
	// result of a handler waits for. Both wait for DurabilityTimeout at most; 0 = 1 s.
	Durability, DurabilitySettle string
	DurabilityTimeout            time.Duration
	// Grace is how late a notice is claimed whose expired event is lost; 0 = 50 ms.
	Grace time.Duration
	// Takeover is after how long without heartbeat and connection this worker counts as dead, so that others handle its
	// notices; 0 = 3 s, negative = only when their leases end.
	Takeover time.Duration
	// Retention is how long finished notices are stored in Redis; 0 = 24 h, negative = not at all. In this time, Schedule
	// does not create a notice for a key again.
	Retention time.Duration
	// Retain is the maximum number of finished notices that are stored, for each prefix; 0 = 100,000, negative = none.
	Retain int
	// RepeatWindow is how long a repeated Schedule is recognised after Retain has removed the finished notice; 0 = 1 h.
	// RepeatBytes is the maximum memory in Redis for that; 0 = 256 MiB.
	RepeatWindow time.Duration
	RepeatBytes  int64
	// SealKeys are the service keys that open sealed notices for the handlers: name=<32 random bytes in base64>, comma-separated. Empty =
	// none: sealed notices wait. Schedule does not seal.
	SealKeys string
	// KeepRedisConfig: if Redis lacks the flags Ex of notify-keyspace-events, the worker does not add them.
	KeepRedisConfig bool

	// Logger gets the log, or Zap if it is not nil. Without both there is no log. LogAttempts selects the attempts that
	// are logged: all, failed or 1/100; empty = all.
	Logger      *slog.Logger
	Zap         *zap.Logger
	LogAttempts string
	// Metrics counts the worker's work, unless it is nil.
	Metrics Metrics
	// TracerProvider creates a span for each attempt, unless it is nil. Schedule stores the trace context of its ctx in
	// the notice, and the span continues that trace.
	TracerProvider trace.TracerProvider
	// Codec encodes Request.JSON and decodes the bodies of HandleJSON; nil = encoding/json.
	Codec Codec

	// History is the database for finalized notices, which should be that of the service: postgres://… or sqlite:///path. The
	// program must import notifier/worker/pghistory or notifier/worker/sqlitehistory. Empty = none.
	History string
	// HistoryBodies selects how much of a body is stored: keep, hash or drop; empty = keep.
	HistoryBodies string
	// HistoryRetention is how long rows are kept; 0 = without limit.
	HistoryRetention time.Duration
	// HistoryBacklog is the maximum number of finalized notices that Redis stores for the database; 0 = 1,000,000.
	HistoryBacklog int

	sealKeys *seal.ServiceKeys // of FromEnv, if SealKeys is empty
	seam     *seam.Seam        // of package workertest
}

// option is a field of Options as a variable of the service; an empty value is the default.
type option struct{ field, variable, value string }

// variables returns the options that are variables of the service.
func (o *Options) variables() []option {
	takeover := length(max(o.Takeover, 0))
	if o.Takeover < 0 {
		takeover = "lease"
	}

	configure := ""
	if o.KeepRedisConfig {
		configure = "false"
	}

	return []option{
		{"Redis", "REDIS_URL", o.Redis},
		{"RedisMode", "REDIS_MODE", o.RedisMode},
		{"SentinelUsername", "SENTINEL_USERNAME", o.SentinelUsername},
		{"SentinelPassword", "SENTINEL_PASSWORD", o.SentinelPassword},
		{"Namespace", "NAMESPACE", o.Namespace},
		{"Shards", "SHARDS", number(o.Shards)},
		{"Instance", "INSTANCE", o.Instance},
		{"Concurrency", "CONCURRENCY", number(o.Concurrency)},
		{"ShutdownTimeout", "SHUTDOWN_TIMEOUT", length(o.ShutdownTimeout)},
		{"DurabilitySettle", "DURABILITY_SETTLE", o.DurabilitySettle},
		{"DurabilityTimeout", "DURABILITY_TIMEOUT", length(o.DurabilityTimeout)},
		{"Durability", "DURABILITY", o.Durability}, // after those whose names begin so: config replaces names
		{"Grace", "GRACE", length(o.Grace)},
		{"Takeover", "TAKEOVER", takeover},
		{"Retention", "RETENTION", length(o.Retention)},
		{"Retain", "RETAIN", number(o.Retain)},
		{"RepeatWindow", "REPEAT_WINDOW", length(o.RepeatWindow)},
		{"RepeatBytes", "REPEAT_BYTES", number(o.RepeatBytes)},
		{"SealKeys", "SEAL_KEYS", o.SealKeys},
		{"KeepRedisConfig", "CONFIGURE_REDIS", configure},
		{"LogAttempts", "LOG_ATTEMPTS", o.LogAttempts},
		{"HistoryBodies", "HISTORY_BODIES", o.HistoryBodies},
		{"HistoryRetention", "HISTORY_RETENTION", length(o.HistoryRetention)},
		{"HistoryBacklog", "HISTORY_BACKLOG", number(o.HistoryBacklog)},
		{"History", "HISTORY_URL", o.History},
	}
}

// number returns the value of a number's variable.
func number[T int | int64](n T) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(max(n, 0)), 10)
}

// length returns the value of a duration's variable.
func length(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return max(d, 0).String()
}

// config returns the configuration that the options describe. Each rule and default is that of the service's variable.
func (o *Options) config() (*config.Config, error) {
	values, names := map[string]string{}, []string{}
	for _, x := range o.variables() {
		values[config.Prefix+x.variable] = x.value
		names = append(names, config.Prefix+x.variable, "Options."+x.field)
	}

	c, err := config.LoadWorker(envconfig.MapLookuper(values), os.ReadFile)
	if errs := (config.Errors{}); errors.As(err, &errs) {
		err = fmt.Errorf("%w: %w", ErrConfig, errs.Renamed(names))
		if o.Redis == "" || errs.Of(config.Prefix+"REDIS_URL") || errs.Of(config.Prefix+"REDIS_MODE") {
			return nil, err
		}

		conn, failed := o.open(config.Redis{Mode: o.RedisMode, URL: o.Redis, TLS: o.RedisTLS})
		if failed == nil {
			_ = conn.Close()
		}

		return nil, errors.Join(err, failed)
	}

	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}

	if o.RedisTLS != nil {
		c.Redis.TLS = o.RedisTLS
	}

	if o.SealKeys == "" {
		c.SealKeys = o.sealKeys
	}

	return c, nil
}

// FromEnv returns the Options that the service's variables NOTIFIER_… describe: those of Redis and its TLS files,
// NAMESPACE, SHARDS, INSTANCE, CONCURRENCY, GRACE, RETENTION, RETAIN, REPEAT_WINDOW, REPEAT_BYTES, CONFIGURE_REDIS,
// SHUTDOWN_TIMEOUT, TAKEOVER, DURABILITY, DURABILITY_SETTLE, DURABILITY_TIMEOUT, LOG_ATTEMPTS, SEAL_KEYS and those of the
// history, HISTORY_…. The error lists all wrong variables. Nothing else in this package reads the environment.
func FromEnv() (Options, error) {
	c, err := config.LoadWorker(envconfig.OsLookuper(), os.ReadFile)
	if err != nil {
		return Options{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}

	o := Options{Redis: c.Redis.URL, RedisMode: c.Redis.Mode, RedisTLS: c.Redis.TLS, SentinelUsername: c.Redis.SentinelUsername,
		SentinelPassword: string(c.Redis.SentinelPassword), Namespace: c.Namespace, Shards: c.Shards, Instance: c.Instance,
		Concurrency: c.Concurrency, ShutdownTimeout: orNone(c.ShutdownTimeout), Durability: c.Durability.String(),
		DurabilitySettle: c.DurabilitySettle.String(), DurabilityTimeout: c.DurabilityTimeout, Grace: c.Grace, Takeover: orNone(c.Takeover),
		Retention: orNone(c.Retention), Retain: int(orNone(c.Retain)), RepeatWindow: orNone(c.RepeatWindow), RepeatBytes: orNone(c.RepeatBytes),
		sealKeys: c.SealKeys, KeepRedisConfig: !c.ConfigureRedis, LogAttempts: c.LogAttempts.String(),
		History: string(c.History.URL), HistoryBodies: c.History.Bodies, HistoryRetention: c.History.Retention,
		HistoryBacklog: c.History.Backlog}
	return o, nil
}

// orNone returns n, or -1 for 0: in Options, 0 is the default.
func orNone[T ~int64](n T) T {
	if n == 0 {
		return -1
	}
	return n
}
