// Package doctor looks at Redis as it is, says what is wrong with it for this
// service, how bad that is and what helps, and sets what can be set safely.
//
// It changes nothing unless it is asked to, and then only settings that lose no
// data, cost no restart and can be set back: notify flags, the eviction policy
// and the subscribers' output buffer.
package doctor

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/config"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
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
	conn  *store.Conn
	table *route.Table
	space keys.Space
	found []Finding
}

// patience is how long the whole examination may take.
const patience = 60 * time.Second

// Run examines. Its error means that it could not begin; what is wrong with
// Redis, even that it is not there, is a finding.
func Run(ctx context.Context, cfg *config.Config, o Options) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if o.Now == nil {
		o.Now = time.Now
	}
	table, err := route.NewTable(cfg.Routes)
	if err != nil {
		return nil, err
	}
	conn, err := store.Open(cfg.Redis.Mode, cfg.Redis.URL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is pending
	r := &run{Options: o, cfg: cfg, conn: conn, table: table, space: keys.Space{Namespace: cfg.Namespace, Shards: cfg.Shards}}
	if r.reachable(ctx) {
		if err := r.nodes(ctx); err != nil {
			r.add(Finding{Check: "reachability", Severity: Error, Message: "the nodes cannot be asked: " + err.Error()})
		}
		r.rights(ctx)
		r.layout(ctx)
		r.prefixes(ctx)
	}
	r.leases()
	return r.report(), nil
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
			r.add(Finding{Check: "reachability", Severity: Error, Message: fmt.Sprintf("Redis at %s does not answer: %v", r.cfg.Redis.Where(), err),
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
	text := err.Error()
	switch {
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "WRONGPASS"):
		return "give user and password in NOTIFIER_REDIS_URL: redis://user:password@host:6379/0"
	case strings.Contains(text, "LOADING"):
		return "it is reading its file; wait until that is done"
	case strings.Contains(text, "certificate"), strings.Contains(text, "tls"):
		return "rediss:// needs a certificate that this machine trusts; redis:// speaks without TLS"
	case strings.Contains(text, "MOVED"), strings.Contains(text, "CLUSTERDOWN"):
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

// leases compares each route's lease with what must happen within it.
func (r *run) leases() {
	for _, rt := range r.cfg.Routes {
		spare := rt.Lease() - rt.Timeout
		if spare < time.Second {
			r.add(Finding{Check: "lease", Severity: Error,
				Message: fmt.Sprintf("route %s: the lease of %s leaves %s after the timeout of %s to settle",
					rt.Name, notice.Short(rt.Lease()), notice.Short(spare), notice.Short(rt.Timeout)), Remedy: "shorten NOTIFIER_ROUTE_…_TIMEOUT"})
			return
		}
	}
	if len(r.cfg.Routes) > 0 {
		r.add(Finding{Check: "lease", Severity: OK, Message: fmt.Sprintf("each of %d route(s) has %s after its timeout to settle",
			len(r.cfg.Routes), notice.Short(route.Margin))})
	}
}
