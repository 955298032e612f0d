package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// address parses the address as the client library will. The library's errors are not shown, because they may contain
// the address and its password.
func (r *reader) address(c Redis) {
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
			r.wrong("REDIS_URL", redact(c.URL), "an address with master_name=…, the master's name at the sentinels")
		}
	case Cluster:
		_, err = redis.ParseClusterURL(c.URL)
		want = "redis://user:password@host:6379?addr=other:6379"
		if path := pathOf(c.URL); path != "" && path != "0" { // the client library would ignore it
			r.wrong("REDIS_URL", redact(c.URL), "database 0, the only one of a cluster")
		}
	default:
		r.wrong("REDIS_MODE", c.Mode, list([]string{Standalone, Sentinel, Cluster}))
		return
	}

	switch addrs := bareAddresses(c.URL); {
	case err == nil && db >= 0:
	case len(addrs) == 0 || c.Mode == Standalone && len(addrs) > 1:
		r.wrong("REDIS_URL", "", want+"; write @ # / % in a password as %40 %23 %2F %25 (the value is not shown)")
	default:
		r.wrong("REDIS_URL", c.URL, urlOf(c.Mode, addrs))
	}
}

// bareAddresses parses a list of host:port. Such a text contains no secret and may be shown; nil for any other text.
func bareAddresses(s string) []string {
	var addrs []string
	for part := range strings.SplitSeq(s, ",") {
		host, port, err := net.SplitHostPort(strings.TrimSpace(part))
		n, perr := strconv.Atoi(port)
		if err != nil || perr != nil || n < 1 || n > 65535 || host == "" {
			return nil
		}
		if _, err := notice.Host(host); err != nil {
			return nil
		}

		addrs = append(addrs, net.JoinHostPort(host, port))
	}

	return addrs
}

// urlOf returns the URL of these addresses in the form that the mode needs.
func urlOf(mode string, addrs []string) string {
	query := ""
	if mode == Sentinel {
		query = "&master_name=main"
	}

	for _, a := range addrs[1:] {
		query += "&addr=" + a
	}

	db := "/0"
	if mode == Cluster {
		db = ""
	}

	return "redis://" + addrs[0] + db + strings.Replace(query, "&", "?", 1)
}

// across checks the rules that involve several variables.
func (r *reader) across(c *Config) {
	r.listen(c)
	r.metricsListen(c)
	r.pprofListen(c)
	r.adoption(c)
	r.perHost(c)
	r.apiMemory(c)
	r.signKeyIDs(c.Routes)
	r.hooks(c)
	byPrefix := map[string]string{}
	for _, rt := range c.Routes {
		if rt.Prefix == "" {
			continue
		}

		if other := byPrefix[rt.Prefix]; other != "" {
			r.add(routePrefix(rt.Name)+"PREFIX", rt.Prefix, "is the prefix of route "+other+" too; want a different prefix")
		}

		byPrefix[rt.Prefix] = rt.Name
	}

	for _, rt := range c.Routes {
		if keys.Valid(rt.Target.Key) && covered(c.Routes, rt.Target.Key) {
			r.add(routePrefix(rt.Name)+"TARGET", string(rt.Target.Kind)+":"+rt.Target.Key,
				"could be a notice's key; want a key outside all routes' prefixes")
		}
	}
}

// apiMemory refuses a limit of which one client's quarter cannot hold one notice of MAX_BODY, whose body may be base64.
func (r *reader) apiMemory(c *Config) {
	if least := 4 * (2*c.MaxBody + 64<<10); c.APIMemory < least && !r.errs.Of(Prefix+"API_MEMORY") {
		r.wrong("API_MEMORY", spellSize(c.APIMemory), "at least "+spellSize(least)+" for "+Prefix+"MAX_BODY="+spellSize(c.MaxBody))
	}
}

