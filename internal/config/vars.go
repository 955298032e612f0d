package config

import (
	"fmt"
	"reflect"
	"strings"

	"notifier/internal/route"
)

// Prefix begins the name of every variable of this service.
const Prefix = "NOTIFIER_"

// The structs below are the table of variables. The tag env has the name without the prefix and the default;
// secret:"file" marks secrets, which are never printed and may be in a file that <name>_FILE names. All fields are
// strings: go-envconfig stops at the first value that it cannot parse, and an operator wants to see all errors at once.

type serviceVars struct {
	Namespace       string `env:"NAMESPACE, default=notifier"`
	Key             string `env:"KEY" secret:"file"`
	SealKeys        string `env:"SEAL_KEYS" secret:"file"`
	SealKeep        string `env:"SEAL_KEEP, default=720h"`
	Shards          string `env:"SHARDS" shown:"1"`
	Instance        string `env:"INSTANCE"`
	Listen          string `env:"LISTEN, default=127.0.0.1:8080"`
	MetricsListen   string `env:"METRICS_LISTEN"`
	PprofListen     string `env:"PPROF_LISTEN"`
	TrustedProxies  string `env:"TRUSTED_PROXIES"`
	Clients         string `env:"CLIENTS"`
	Routes          string `env:"ROUTES"`
	Concurrency     string `env:"CONCURRENCY, default=512"`
	Grace           string `env:"GRACE, default=50ms"`
	MaxBody         string `env:"MAX_BODY, default=256KiB"`
	APIMemory       string `env:"API_MEMORY, default=128MiB"`
	Retention       string `env:"RETENTION, default=24h"`
	Retain          string `env:"RETAIN, default=100000"`
	RepeatWindow    string `env:"REPEAT_WINDOW, default=1h"`
	RepeatBytes     string `env:"REPEAT_BYTES, default=256MiB"`
	ConfigureRedis  string `env:"CONFIGURE_REDIS, default=true"`
	ShutdownTimeout string `env:"SHUTDOWN_TIMEOUT, default=25s"`
	ShutdownDelay   string `env:"SHUTDOWN_DELAY, default=0s"`
	Takeover        string `env:"TAKEOVER, default=3s"`
	Limits          string `env:"LIMITS, default=fleet"`
	UI              string `env:"UI, default=true"`
	UIBodies        string `env:"UI_BODIES, default=shown"`
	UIMask          string `env:"UI_MASK"`
	PublicURL       string `env:"PUBLIC_URL"`
	AlarmURL        string `env:"ALARM_URL" secret:"file"`
	AlarmFormat     string `env:"ALARM_FORMAT, default=json"`
	AlarmSecret     string `env:"ALARM_SECRET" secret:"file"`

	Durability        string `env:"DURABILITY, default=memory"`
	DurabilityTimeout string `env:"DURABILITY_TIMEOUT, default=1s"`
	DurabilitySettle  string `env:"DURABILITY_SETTLE, default=memory"`

	HistoryURL     string `env:"HISTORY_URL" secret:"file"`
	HistoryBodies  string `env:"HISTORY_BODIES, default=keep"`
	HistoryKeep    string `env:"HISTORY_RETENTION"`
	HistoryBacklog string `env:"HISTORY_BACKLOG, default=1000000"`
	LogCalls       string `env:"LOG_CALLS, default=changes"`
	LogAttempts    string `env:"LOG_ATTEMPTS, default=all"`
	LogLevel       string `env:"LOG_LEVEL, default=info"`
	LogFormat      string `env:"LOG_FORMAT"`
}

type clientVars struct {
	Token  string `env:"TOKEN" secret:"file"`
	Prefix string `env:"PREFIX"`
	Role   string `env:"ROLE"`
	Rate   string `env:"RATE, default=5000/s"`
}

