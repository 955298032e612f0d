package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Prefix begins the name of every variable of this service.
const Prefix = "NOTIFIER_"

// The structs below are the table of variables: env holds the name after the
// prefix and the default, secret:"file" marks what is never printed and may
// stand in a file that <name>_FILE names. Everything is a string here, because
// go-envconfig stops at the first value that it cannot read and an operator
// wants to see all of them.

type serviceVars struct {
	RedisURL        string `env:"REDIS_URL, default=redis://127.0.0.1:6379/0" secret:"file"`
	RedisMode       string `env:"REDIS_MODE, default=standalone"`
	Namespace       string `env:"NAMESPACE, default=notifier"`
	Shards          string `env:"SHARDS, default=1"`
	Instance        string `env:"INSTANCE"`
	Listen          string `env:"LISTEN, default=127.0.0.1:8080"`
	Clients         string `env:"CLIENTS"`
	Routes          string `env:"ROUTES"`
	Concurrency     string `env:"CONCURRENCY, default=512"`
	Grace           string `env:"GRACE, default=50ms"`
	MaxBody         string `env:"MAX_BODY, default=256KiB"`
	Retention       string `env:"RETENTION, default=24h"`
	Retain          string `env:"RETAIN, default=100000"`
	ConfigureRedis  string `env:"CONFIGURE_REDIS, default=true"`
	ShutdownTimeout string `env:"SHUTDOWN_TIMEOUT, default=25s"`
	LogLevel        string `env:"LOG_LEVEL, default=info"`
	LogFormat       string `env:"LOG_FORMAT, default=json"`
}

type clientVars struct {
	Token  string `env:"TOKEN" secret:"file"`
	Prefix string `env:"PREFIX"`
}

type routeVars struct {
	Prefix          string `env:"PREFIX"`
	Target          string `env:"TARGET"`
	Retry           string `env:"RETRY" shown:"15s,3m,10m,30m,30m,1h,2h,6h,15h"`
	Jitter          string `env:"JITTER, default=0"`
	Timeout         string `env:"TIMEOUT" shown:"10s"`
	Ack             string `env:"ACK" shown:"2xx"`
	Concurrency     string `env:"CONCURRENCY, default=64"`
	HostConcurrency string `env:"HOST_CONCURRENCY" shown:"16, or CONCURRENCY if that is less"`
	Rate            string `env:"RATE"`
	Secret          string `env:"SECRET" secret:"file"`
	Headers         string `env:"HEADERS" secret:"file"`
	Allow           string `env:"ALLOW"`
	HTTPSOnly       string `env:"HTTPS_ONLY, default=false"`
	CAFile          string `env:"CA_FILE"`
	CertFile        string `env:"CERT_FILE"`
	KeyFile         string `env:"KEY_FILE"`
	Proxy           string `env:"PROXY" secret:"file"`
	Method          string `env:"METHOD, default=POST"`
	MaxLen          string `env:"MAXLEN, default=0"`
	Adopt           string `env:"ADOPT, default=false"`
}

