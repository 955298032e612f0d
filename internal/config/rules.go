package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// redis checks the address the way the client will read it. The client's own
// errors are not shown: they may hold the address, and the address a password.
func (r *reader) redis(c Redis) {
	var err error
	db := 0
	want := "redis://user:password@host:6379/0, rediss://… or unix:///path/to/socket?db=0"
	switch c.Mode {
	case Standalone:
		var o *redis.Options
		if o, err = redis.ParseURL(c.URL); err == nil {
			db = o.DB
		}
	case Sentinel:
		var o *redis.FailoverOptions
		if o, err = redis.ParseFailoverURL(c.URL); err == nil {
			db = o.DB
		}
		want = "redis://user:password@sentinel:26379/0?master_name=main&addr=other:26379"
		if err == nil && o.MasterName == "" {
			r.wrong("REDIS_URL", redact(c.URL), "master_name=… in it, the name by which the sentinels know the master")
		}
	case Cluster:
		_, err = redis.ParseClusterURL(c.URL)
		want = "redis://user:password@host:6379?addr=other:6379"
		// A cluster has database 0 alone; the client would take no notice of
		// another number.
		rest, _, _ := strings.Cut(c.URL, "?")
		if _, after, ok := strings.Cut(rest, "://"); ok {
			if _, path, _ := strings.Cut(after, "/"); path != "" && path != "0" {
				r.wrong("REDIS_URL", redact(c.URL), "database 0: a cluster has no other")
			}
		}
	default:
		r.wrong("REDIS_MODE", c.Mode, list([]string{Standalone, Sentinel, Cluster}))
		return
	}
	if err != nil || db < 0 {
		r.wrong("REDIS_URL", "", want+" (what was given is not shown)")
	}
}

// across holds the rules that look at more than one variable.
func (r *reader) across(c *Config) {
	r.listen(c)
	r.adoption(c)
	byPrefix := map[string]string{}
	for _, rt := range c.Routes {
		if rt.Prefix == "" {
			continue
		}
		if other := byPrefix[rt.Prefix]; other != "" {
			r.add(routePrefix(rt.Name)+"PREFIX", rt.Prefix, "is the prefix of route "+other+" too; want one of its own")
		}
		byPrefix[rt.Prefix] = rt.Name
	}
	for _, rt := range c.Routes {
		if keys.Valid(rt.Target.Key) && covered(c.Routes, rt.Target.Key) {
			r.add(routePrefix(rt.Name)+"TARGET", string(rt.Target.Kind)+":"+rt.Target.Key,
				"is a key that a notice may have; want one that no route's prefix covers")
		}
	}
}

// What must be kept of settled notices where plain timers are adopted: by it
// the late event of a timer whose notice was delivered is told from one that was
// never adopted.
const (
	adoptRetention = time.Hour
	adoptRetain    = 10_000
)

func (r *reader) adoption(c *Config) {
	for _, rt := range c.Routes {
		if !rt.Adopt {
			continue
		}
		why := ", because route " + rt.Name + " adopts plain timers"
		if c.Retention < adoptRetention && !r.errs.of(Prefix+"RETENTION") {
			r.wrong("RETENTION", notice.Short(c.Retention), "at least "+notice.Short(adoptRetention)+why)
		}
		if c.Retain < adoptRetain && !r.errs.of(Prefix+"RETAIN") {
			r.wrong("RETAIN", strconv.FormatInt(c.Retain, 10), "at least "+strconv.Itoa(adoptRetain)+why)
		}
		return
	}
}

func covered(routes []*route.Route, key string) bool {
	for _, rt := range routes {
		if rt.Prefix != "" && keys.HasPrefix(key, rt.Prefix) {
			return true
		}
	}
	return false
}

// listen refuses an API that the network reaches and that anybody may call.
func (r *reader) listen(c *Config) {
	h, port, err := net.SplitHostPort(c.Listen)
	if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 {
		r.wrong("LISTEN", c.Listen, "host:port, such as 127.0.0.1:8080 or :8080")
		return
	}
	addr, err := netip.ParseAddr(h)
	loopback := h == "localhost" || err == nil && addr.Unmap().IsLoopback()
	if !loopback && len(c.Clients) == 0 {
		r.wrong("LISTEN", c.Listen, fmt.Sprintf("clients with tokens (%sCLIENTS) for an address that others reach, or a loopback address", Prefix))
	}
}

// Variables that are known and that other commands, or tests, read.
var elsewhere = []string{Prefix + "URL", Prefix + "TOKEN", Prefix + "TOKEN_FILE"}

// injected matches what Kubernetes and Docker put into the environment of a
// container for each service or linked container whose name begins with
// notifier.
var injected = regexp.MustCompile(`^NOTIFIER_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// unknown finds variables that nobody reads: most often a name misspelt, whose
// default would silently hold.
func (r *reader) unknown(environ []string) {
	for _, v := range elsewhere {
		r.known[v] = true
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, Prefix) || r.known[name] || strings.HasPrefix(name, Prefix+"TEST_") || injected.MatchString(name) {
			continue
		}
		if strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://") {
			continue // injected likewise
		}
		text := "is not known; see docs/configuration.md"
		list := listOf(name)
		if r.errs.of(list) {
			continue // with the names put right it may be known
		}
		if near := r.nearest(name); near != "" {
			text = "is not known; did you mean " + near + "?"
		} else if list != "" {
			text = "is not known; is its name missing from " + list + "?"
		}
		r.add(name, "", text)
	}
}

// listOf is the variable that lists the names of which name holds one.
func listOf(name string) string {
	switch {
	case strings.HasPrefix(name, Prefix+"ROUTE_"):
		return Prefix + "ROUTES"
	case strings.HasPrefix(name, Prefix+"CLIENT_"):
		return Prefix + "CLIENTS"
	}
	return ""
}

// nearest is the known variable that differs least, if it differs little.
func (r *reader) nearest(name string) string {
	const limit = 4
	best, near := limit, ""
	for known := range r.known {
		if d := distance(name, known, limit); d < best || d == best && known < near {
			best, near = d, known
		}
	}
	return near
}

// distance is the number of letters to change, add or drop between two names,
// or limit if it is not less.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := before
			if a[i-1] != b[j-1] {
				cost = 1 + min(before, row[j], row[j-1])
			}
			before, row[j] = row[j], cost
		}
	}
	return min(row[len(b)], limit)
}