type routeVars struct {
	Prefix             string `env:"PREFIX"`
	Target             string `env:"TARGET" secret:"file"`
	Retry              string `env:"RETRY" shown:"15s,3m,10m,30m,30m,1h,2h,6h,15h"`
	Jitter             string `env:"JITTER, default=0"`
	Expires            string `env:"EXPIRES" shown:"never"`
	Timeout            string `env:"TIMEOUT" shown:"10s"`
	Ack                string `env:"ACK" shown:"2xx"`
	OnStatus           string `env:"ON_STATUS"`
	PauseAfter         string `env:"PAUSE_AFTER" shown:"never"`
	Concurrency        string `env:"CONCURRENCY, default=64"`
	Weight             string `env:"WEIGHT, default=1"`
	HostConcurrency    string `env:"HOST_CONCURRENCY" shown:"16, or CONCURRENCY if that is less"`
	Rate               string `env:"RATE"`
	Secret             string `env:"SECRET" secret:"file"`
	Sign               string `env:"SIGN" shown:"standard, if SECRET is set"`
	SignKey            string `env:"SIGN_KEY" secret:"file"`
	SignKeyID          string `env:"SIGN_KEY_ID"`
	SignHeader         string `env:"SIGN_HEADER"`
	SignTextKey        string `env:"SIGN_TEXT_KEY" secret:"file"`
	SignPer            string `env:"SIGN_PER" shown:"route"`
	OAuth2TokenURL     string `env:"OAUTH2_TOKEN_URL"`
	OAuth2ClientID     string `env:"OAUTH2_CLIENT_ID"`
	OAuth2ClientSecret string `env:"OAUTH2_CLIENT_SECRET" secret:"file"`
	OAuth2Scopes       string `env:"OAUTH2_SCOPES"`
	OAuth2Audience     string `env:"OAUTH2_AUDIENCE"`
	Headers            string `env:"HEADERS" secret:"file"`
	HeadersTo          string `env:"HEADERS_TO"`
	Allow              string `env:"ALLOW"`
	HTTPSOnly          string `env:"HTTPS_ONLY, default=false"`
	CAFile             string `env:"CA_FILE"`
	CertFile           string `env:"CERT_FILE"`
	KeyFile            string `env:"KEY_FILE"`
	Proxy              string `env:"PROXY" secret:"file"`
	HTTP               string `env:"HTTP" shown:"HTTP/2 if the receiver supports it"`
	TLS                string `env:"TLS" shown:"TLS 1.2 and 1.3"`
	Method             string `env:"METHOD, default=POST"`
	MaxLen             string `env:"MAXLEN, default=0"`
	Adopt              string `env:"ADOPT, default=false"`
	Seal               string `env:"SEAL"`
	SealURL            string `env:"SEAL_URL, default=false"`
	SealEntries        string `env:"SEAL_ENTRIES" shown:"sealed"`
	Order              string `env:"ORDER, default=none"`
	OrderDead          string `env:"ORDER_DEAD, default=skip"`
	FormatSecret       string `env:"FORMAT_SECRET" secret:"file"`
	DeadRetention      string `env:"DEAD_RETENTION" shown:"for ever"`
	DeadKeep           string `env:"DEAD_KEEP" shown:"all"`
	OnDead             string `env:"ON_DEAD"`
	OnDeadBody         string `env:"ON_DEAD_BODY, default=none"`
	OnDeadFormat       string `env:"ON_DEAD_FORMAT, default=json"`
	OnDown             string `env:"ON_DOWN"`
}

// defaultVars are the variables that have a default for all routes. If unset, they have the defaults of routeVars.
type defaultVars struct {
	Retry           string `env:"RETRY"`
	Jitter          string `env:"JITTER"`
	Expires         string `env:"EXPIRES"`
	Timeout         string `env:"TIMEOUT"`
	Ack             string `env:"ACK"`
	Concurrency     string `env:"CONCURRENCY"`
	HostConcurrency string `env:"HOST_CONCURRENCY"`
	HTTPSOnly       string `env:"HTTPS_ONLY"`
	HTTP            string `env:"HTTP"`
	TLS             string `env:"TLS"`
}

