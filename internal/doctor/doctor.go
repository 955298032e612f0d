package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/config"
	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Severity is the grade of a finding.
type Severity string

// Severities. Error means that notices can be lost or stay undelivered, or that the service will not start.
const (
	OK      Severity = "ok"
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Finding is the result of one check.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Node     string   `json:"node,omitempty"` // of a cluster
	Message  string   `json:"message"`
	Remedy   string   `json:"remedy,omitempty"`
	Fixed    bool     `json:"fixed,omitempty"`
}

// Report lists all findings in the order of the checks.
type Report struct {
	Findings []Finding `json:"findings"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
}

// Options configure a run.
type Options struct {
	Fix bool
	// Now is the local clock, compared with Redis's. Nil means time.Now.
	Now func() time.Time
}

// run is one execution of all checks.
type run struct {
	Options
	cfg   *config.Config
	conn  *wire.Conn
	table *route.Table
	space keys.Space
	found []Finding
	// announced are the names of the service keys of the instances and of the configuration.
	announced map[string]bool
	// unanswered is the error of the last command that Redis did not answer; nil if all were answered.
	unanswered error
}

// examineTimeout bounds all checks together.
const examineTimeout = 60 * time.Second

// Run executes all checks. It returns an error only if it cannot start; an unreachable or wrongly configured Redis is a
// finding.
func Run(ctx context.Context, cfg *config.Config, o Options) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	if o.Now == nil {
		o.Now = time.Now
	}

	table, err := route.NewTable(cfg.Routes)
	if err != nil {
		return nil, err
	}

	conn, err := connect(cfg)
	if err != nil {
		return nil, err
	}

	defer func() { _ = conn.Close() }() // nothing is pending
	r := &run{Options: o, cfg: cfg, conn: conn, table: table, space: keys.Space{Namespace: cfg.Namespace, Shards: cfg.Shards}}
	r.found = Machine(cfg)
	if r.reachable(ctx) {
		// A wrong number of shards is a finding of layout.
		if s, _, err := store.Discover(ctx, conn, r.space, conn.Masters != nil); err == nil {
			r.space = s
		}

		if err := r.nodes(ctx); err != nil {
			r.add(Finding{Check: "reachability", Severity: Error, Message: "cannot list the nodes: " + err.Error()})
		}

		r.durability()
		r.rights(ctx)
		r.layout(ctx)
		r.spread(ctx)
		r.sizes(ctx)
		r.workers(ctx)
		r.prefixes(ctx)
		r.foreignKeys(ctx)
		r.hooks(ctx)
		r.deadLimits(ctx)
		r.headers(ctx)
		r.olderTLS(ctx)
		r.rulePauses(ctx)
		r.repeats(ctx)
		r.instances(ctx)
		r.sealed(ctx)
		r.history(ctx)
	}

	return r.report(), nil
}

// connect opens a connection with the configuration's settings.
func connect(cfg *config.Config) (*wire.Conn, error) {
	return wire.Open(wire.Address{Mode: cfg.Redis.Mode, URL: cfg.Redis.URL, TLS: cfg.Redis.TLS, SentinelUsername: cfg.Redis.SentinelUsername,
		SentinelPassword: string(cfg.Redis.SentinelPassword)})
}

func (r *run) report() *Report {
	rep := &Report{Findings: r.found}
	for _, f := range r.found {
		switch {
		case f.Fixed:
		case f.Severity == Error:
			rep.Errors++
		case f.Severity == Warning:
			rep.Warnings++
		}
	}

	return rep
}

func (r *run) add(f Finding) { r.found = append(r.found, f) }

// reachable pings Redis and measures the latency.
func (r *run) reachable(ctx context.Context) bool {
	const pings = 5
	took := make([]time.Duration, 0, pings)
	for range pings {
		began := time.Now()
		if err := r.conn.Ping(ctx).Err(); err != nil {
			what := "does not answer"
			if redis.IsAuthError(err) {
				what = "refuses the log-in"
			} else if redis.IsPermissionError(err) {
				what = "refuses PING"
			}

			r.add(Finding{Check: "reachability", Severity: Error, Message: fmt.Sprintf("Redis at %s %s: %v", r.cfg.Redis.Where(), what, err),
				Remedy: reachRemedy(err)})
			return false
		}

		took = append(took, time.Since(began))
	}

	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	median := took[pings/2]
	f := Finding{Check: "reachability", Severity: OK, Message: fmt.Sprintf("%s answers in %s", r.cfg.Redis.Where(),
		median.Round(time.Microsecond))}
	if median > 20*time.Millisecond {
		f.Severity, f.Remedy = Warning, "run the service near its Redis; each step of a delivery waits for a reply"
	}

	r.add(f)
	return true
}

func reachRemedy(err error) string {
	_, moved := redis.IsMovedError(err)
	var certificate *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	var refused *wire.ConnectError
	switch {
	case errors.As(err, &refused):
		return "compare connected_clients in INFO with maxclients: raise maxclients in redis.conf, or end clients that hold connections"
	case redis.IsAuthError(err):
		return "set user and password in NOTIFIER_REDIS_URL: redis://user:password@host:6379/0"
	case redis.IsPermissionError(err):
		return "give the user the rights that `notifier doctor --acl` prints"
	case redis.IsLoadingError(err):
		return "wait until Redis has loaded its file"
	case errors.As(err, &certificate), errors.As(err, &noTLS):
		return "rediss:// needs a certificate that this machine trusts; redis:// connects without TLS"
	case moved, redis.IsClusterDownError(err):
		return "set NOTIFIER_REDIS_MODE=cluster, and wait until the cluster is complete"
	}

	return "check NOTIFIER_REDIS_URL and NOTIFIER_REDIS_MODE, that the server runs, and the network between"
}

// nodes checks each master.
func (r *run) nodes(ctx context.Context) error {
	if r.conn.Masters == nil {
		r.node(ctx, "", r.conn.Commander)
		return nil
	}

	var one = make(chan struct{}, 1) // go-redis visits the masters in parallel; findings are collected in order
	return r.conn.Masters(ctx, func(ctx context.Context, c redis.Cmdable) error {
		one <- struct{}{}
		defer func() { <-one }()
		r.node(ctx, wire.Addr(c), c)
		return nil
	})
}
