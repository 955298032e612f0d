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
	"notifier/internal/spelling"
)

// address checks the address the way the client will read it. The client's own
// errors are not shown: they may hold the address, and the address a password.
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
	switch addrs := bareAddresses(c.URL); {
	case err == nil && db >= 0:
	case len(addrs) == 0 || c.Mode == Standalone && len(addrs) > 1:
		r.wrong("REDIS_URL", "", want+" (what was given is not shown)")
	default:
		r.wrong("REDIS_URL", c.URL, urlOf(c.Mode, addrs))
	}
}

// bareAddresses are those of a text that is nothing but host:port, or several,
// comma-separated: they hold no secret and may be shown.
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

// urlOf spells addresses as the URL that a mode asks for.
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

// across holds the rules that look at more than one variable.
func (r *reader) across(c *Config) {
	r.listen(c)
	r.metricsListen(c)
	r.pprofListen(c)
	r.adoption(c)
	r.perHost(c)
	r.apiMemory(c)
	r.signKeyIDs(c.Routes)
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

// apiMemory refuses a memory of which one client's quarter does not hold one notice, whose
// body may be base64.
func (r *reader) apiMemory(c *Config) {
	if least := 4 * (2*c.MaxBody + 64<<10); c.APIMemory < least && !r.errs.of(Prefix+"API_MEMORY") {
		r.wrong("API_MEMORY", spellSize(c.APIMemory), "at least "+spellSize(least)+" for "+Prefix+"MAX_BODY="+spellSize(c.MaxBody))
	}
}

// perHost refuses a limit that one instance cannot reach where it is each one's.
// Of the fleet's it may have more to give than one has slots for.
func (r *reader) perHost(c *Config) {
	if c.Limits != LimitsInstance {
		return
	}
	for _, rt := range c.Routes {
		name := routePrefix(rt.Name)
		if rt.HostConcurrency > rt.Concurrency && !r.errs.of(name+"CONCURRENCY") {
			r.add(name+"HOST_CONCURRENCY", strconv.Itoa(rt.HostConcurrency), fmt.Sprintf("is more than %sCONCURRENCY (%d); want at most that",
				name, rt.Concurrency))
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

// metricsListen checks the address for the metrics alone. It needs no clients:
// that it asks for no token is what it is for.
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

// hostOf is the host of an address to listen on, and whether that is one.
func hostOf(address string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(address)
	n, perr := strconv.Atoi(port)
	return host, err == nil && perr == nil && n >= 0 && n <= 65535
}

// Variables that are known and that other commands, or tests, read.
var elsewhere = []string{Prefix + "URL", Prefix + "TOKEN", Prefix + "TOKEN_FILE"}

// injected matches what Kubernetes and Docker put into the environment of a
// container for each service or linked container whose name begins with
// notifier.
var injected = regexp.MustCompile(`^NOTIFIER_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// otherNames are names that other programs give to what is here under another,
// without the prefix, and what to write instead.
var otherNames = func() map[string]string {
	names := map[string]string{}
	for _, n := range []string{"ADDR", "ADDRS", "ADDRESS", "HOST", "HOSTS", "PORT", "NODES", "URI", "DSN", "DB", "DATABASE", "USER",
		"USERNAME", "PASSWORD",
		"PASS", "AUTH", "TLS", "SSL"} {
		names["REDIS_"+n] = Prefix +
			"REDIS_URL: host, port, user, password, database and TLS all stand in it, redis://user:password@host:6379/0 or rediss://…"
	}
	names["REDIS"] = names["REDIS_ADDR"]
	names["REDIS_PASSWORD_FILE"] = Prefix + "REDIS_URL_FILE, the name of a file with the whole URL, password within"
	names["SENTINEL_MASTER"] = Prefix + "REDIS_URL with master_name=… in it, and " + Prefix + "REDIS_MODE=sentinel"
	names["REDIS_MASTER"], names["REDIS_MASTER_NAME"] = names["SENTINEL_MASTER"], names["SENTINEL_MASTER"]
	names["REDIS_CA"], names["REDIS_CACERT"], names["REDIS_TLS_CA"] = Prefix+"REDIS_CA_FILE", Prefix+"REDIS_CA_FILE", Prefix+"REDIS_CA_FILE"
	for _, n := range []string{"ADDR", "ADDRESS", "HOST", "PORT", "BIND", "HTTP_ADDR", "HTTP_PORT", "LISTEN_ADDR", "LISTEN_ADDRESS"} {
		names[n] = Prefix + "LISTEN, such as 127.0.0.1:8080 or :8080"
	}
	return names
}()

// unknown finds variables that nobody reads: most often a name misspelt, whose
// default would silently hold.
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
			continue // injected likewise
		}
		text := "is not known; see docs/configuration.md"
		list := listOf(name)
		if r.errs.of(list) {
			continue // with the names put right it may be known
		}
		if meant := r.otherName(name); meant != "" {
			text = "is not known; want " + meant
		} else if near := r.nearest(name); near != "" {
			text = "is not known; did you mean " + near + "?"
		} else if list != "" {
			text = "is not known; is its name missing from " + list + "?"
		}
		r.add(name, "", text)
	}
}

// otherRouteNames are likewise those of a route's variables.
var otherRouteNames = map[string]string{"URL": "TARGET", "ENDPOINT": "TARGET", "ADDRESS": "TARGET", "WEBHOOK": "TARGET", "LADDER": "RETRY",
	"RETRIES": "RETRY", "BACKOFF": "RETRY", "DELAYS": "RETRY", "SIGNING_KEY": "SECRET", "SIGNING_SECRET": "SECRET", "RATE_LIMIT": "RATE"}

// otherName is what to write instead of a name that other programs have; empty =
// it is none of those.
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

// nearest is the known variable that differs least, if it differs little: in at
// most a third of the letters that it has of its own, and in three.
func (r *reader) nearest(name string) string {
	limit := min(4, 1+(len(strings.TrimPrefix(name, Prefix))+1)/3)
	best, near := limit, ""
	for known := range r.known {
		if d := spelling.Distance(name, known, limit); d < best || d == best && known < near {
			best, near = d, known
		}
	}
	return near
}