// texts describes each variable of the table, for docs/configuration.md.
var texts = map[string]string{
	"REDIS_URL": "The address of Redis: `redis://user:password@host:6379/0`, `rediss://` for TLS, `unix://` for a socket. Further addresses " +
		"of a cluster or of sentinels are added as `&addr=host:port`; sentinels also need `master_name=`.",
	"REDIS_MODE": "`standalone`, `sentinel` or `cluster`.",
	"REDIS_CA_FILE": "A file with the authorities (PEM) that sign the certificates of Redis and of the sentinels, instead of the system's. " +
		"In a cluster and behind sentinels a certificate must match the address that the node announces.",
	"REDIS_CERT_FILE":   "A file with this service's client certificate (PEM). Needs REDIS_KEY_FILE.",
	"REDIS_KEY_FILE":    "The file with the private key of REDIS_CERT_FILE (PEM).",
	"SENTINEL_USERNAME": "The user at the sentinels. The user in REDIS_URL is for Redis.",
	"SENTINEL_PASSWORD": "The password at the sentinels. Sentinels use the same TLS settings as Redis.",
	"NAMESPACE":         "The prefix of all Redis keys of the service. Two services in one database need two namespaces.",
	"KEY": "32 random bytes in base64 (`head -c 32 /dev/urandom | base64`), the same for all instances, from which the keys that encrypt " +
		"cursors are derived. If unset, a key is created in Redis as `notifier:key`. Set it if others can read that Redis.",
	"SEAL_KEYS": "Service keys for SEAL of routes: `name=<32 random bytes in base64>`, comma-separated, such as `2026-11=…,2026-05=…`. " +
		"The first that all running instances have encrypts, all decrypt. [Rotation](security.md#rotation-of-service-keys).",
	"SEAL_KEEP": "How long Redis keeps the keys of a route, audience or id after its last sealed notice. Entries of streams and lists that " +
		"are read later do not open. With SEAL=id each id takes about 500 bytes for this time.",
	"SHARDS": "The number of shards, 1 to 1024. The first start stores it in Redis. After `notifier reshard` remove this variable, or set " +
		"the new number. More than 1 is useful only in a cluster.",
	"INSTANCE": "The name of this process in logs and claims. By default the host name and a random suffix.",
	"LISTEN":   "The address of the HTTP API. An address that is not loopback is refused unless clients are configured.",
	"METRICS_LISTEN": "An additional address, such as `:9464`, that serves only `/metrics`, without a token, for Prometheus. LISTEN serves " +
		"`/metrics` too, to clients without a prefix.",
	"PPROF_LISTEN": "A loopback address, such as `127.0.0.1:6060`, that serves Go's profiles at `/debug/pprof/`. If unset, there are no " +
		"profiles.",
	"TRUSTED_PROXIES": "Networks (CIDR) and addresses of the proxies in front of LISTEN, comma-separated. Behind one of them, the client's " +
		"address is the rightmost `X-Forwarded-For` entry that is not in the list, and `X-Forwarded-Proto` says whether the client uses TLS. " +
		"Otherwise both headers are ignored.",
	"CLIENTS":     "The names of the API's clients, comma-separated; see [below](#clients). If unset, the API needs no token.",
	"ROUTES":      "The names of the routes, comma-separated; a name has letters, digits, `_` and `-`. Required by `serve`.",
	"CONCURRENCY": "Maximum number of handlers that run at the same time in this process, for all routes; 1 to 100,000.",
	"GRACE":       "How long the reconciler waits for the expired event of a due notice before it claims the notice itself, 1ms to 10s.",
	"MAX_BODY":    "Maximum size of a notice's body, up to 16MiB.",
	"API_MEMORY": "Maximum bytes of API requests in flight at one instance. One client may use a quarter; half is divided equally between " +
		"the clients. Further requests get 429.",
	"RETENTION": "How long a delivered or cancelled notice stays readable; 0 removes it at once.",
	"RETAIN":    "Maximum number of delivered and cancelled notices that stay readable, for each route and shard.",
	"REPEAT_WINDOW": "How long after its end a [repeated schedule call](deploy.md#repeated-schedule-calls) of a notice that RETAIN has " +
		"trimmed is recognised. Never longer than RETENTION; 0 = never.",
	"REPEAT_BYTES":    "Maximum memory in Redis for REPEAT_WINDOW, all shards together, up to 64GiB.",
	"CONFIGURE_REDIS": "Whether the service adds missing flags, `Ex` (`KEg$x` if a route has ADOPT), to Redis's notify-keyspace-events.",
	"SHUTDOWN_DELAY": "The time between SIGTERM and the start of the shutdown, at most 10m. During it the instance works, but `/readyz` " +
		"answers 503 and every API response closes its connection, so that a load balancer stops sending calls. A second signal ends the delay.",
	"SHUTDOWN_TIMEOUT": "Maximum time for running handlers to finish after SIGTERM, at most 10m.",
	"TAKEOVER": "After how long without heartbeat and connection to Redis an instance counts as dead, so that its claims are reclaimed, 1s " +
		"to 1h. `lease`: claims are reclaimed only when their leases end.",
	"LIMITS": "The scope of RATE and HOST_CONCURRENCY: `fleet` (all instances together) or `instance` (each one).",
	"UI_BODIES": "Whether the pages show notices' bodies and receivers' answers: `shown` or `masked`. Masking also hides the queries of " +
		"addresses and the values of notices' headers. Downloads of dead letters are masked too, and `import` refuses masked notices. The API " +
		"masks only copies of attempts (`notifier listen`).",
	"UI_MASK": "JSON paths of the values that the pages mask, comma-separated: `$.card.number`, `items[*].cvv` or `$..pan` (at any depth). " +
		"Letter case does not matter. Headers, a form's fields and a query's fields are members of one object each. A body is masked whole " +
		"unless it is a JSON object or array, or its content type is `application/x-www-form-urlencoded`. See " +
		"[dashboard.md](dashboard.md#what-is-not-shown).",
	"UI": "Whether the dashboard is served, under `/ui/` of LISTEN.",
	"DURABILITY": "The confirmation that a schedule or change waits for: `memory` (Redis has the write), `replicas:N` (N replicas have " +
		"received it too) or `fsync` (it is on Redis's disk; needs Redis 8, or `appendfsync always`). An unconfirmed call gets " +
		"503 with the problem type `unconfirmed`; repeat the call.",
	"DURABILITY_TIMEOUT": "How long a call waits for the confirmation, 10ms to 30s.",
	"DURABILITY_SETTLE": "The confirmation that the end of an attempt waits for, with the same values: with `replicas:N`, a failover causes " +
		"no second delivery. See [Durability](operations.md#durability).",
	"HISTORY_URL": "The database of the [history](history.md): `postgres://user:password@host:5432/database`, or `sqlite:///path/to/file` " +
		"for instances on one machine. If unset, there is no history.",
	"HISTORY_BODIES":    "How the history stores bodies: `keep` (whole), `hash` (SHA-256 and size) or `drop` (only the size).",
	"HISTORY_RETENTION": "How long the history keeps entries, at least `24h`; PostgreSQL drops whole days. If unset, forever.",
	"HISTORY_BACKLOG": "Maximum number of finalized notices buffered in Redis while the database is unavailable, 1,000 to 100,000,000. " +
		"1,000,000 with bodies of 200 bytes take about 0.5 GB. Above it, the oldest are not recorded.",
	"LOG_CALLS": "Which API calls are logged at level info, one line each, with client, operation and key: `off`, `changes` (calls that may " +
		"change something, except schedules) or `all`. A batch is one line, with its first key. Bodies, urls and tokens are never logged. For " +
		"calls with an audit entry, the line `operator action` is logged instead.",
	"LOG_ATTEMPTS": "Which attempts are logged: `all`, `failed`, or `1/100` (all failures and one in 100 successes, chosen by webhook-id; " +
		"1/1 to 1/1000000). The lines that a `log` target delivers are always written.",
	"LOG_LEVEL":  "`debug`, `info`, `warn` or `error`.",
	"LOG_FORMAT": "`json` or `console`. If unset, `console` where the log goes to a terminal, and `json` elsewhere.",

	"CLIENT_<NAME>_TOKEN": "The client's bearer token, 32 to 512 printable characters. Required.",
	"CLIENT_<NAME>_PREFIX": "The prefix of the keys that the client may read and change: `app`, `app:module` or `app:module:type`. Empty: " +
		"all keys.",
	"CLIENT_<NAME>_ROLE": "The calls that the client may make: `read` (read everything under its prefix), `produce` (also schedule, " +
		"replace, cancel, reschedule, fire and report), `operate` (also redrive, purge, replay, restore, pause, send tests and make links) or " +
		"`admin` (also erase the history, forget ids and, without a prefix, read receivers' keys and the audit of all clients). Other calls " +
		"are refused with 403. Required.",
	"CLIENT_<NAME>_RATE": "How many API requests the client may make at one instance, such as `100/s`, `600/m` or `5000/h`. A batch counts " +
		"as one for each 100 items, and each full 64 KiB of a body as one more. Further requests are refused with 429. A burst of one second's " +
		"requests is allowed.",

	"ROUTE_<NAME>_PREFIX": "The prefix of the route's keys: `app`, `app:module` or `app:module:type`. A key belongs to the route with the " +
		"longest prefix that matches. Required.",
	"ROUTE_<NAME>_TARGET": "Where its notices go: `https://…` (one address), `notice` (each notice brings its own `url`), `list:<key>` or " +
		"`stream:<key>` (of the same Redis), or `log` (a line at level info for each, at any `NOTIFIER_LOG_LEVEL`, and nothing else). Required.",
	"ROUTE_<NAME>_RETRY": "The ladder, which is the list of delays between attempts, or a preset, which sets ladder, acknowledgement and " +
		"timeout together: see below. A notice's own ladder takes precedence. A last step such as `1h*`, of `1m` or more, " +
		"repeats until the notice expires, and needs EXPIRES.",
	"ROUTE_<NAME>_JITTER": "Random variation of each delay, as a fraction from 0 to 0.5: 0.1 is ± 10 %.",
	"ROUTE_<NAME>_EXPIRES": "How long after its first due time a notice without an `expires` of its own may still be delivered, `1s` to ten " +
		"years. Later it is dead with the reason `expired`, without a call. See [expiry](callbacks.md#expiry).",
	"ROUTE_<NAME>_TIMEOUT": "Maximum duration of one attempt, 1ms to 10m.",
	"ROUTE_<NAME>_ACK": "Which answer acknowledges a notice: `2xx`, `status:200,204`, `body:success` (the whole body), `json:code=SUCCESS` " +
		"(a field), `xml:return_code=SUCCESS` (a child of the root element). `body:success|ok` accepts several texts. " +
		"For lists and streams: `report` (the consumer reports within the timeout); if unset, the push acknowledges.",
	"ROUTE_<NAME>_ON_STATUS": "The consequence of answers that do not acknowledge, by status: `401:pause,404:dead`. `dead`: the notice gets " +
		"no further attempt. `pause`: its receiver is paused after three such answers in a row, and probed. " +
		"See [rules for answers](callbacks.md#rules-for-answers).",
	"ROUTE_<NAME>_PAUSE_AFTER": "How long a receiver fails without a success until it is paused, `1m` to `168h`. " +
		"See [rules for answers](callbacks.md#rules-for-answers).",
	"ROUTE_<NAME>_CONCURRENCY": "Maximum number of the route's handlers that run at the same time in this process.",
	"ROUTE_<NAME>_WEIGHT": "The route's share, 1 to 1000, while routes wait for CONCURRENCY: a route of weight 3 runs three times as many " +
		"handlers as one of weight 1.",
	"ROUTE_<NAME>_HOST_CONCURRENCY": "Maximum number of simultaneous calls to one receiver (host and port), of all instances together " +
		"unless LIMITS is `instance`.",
	"ROUTE_<NAME>_RATE": "Maximum number of attempts that start in a second, minute or hour: `100/s`, `600/m`, `5000/h`; of all " +
		"instances together unless LIMITS is `instance`. If unset, unlimited.",
	"ROUTE_<NAME>_SECRET": "The signing secret: `whsec_` and 24 to 64 bytes in base64. During a rotation list two or more, " +
		"comma-separated: each adds a signature.",
	"ROUTE_<NAME>_HEADERS": "Headers of each request: `Name=value,…`. On the target `notice`, only requests to HEADERS_TO get them.",
	"ROUTE_<NAME>_SIGN": "How callbacks are signed, one or more, comma-separated: `standard`, `standard-ed25519`, `stripe`, `github`, " +
		"`wechatpay`, `alipay`, `jws`, `sorted`, `sorted-jeepay`. `standard`, `stripe` and `github` need SECRET, `sorted` and " +
		"`sorted-jeepay` SIGN_TEXT_KEY, the others SIGN_KEY. See " +
		"[callbacks.md](callbacks.md#signatures).",
	"ROUTE_<NAME>_SIGN_KEY": "Private keys in PEM (PKCS#8 or PKCS#1), one after the other: RSA of at least 2048 bits, Ed25519 or P-256; or " +
		"`whsk_` and base64 for Ed25519. A certificate of an RSA key may follow it. A scheme signs with the first key of its type.",
	"ROUTE_<NAME>_SIGN_KEY_ID": "The serial numbers of the RSA keys for `wechatpay`, one for each key in the same order, comma-separated. " +
		"By default those of the certificates in SIGN_KEY.",
	"ROUTE_<NAME>_SIGN_HEADER": "Names of the signatures' headers: `standard:Acme-Digest,stripe:Acme-Signature,github:X-Acme-256`, `jws:`, " +
		"`wechatpay:`. `wechatpay:Acme` gives `Acme-Timestamp`, `-Nonce`, `-Signature` and `-Serial`; `|` separates single names, as in " +
		"`standard:svix-id|svix-timestamp|svix-signature`. Neither HEADERS nor notices may have headers of these " +
		"names; `-` and `_` are the same.",
	"ROUTE_<NAME>_SIGN_TEXT_KEY": "The key of `sorted` and `sorted-jeepay`: 16 to 512 printable ASCII characters without blanks and commas.",
	"ROUTE_<NAME>_SIGN_PER": "Whose keys sign `standard`, `stripe`, `github`, `sorted` and `sorted-jeepay`: `route` (the secrets " +
		"themselves), `host` or `audience` (a key derived for each called host, or for each audience that notices name), or `host,route` " +
		"(both, for a change from `route`). Default " +
		"for the target `notice`: `host`. See [callbacks.md](callbacks.md#whose-key-signs).",
	"ROUTE_<NAME>_OAUTH2_TOKEN_URL": "The issuer's token endpoint: `https://issuer.example/oauth/token`. Callbacks then have an [access " +
		"token](callbacks.md#access-tokens) (`Authorization: Bearer …`) from there, by the client credentials grant.",
	"ROUTE_<NAME>_OAUTH2_CLIENT_ID":     "The client's id at the issuer. Required with OAUTH2_TOKEN_URL.",
	"ROUTE_<NAME>_OAUTH2_CLIENT_SECRET": "The client's secret at the issuer. Required with OAUTH2_TOKEN_URL.",
	"ROUTE_<NAME>_OAUTH2_SCOPES":        "The requested scopes, separated by commas or spaces.",
	"ROUTE_<NAME>_OAUTH2_AUDIENCE":      "The requested audience, sent as the parameter `audience`.",
	"ROUTE_<NAME>_HEADERS_TO": "The hosts that get HEADERS and access tokens, comma-separated: `[http://|https://]host[:port|:*]`, where " +
		"host is a name, `*.shop.example`, an address or `*`; see [callbacks.md](callbacks.md#whose-key-signs). Only for the target `notice`, " +
		"and required there if HEADERS or OAUTH2_TOKEN_URL is set.",
	"ROUTE_<NAME>_ALLOW": "Private addresses that notices' urls may name: networks (CIDR), addresses, hosts and `*.domain`, " +
		"comma-separated. For the target `notice`.",
	"ROUTE_<NAME>_HTTPS_ONLY": "Whether `http://` addresses are refused.",
	"ROUTE_<NAME>_CA_FILE":    "A file of authorities (PEM) to trust in addition to the system's.",
	"ROUTE_<NAME>_CERT_FILE":  "A file with this service's client certificate (PEM). Needs KEY_FILE.",
	"ROUTE_<NAME>_KEY_FILE":   "The file with the private key of CERT_FILE (PEM).",
	"ROUTE_<NAME>_PROXY": "A proxy for the route's calls: `http://user:password@host:3128`, `https://`, `socks5://` or `socks5h://`. " +
		"The proxy resolves host names.",
	"ROUTE_<NAME>_HTTP": "`1.1` switches HTTP/2 off, for receivers with faults in it.",
	"ROUTE_<NAME>_TLS": "`compatible` for older receivers: TLS 1.0 to 1.2, HTTP/1.1, also RSA key exchange and 3DES, and with CERT_FILE one " +
		"renegotiation. See [callbacks.md](callbacks.md#older-tls).",
	"ROUTE_<NAME>_METHOD": "`POST`, `PUT` or `GET`. A notice's own method takes precedence.",
	"ROUTE_<NAME>_ORDER": "`none`, or `id`: notices of one business id are delivered one after another, in the order of their due times. " +
		"See [order.md](order.md).",
	"ROUTE_<NAME>_ORDER_DEAD": "With ORDER=id: whether a dead letter is skipped by its successors (`skip`), or holds them back until it is " +
		"redriven, cancelled or purged (`block`).",
	"ROUTE_<NAME>_DEAD_RETENTION": "How long dead letters are kept, `1h` to `8760h`. See " +
		"[dead letters that end](operations.md#dead-letters-that-end). Not with ORDER_DEAD=block.",
	"ROUTE_<NAME>_DEAD_KEEP": "How many dead letters are kept, the newest ones; each shard keeps an equal part. Not with ORDER_DEAD=block.",
	"ROUTE_<NAME>_ON_DEAD": "The name of the route that gets a notice of each dead letter of this one. Its target is an address, `list:`, " +
		"`stream:` or `log`, and it has no ON_DEAD itself. See [dead-letter hooks](callbacks.md#dead-letter-hooks).",
	"ROUTE_<NAME>_ON_DEAD_FORMAT": "With ON_DEAD: `json`, one notice of each dead letter, or " +
		"[messages for a team](callbacks.md#messages-for-teams) in the form of `dingtalk`, `feishu`, `wecom`, `slack` or " +
		"`teams`: one for each reason in ten minutes. The same on all routes with that hook.",
	"ROUTE_<NAME>_FORMAT_SECRET": "On the route that ON_DEAD names: the key that signs messages for `dingtalk` and `feishu`, if the " +
		"robot has one.",
	"PUBLIC_URL": "The address at which people open the pages, such as " +
		"`https://notifier.example`. Messages for teams link to it.",
	"ALARM_URL": "The address that gets what Redis cannot carry: data lost, Redis full, Redis unavailable. " +
		"See [alarms without Redis](callbacks.md#alarms-without-redis).",
	"ALARM_FORMAT": "The form of these messages: `json`, `dingtalk`, `feishu`, `wecom`, `slack` or `teams`.",
	"ALARM_SECRET": "The key that signs them, for `dingtalk` and `feishu`.",
	"ROUTE_<NAME>_ON_DEAD_BODY": "With ON_DEAD: `none`, or `include`: the hook's notice contains the body of the dead letter, on " +
		"a route with SEAL its encrypted content.",
	"ROUTE_<NAME>_ON_DOWN": "With ON_DEAD: its route also gets a notice of each receiver that has failed for this time, `1s` to `168h`, and " +
		"one when the receiver answers again.",
	"ROUTE_<NAME>_MAXLEN": "The approximate number of entries to which a stream is trimmed; 0 = never trimmed.",
	"ROUTE_<NAME>_SEAL": "Encrypts bodies, headers, credentials in urls, and answers in Redis, with a key for each `route`, `audience` or " +
		"`id` (the business id). Needs SEAL_KEYS, and cannot be combined with ADOPT. See [security.md](security.md#sealed-notices).",
	"ROUTE_<NAME>_SEAL_URL": "Encrypts also the query and the fragment of each notice's url. Scheme, host, port and path stay " +
		"clear text. Needs SEAL and the target notice. See [security.md](security.md#queries-of-urls).",
	"ROUTE_<NAME>_SEAL_ENTRIES": "Of sealed notices in a list, stream or log: `sealed` entries have the encrypted text, which consumers " +
		"open with `POST /v1/open`; `open` entries have the content in clear text.",
	"ROUTE_<NAME>_ADOPT": "Whether plain `SET key payload EX n` timers under the prefix are adopted as notices. Needs RETENTION of at least " +
		"`1h`, RETAIN of at least `10000`, and the notify flags `KEg$x`.",
}