// texts explains each variable of the table, for docs/configuration.md.
var texts = map[string]string{
	"REDIS_URL": "Where Redis is, in go-redis's forms: `redis://user:password@host:6379/0`, `rediss://` for TLS, `unix://` for a " +
		"socket. More addresses of a cluster or of sentinels as `&addr=host:port`; sentinels need `master_name=`.",
	"REDIS_MODE": "`standalone`, `sentinel` or `cluster`.",
	"NAMESPACE":  "What every key of the service begins with. Two services on one database take two namespaces.",
	"SHARDS":     "Parts the pending notices are kept in, 1 to 1024; fixed at the first start. More than 1 only pays in a cluster.",
	"INSTANCE":   "The name of this process in logs and claims. Default: host name and a random end.",
	"LISTEN":     "Address of the HTTP API. One that is not loopback is refused unless clients are configured.",
	"CLIENTS":    "Names of those who may call the API, comma-separated. Each has its own variables, below. None: everybody who reaches the address.",
	"ROUTES":     "Names of the routes, comma-separated: letters, digits, `_` and `-`. Required by `serve`.",
	"CONCURRENCY": "Handlers that run at one time in this process, over all routes; " +
		"1 to 100,000.",
	"GRACE":     "How long the reconciler leaves a due notice to the event path, 1ms to 10s.",
	"MAX_BODY":  "The longest body a notice may have, to 16MiB.",
	"RETENTION": "How long a delivered or cancelled notice stays readable; 0 keeps none.",
	"RETAIN":    "How many settled notices stay readable, for each route and shard.",
	"CONFIGURE_REDIS": "Whether to add `Ex` (`KEg$x` if a route adopts) to Redis's notify-keyspace-events when it is missing. Flags that are " +
		"there are kept.",
	"SHUTDOWN_TIMEOUT": "How long running handlers may take to finish after SIGTERM, to 10m.",
	"LOG_LEVEL":        "`debug`, `info`, `warn` or `error`.",
	"LOG_FORMAT":       "`json` or `console`.",

	"CLIENT_<NAME>_TOKEN":  "The client's bearer token, 16 to 512 printable characters. Required.",
	"CLIENT_<NAME>_PREFIX": "What the client may see and touch: `app`, `app:module` or `app:module:type`. Empty = everything.",

	"ROUTE_<NAME>_PREFIX": "The keys of the route: `app`, `app:module` or `app:module:type`. The longest match wins. Required.",
	"ROUTE_<NAME>_TARGET": "Where its notices go: `https://…` (one address), `notice` (each notice brings its `url`), `list:<key>`, " +
		"`stream:<key>`, or `log`. Required.",
	"ROUTE_<NAME>_RETRY": "The ladder: the delays between attempts. Or a preset, which sets ladder, acknowledgement and timeout " +
		"together: see below. A notice's own ladder wins.",
	"ROUTE_<NAME>_JITTER":  "Share by which each step is spread both ways, 0 to 0.5.",
	"ROUTE_<NAME>_TIMEOUT": "The time one attempt may take, 1ms to 10m.",
	"ROUTE_<NAME>_ACK": "What acknowledges: `2xx`, `status:200,204`, `body:success` (the whole body), `json:code=SUCCESS` (a field). Of lists and " +
		"streams: `report`, a report of the consumer within the timeout; empty = the push itself.",
	"ROUTE_<NAME>_CONCURRENCY":      "Handlers of the route that run at one time in this process.",
	"ROUTE_<NAME>_HOST_CONCURRENCY": "Of them, to one destination host and port.",
	"ROUTE_<NAME>_RATE":             "The most attempts in a time: `100/s`, `600/m`, `5000/h`. Empty = unlimited.",
	"ROUTE_<NAME>_SECRET":           "Signing secrets, `whsec_` and 24 to 64 bytes in base64; several comma-separated while rotating, each makes a signature.",
	"ROUTE_<NAME>_HEADERS":          "Headers of each request: `Name=value,…`.",
	"ROUTE_<NAME>_ALLOW":            "Networks (CIDR), addresses and hosts a `notice` target may reach although private.",
	"ROUTE_<NAME>_HTTPS_ONLY":       "Whether a plain `http://` address is refused.",
	"ROUTE_<NAME>_CA_FILE":          "Certificates (PEM) to trust instead of the system's.",
	"ROUTE_<NAME>_CERT_FILE":        "This service's own certificate (PEM), for receivers that ask for one; with KEY_FILE.",
	"ROUTE_<NAME>_KEY_FILE":         "The key of CERT_FILE (PEM).",
	"ROUTE_<NAME>_PROXY":            "An HTTP proxy for the route's calls, `http://user:password@host:3128`.",
	"ROUTE_<NAME>_METHOD":           "`POST`, `PUT` or `GET`; a notice's own method wins.",
	"ROUTE_<NAME>_MAXLEN":           "Entries a stream is trimmed to, approximately; 0 = never trimmed.",
	"ROUTE_<NAME>_ADOPT": "Whether plain `SET key payload EX n` timers under the prefix are taken over. Needs a retention of `1h` and " +
		"`10000` at least, and the notify flags `KEg$x`.",
}

// Variable is one row of the table.
type Variable struct {
	Name    string // whole, with <NAME> where a client's or route's name stands
	Default string
	Text    string
	Secret  bool // never printed; Name_FILE may name a file that holds it
}

// Variables lists the whole table in the order of the documentation.
func Variables() []Variable {
	list := rows("", serviceVars{})
	list = append(list, rows("CLIENT_<NAME>_", clientVars{})...)
	return append(list, rows("ROUTE_<NAME>_", routeVars{})...)
}

func rows(prefix string, table any) []Variable {
	var list []Variable
	for f := range fields(table) {
		name := prefix + f.name
		list = append(list, Variable{Name: Prefix + name, Default: f.shown, Text: texts[name], Secret: f.secret})
	}
	return list
}

// field is what a struct's tags say of one variable.
type field struct {
	name, shown string
	secret      bool
}

// fields walks the tags of one of the structs above.
func fields(table any) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		t := reflect.TypeOf(table)
		for i := range t.NumField() {
			tag := t.Field(i).Tag
			name, def, _ := strings.Cut(tag.Get("env"), ", default=")
			if shown, ok := tag.Lookup("shown"); ok {
				def = shown
			}
			if !yield(field{name: name, shown: def, secret: tag.Get("secret") == "file"}) {
				return
			}
		}
	}
}

// clientPrefix and routePrefix begin the variables of one client or route.
func clientPrefix(name string) string { return fmt.Sprintf("%sCLIENT_%s_", Prefix, spelt(name)) }
func routePrefix(name string) string  { return fmt.Sprintf("%sROUTE_%s_", Prefix, spelt(name)) }

// spelt is a name as it stands within a variable's.
func spelt(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
