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
	"notifier/internal/layout"
	"notifier/internal/route"
	"notifier/internal/wire"
)

// Severity is how bad a finding is.
type Severity string

// The severities. An error means that notices can be lost, stay undelivered, or
// that the service will not run.
const (
	OK      Severity = "ok"
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Finding is what one check found.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Node     string   `json:"node,omitempty"` // of a cluster: where
	Message  string   `json:"message"`
	Remedy   string   `json:"remedy,omitempty"`
	Fixed    bool     `json:"fixed,omitempty"`
}

// Report is all that was found, in the order of the checks.
type Report struct {
	Findings []Finding `json:"findings"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
}

// Options of a run.
type Options struct {
	Fix bool
	// Now is the clock that Redis's is compared with. Nil means time.Now.
	Now func() time.Time
}

// run is one examination.
type run struct {
	Options
	cfg   *config.Config
	conn  *wire.Conn
	table *route.Table
	space keys.Space
	found []Finding
	// unanswered is why a command had no answer, nil if each had one.
	unanswered error
}

// examineTimeout is how long the whole examination may take.
const examineTimeout = 60 * time.Second

// Run examines. Its error means that it could not begin; what is wrong with
// Redis, even that it is not there, is a finding.
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
	if r.reachable(ctx) {
		// What is wrong with the count is a finding of layout.
		if s, _, err := layout.Discover(ctx, conn, r.space, conn.Masters != nil); err == nil {
			r.space = s
		}
		if err := r.nodes(ctx); err != nil {
			r.add(Finding{Check: "reachability", Severity: Error, Message: "the nodes cannot be asked: " + err.Error()})
		}
		r.durability()
		r.rights(ctx)
		r.layout(ctx)
		r.spread(ctx)
		r.prefixes(ctx)
		r.headers(ctx)
		r.repeats(ctx)
		r.instances(ctx)
		r.history(ctx)
	}
	return r.report(), nil
}

// connect opens a connection to the Redis of a configuration.
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

// reachable pings, and measures how long that takes.
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
		f.Severity, f.Remedy = Warning, "put the service near its Redis: each step of a delivery waits for an answer"
	}
	r.add(f)
	return true
}

func reachRemedy(err error) string {
	_, moved := redis.IsMovedError(err)
	var certificate *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	switch {
	case redis.IsAuthError(err):
		return "give user and password in NOTIFIER_REDIS_URL: redis://user:password@host:6379/0"
	case redis.IsPermissionError(err):
		return "give the user the rights that `notifier doctor --acl` prints"
	case redis.IsLoadingError(err):
		return "it is reading its file; wait until that is done"
	case errors.As(err, &certificate), errors.As(err, &noTLS):
		return "rediss:// needs a certificate that this machine trusts; redis:// speaks without TLS"
	case moved, redis.IsClusterDownError(err):
		return "set NOTIFIER_REDIS_MODE=cluster, and wait until the cluster is whole"
	}
	return "check NOTIFIER_REDIS_URL and NOTIFIER_REDIS_MODE, that the server runs, and what stands between"
}

// nodes examines each master.
func (r *run) nodes(ctx context.Context) error {
	if r.conn.Masters == nil {
		r.node(ctx, "", r.conn.UniversalClient)
		return nil
	}
	var one = make(chan struct{}, 1) // go-redis asks the masters at the same time; findings are kept in order
	return r.conn.Masters(ctx, func(ctx context.Context, c *redis.Client) error {
		one <- struct{}{}
		defer func() { <-one }()
		r.node(ctx, c.Options().Addr, c)
		return nil
	})
}