// Variable is one row of the table.
type Variable struct {
	Name    string // the whole name, with <NAME> for a client's or route's name
	Default string
	Text    string
	Secret  bool // never printed; Name_FILE may name a file that contains it
}

// Variables lists the whole table in the order of the documentation.
func Variables() []Variable {
	list := append(rows("", redisVars{}), rows("", serviceVars{})...)
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

// field is the content of one variable's struct tags.
type field struct {
	name   string
	unset  string // the value if the variable is not set
	shown  string // the default in the documentation
	secret bool
}

// fields iterates over the tags of one of the structs above.
func fields(table any) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		t := reflect.TypeOf(table)
		for i := range t.NumField() {
			tag := t.Field(i).Tag
			name, def, _ := strings.Cut(tag.Get("env"), ", default=")
			shown := def
			if text, ok := tag.Lookup("shown"); ok {
				shown = text
			}

			if !yield(field{name: name, unset: def, shown: shown, secret: tag.Get("secret") == "file"}) {
				return
			}
		}
	}
}

// ClientPrefix returns the prefix of one client's variables.
func ClientPrefix(name string) string {
	return fmt.Sprintf("%sCLIENT_%s_", Prefix, route.EnvName(name))
}

// routePrefix returns the prefix of one route's variables.
func routePrefix(name string) string { return fmt.Sprintf("%sROUTE_%s_", Prefix, route.EnvName(name)) }