// perHost refuses a limit above CONCURRENCY where each instance has its own, because it could never be reached. A limit
// of the fleet may be higher than one instance's slots.
func (r *reader) perHost(c *Config) {
	if c.Limits != route.LimitsInstance {
		return
	}
	for _, rt := range c.Routes {
		name := routePrefix(rt.Name)
		if rt.HostConcurrency > rt.Concurrency && !r.errs.Of(name+"CONCURRENCY") {
			r.add(name+"HOST_CONCURRENCY", strconv.Itoa(rt.HostConcurrency), fmt.Sprintf("is more than %sCONCURRENCY (%d); want at most that",
				name, rt.Concurrency))
		}
	}
}

// Minimum retention for adoption. The settled notice is needed to recognise the late event of a timer that was adopted
// and delivered; without it the event would look like a new timer.
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
		if c.Retention < adoptRetention && !r.errs.Of(Prefix+"RETENTION") {
			r.wrong("RETENTION", notice.Short(c.Retention), "at least "+notice.Short(adoptRetention)+why)
		}

		if c.Retain < adoptRetain && !r.errs.Of(Prefix+"RETAIN") {
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

// listen refuses an API that the network can reach without tokens.
func (r *reader) listen(c *Config) {
	h, ok := hostOf(c.Listen)
	if !ok {
		r.wrong("LISTEN", c.Listen, "host:port, such as 127.0.0.1:8080 or :8080")
		return
	}

	if !isLoopback(h) && len(c.Clients) == 0 {
		r.wrong("LISTEN", c.Listen, fmt.Sprintf("clients with tokens (%sCLIENTS) for an address that others reach, or a loopback address",
			Prefix))
	}
}

// metricsListen checks the address that serves only the metrics. It needs no clients, because metrics there are served
// without a token.
func (r *reader) metricsListen(c *Config) {
	if c.MetricsListen == "" {
		return
	}

	if _, ok := hostOf(c.MetricsListen); !ok {
		r.wrong("METRICS_LISTEN", c.MetricsListen, "host:port, such as 127.0.0.1:9464 or :9464")
		return
	}

	if c.MetricsListen == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
		r.wrong("METRICS_LISTEN", c.MetricsListen, "another address than "+Prefix+
			"LISTEN, which serves /metrics too, to clients without a prefix")
	}
}

// pprofListen refuses profiles that other machines could read.
func (r *reader) pprofListen(c *Config) {
	if c.PprofListen == "" {
		return
	}
	if host, ok := hostOf(c.PprofListen); !ok || !isLoopback(host) {
		r.wrong("PPROF_LISTEN", c.PprofListen, "a loopback address with a port, such as 127.0.0.1:6060")
	}
}

// isLoopback reports whether only this machine can reach the host.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// hostOf returns the host of a listen address, and whether the address is valid.
func hostOf(address string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(address)
	n, perr := strconv.Atoi(port)
	return host, err == nil && perr == nil && n >= 0 && n <= 65535
}

// elsewhere lists variables that only other commands, or tests, read.
var elsewhere = []string{Prefix + "URL", Prefix + "TOKEN", Prefix + "TOKEN_FILE"}

// injected matches the variables that Kubernetes and Docker add to a container's environment for each service or linked
// container whose name begins with notifier.
var injected = regexp.MustCompile(`^NOTIFIER_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// otherNames maps the names that other programs use, without the prefix, to this service's variable.
var otherNames = func() map[string]string {
	names := map[string]string{}
	for _, n := range []string{"ADDR", "ADDRS", "ADDRESS", "HOST", "HOSTS", "PORT", "NODES", "URI", "DSN", "DB", "DATABASE", "USER",
		"USERNAME", "PASSWORD",
		"PASS", "AUTH", "TLS", "SSL"} {
		names["REDIS_"+n] = Prefix +
			"REDIS_URL, which has host, port, user, password, database and TLS: redis://user:password@host:6379/0 or rediss://…"
	}

	names["REDIS"] = names["REDIS_ADDR"]
	names["REDIS_PASSWORD_FILE"] = Prefix + "REDIS_URL_FILE, the name of a file that contains the whole URL with its password"
	names["SENTINEL_MASTER"] = Prefix + "REDIS_URL with master_name=…, and " + Prefix + "REDIS_MODE=sentinel"
	names["REDIS_MASTER"], names["REDIS_MASTER_NAME"] = names["SENTINEL_MASTER"], names["SENTINEL_MASTER"]
	names["REDIS_CA"], names["REDIS_CACERT"], names["REDIS_TLS_CA"] = Prefix+"REDIS_CA_FILE", Prefix+"REDIS_CA_FILE", Prefix+"REDIS_CA_FILE"
	for _, n := range []string{"ADDR", "ADDRESS", "HOST", "PORT", "BIND", "HTTP_ADDR", "HTTP_PORT", "LISTEN_ADDR", "LISTEN_ADDRESS"} {
		names[n] = Prefix + "LISTEN, such as 127.0.0.1:8080 or :8080"
	}

	return names
}()

// unknown reports variables that nothing reads. Most are misspelt names, whose default would silently apply.
func (r *reader) unknown(environ []string) {
	for _, v := range slices.Concat(elsewhere, toVars) {
		r.known[v] = true
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, Prefix) || r.known[name] || strings.HasPrefix(name, Prefix+"TEST_") || injected.MatchString(name) {
			continue
		}
		if strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://") {
			continue // injected as a pair of variables
		}

		if !r.errs.Of(listOf(name)) || r.isListed(name) { // otherwise it may be valid once the names of clients and routes are
			r.add(name, "", r.unknownText(name))
		}
	}
}

// isListed reports whether a variable is of a client or route with a valid name.
func (r *reader) isListed(name string) bool {
	return slices.ContainsFunc(r.listed, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// unknownText returns the text for a variable that is not known, with the name that was probably meant.
func (r *reader) unknownText(name string) string {
	if meant := r.otherName(name); meant != "" {
		return "is not known; want " + meant
	}
	if near := r.nearest(name); near != "" {
		return "is not known; did you mean " + near + "?"
	}
	if strings.HasPrefix(name, routePrefix(reserved)) {
		return "is not known; want a variable that has a default, such as " + routePrefix(reserved) + "RETRY, or set it for each route"
	}
	if list := listOf(name); list != "" {
		return "is not known; is its name missing from " + list + "?"
	}

	return "is not known; see docs/configuration.md"
}

// pathOf returns the path of an address without its leading slash.
func pathOf(address string) string {
	rest, _, _ := strings.Cut(address, "?")
	_, after, _ := strings.Cut(rest, "://")
	_, path, _ := strings.Cut(after, "/")
	return path
}

// otherRouteNames maps names that other programs use to a route's variable.
var otherRouteNames = map[string]string{"URL": "TARGET", "ENDPOINT": "TARGET", "ADDRESS": "TARGET", "WEBHOOK": "TARGET", "LADDER": "RETRY",
	"RETRIES": "RETRY", "BACKOFF": "RETRY", "DELAYS": "RETRY", "SIGNING_KEY": "SECRET", "SIGNING_SECRET": "SECRET", "RATE_LIMIT": "RATE"}

// otherName returns this service's variable for a name that other programs use; empty = unknown name.
func (r *reader) otherName(name string) string {
	if meant, ok := otherNames[strings.TrimPrefix(name, Prefix)]; ok {
		return meant
	}

	for other, ours := range otherRouteNames {
		if of, ok := strings.CutSuffix(name, "_"+other); ok && r.known[of+"_"+ours] {
			return of + "_" + ours
		}
	}

	return ""
}

// listOf returns the variable that lists the clients or routes whose names variables contain.
func listOf(name string) string {
	switch {
	case strings.HasPrefix(name, Prefix+"ROUTE_"):
		return Prefix + "ROUTES"
	case strings.HasPrefix(name, Prefix+"CLIENT_"):
		return Prefix + "CLIENTS"
	}
	return ""
}

// nearest returns the known variable with the smallest edit distance: at most a third of the letters after the prefix,
// and at most three. Empty if none is that close.
func (r *reader) nearest(name string) string {
	limit := min(4, 1+(len(strings.TrimPrefix(name, Prefix))+1)/3)
	best, near := limit, ""
	for known := range r.known {
		if d := Distance(name, known, limit); d < best || d == best && known < near {
			best, near = d, known
		}
	}

	return near
}
