package config

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
)

// secret is 24 bytes in base64; hidden must never be printed.
const (
	hidden = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
	secret = "whsec_" + hidden
	token  = "hunter2-hunter2-hunter2-hunter2-hunter2"
)

// base is a valid environment; each test changes one thing.
func base() map[string]string {
	return map[string]string{
		"NOTIFIER_ROUTES":              "orders",
		"NOTIFIER_ROUTE_ORDERS_PREFIX": "app1:trans",
		"NOTIFIER_ROUTE_ORDERS_TARGET": "https://merchant.example/hook",
	}
}

func with(changes ...string) map[string]string {
	env := base()
	for _, c := range changes {
		name, value, _ := strings.Cut(c, "=")
		name = "NOTIFIER_" + name
		if value == "-" {
			delete(env, name)
		} else {
			env[name] = value
		}
	}
	return env
}

var files = map[string]string{"/run/url": "redis://u:" + hidden + "@r:6379/2\n", "/run/token": token + "\n", "/run/empty": "\n",
	"/run/none.pem": "x", "/run/ca.pem": authority}

func readFile(name string) ([]byte, error) {
	if s, ok := files[name]; ok {
		return []byte(s), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func load(env map[string]string) (*Config, error) {
	var environ []string
	for k, v := range env {
		environ = append(environ, k+"="+v)
	}
	return Load(envconfig.MapLookuper(env), environ, readFile)
}

func TestLoadDefaults(t *testing.T) {
	c, err := load(base())
	if err != nil {
		t.Fatal(err)
	}
	r := c.Routes[0]
	for what, ok := range map[string]bool{
		"redis":     c.Redis.URL == "redis://127.0.0.1:6379/0" && c.Redis.Mode == Standalone && c.Redis.TLS == nil,
		"namespace": c.Namespace == "notifier" && c.Shards == 0,
		"listen":    c.Listen == "127.0.0.1:8080" && len(c.Clients) == 0 && c.MetricsListen == "",
		"limits":    c.Concurrency == 512 && c.Grace == 50*time.Millisecond && c.MaxBody == 256<<10,
		"retention": c.Retention == 24*time.Hour && c.Retain == 100_000,
		"rest": c.ConfigureRedis && c.ShutdownTimeout == 25*time.Second && c.LogCalls == "changes" && c.LogLevel == "info" &&
			c.LogFormat == "",
		"instance":    regexp.MustCompile(`^[A-Za-z0-9_.~-]+-[a-z0-9]{6}$`).MatchString(c.Instance),
		"route":       r.Name == "orders" && r.Prefix == "app1:trans" && r.Target.URL.String() == "https://merchant.example/hook",
		"ladder":      slices.Equal(r.Ladder, notice.DefaultLadder) && r.Ack.Kind == route.Ack2xx && r.Timeout == 10*time.Second,
		"concurrency": r.Concurrency == 64 && r.HostConcurrency == 16 && r.Rate == 0 && r.Jitter == 0,
		"switches":    !r.Adopt && !r.HTTPSOnly && r.Method == "POST" && r.Secrets == nil && r.Headers == nil,
	} {
		if !ok {
			t.Errorf("%s: %+v, %+v", what, c, r)
		}
	}
}

func TestLoadValues(t *testing.T) {
	first := func(c *Config) *route.Route { return c.Routes[0] }
	for _, v := range []struct {
		env []string
		ok  func(c *Config) bool
	}{
		{[]string{"REDIS_URL_FILE=/run/url"}, func(c *Config) bool { return c.Redis.URL == "redis://u:"+hidden+"@r:6379/2" }},
		{[]string{"REDIS_URL=unix:///run/redis.sock?db=1"}, func(c *Config) bool { return c.Redis.Where() == "unix:///run/redis.sock?•••" }},
		{[]string{"KEY=" + base64.StdEncoding.EncodeToString([]byte("32 bytes of a key of this service"[:32]))}, func(c *Config) bool {
			return string(c.Key) == "32 bytes of a key of this servic" && fmt.Sprint(c.Key) == "•••"
		}},
		{[]string{"REDIS_MODE=cluster", "REDIS_URL=redis://a:1?addr=b:2"}, func(c *Config) bool { return c.Redis.Mode == Cluster }},
		{[]string{"REDIS_MODE=sentinel", "REDIS_URL=redis://a:1/3?master_name=m"}, func(c *Config) bool { return c.Redis.Mode == Sentinel }},
		{[]string{"LISTEN=:8080", "CLIENTS=Shop", "CLIENT_SHOP_TOKEN_FILE=/run/token", "CLIENT_SHOP_PREFIX=app1", "CLIENT_SHOP_ROLE=read"},
			func(c *Config) bool {
				return len(c.Clients) == 1 && c.Clients[0].Name == "shop" && string(c.Clients[0].Token) == token && c.Clients[0].Prefix == "app1" &&
					c.Clients[0].Role == auth.Read
			}},
		{[]string{"UI_BODIES=masked"}, func(c *Config) bool { return c.UIMask.All() }},
		{[]string{"TRUSTED_PROXIES=10.1.2.3/8, 192.0.2.1,2001:db8::/32"}, func(c *Config) bool {
			return fmt.Sprint(c.TrustedProxies) == "[10.0.0.0/8 192.0.2.1/32 2001:db8::/32]"
		}},
		{[]string{"UI_MASK=$.card.number, $..pan"}, func(c *Config) bool { return !c.UIMask.All() && !c.UIMask.None() }},
		{[]string{"UI=true"}, func(c *Config) bool { return c.UI && c.UIMask.None() }},
		{[]string{"METRICS_LISTEN=:9464"}, func(c *Config) bool { return c.MetricsListen == ":9464" && len(c.Clients) == 0 }},
		{[]string{"LISTEN=127.0.0.1:0", "METRICS_LISTEN=127.0.0.1:0"}, func(c *Config) bool { return true }},
		{[]string{"PPROF_LISTEN=127.0.0.1:6060"}, func(c *Config) bool { return c.PprofListen == "127.0.0.1:6060" }},
		{[]string{"PPROF_LISTEN=localhost:0"}, func(c *Config) bool { return c.PprofListen == "localhost:0" }},
		{[]string{"SHUTDOWN_DELAY=5s"}, func(c *Config) bool { return c.ShutdownDelay == 5*time.Second }},
		{nil, func(c *Config) bool { return c.ShutdownDelay == 0 && c.PprofListen == "" }},
		{[]string{"LOG_ATTEMPTS=1/100"}, func(c *Config) bool { return c.LogAttempts != notice.LogAttempts{} }},
		{nil, func(c *Config) bool { return c.LogAttempts == notice.LogAttempts{} }},
		{[]string{"LISTEN=[::1]:0"}, func(c *Config) bool { return true }},
		{[]string{"LISTEN=localhost:1"}, func(c *Config) bool { return true }},
		{[]string{"MAX_BODY=1MiB"}, func(c *Config) bool { return c.MaxBody == 1<<20 }},
		{[]string{"MAX_BODY=65536"}, func(c *Config) bool { return c.MaxBody == 65536 }},
		{[]string{"RETENTION=0", "RETAIN=0"}, func(c *Config) bool { return c.Retention == 0 && c.Retain == 0 }},
		{nil, func(c *Config) bool { return c.RepeatWindow == time.Hour && c.RepeatBytes == 256<<20 }},
		{[]string{"REPEAT_WINDOW=0", "REPEAT_BYTES=0"}, func(c *Config) bool { return c.RepeatWindow == 0 && c.RepeatBytes == 0 }},
		{[]string{"REPEAT_WINDOW=90m", "REPEAT_BYTES=4GiB"}, func(c *Config) bool {
			return c.RepeatWindow == 90*time.Minute && c.RepeatBytes == 4<<30
		}},
		{[]string{"GRACE=0.1"}, func(c *Config) bool { return c.Grace == 100*time.Millisecond }},
		{[]string{"GRACE="}, func(c *Config) bool { return c.Grace == 50*time.Millisecond }}, // empty = not set
		{[]string{"CONFIGURE_REDIS=no"}, func(c *Config) bool { return !c.ConfigureRedis }},
		{[]string{"URL=http://x", "TOKEN=t", "TOKEN_FILE=/x", "TEST_REDIS_URL=redis://x"}, func(c *Config) bool { return true }},
		{[]string{"SERVICE_HOST=10.0.0.1", "PORT=tcp://10.0.0.1:80", "PORT_80_TCP_ADDR=10.0.0.1", "WEB_SERVICE_PORT_HTTP=80"},
			func(c *Config) bool { return true }},
		{nil, func(c *Config) bool { return c.Takeover == 3*time.Second && c.Limits == route.LimitsFleet }},
		{[]string{"DURABILITY=replicas:2", "DURABILITY_TIMEOUT=300ms", "DURABILITY_SETTLE=fsync"}, func(c *Config) bool {
			return c.Durability == notice.Durability{Replicas: 2} && c.DurabilityTimeout == 300*time.Millisecond &&
				c.DurabilitySettle == notice.Durability{Fsync: true}
		}},
		{nil, func(c *Config) bool {
			return !c.Durability.Waits() && !c.DurabilitySettle.Waits() && c.DurabilityTimeout == time.Second
		}},
		{nil, func(c *Config) bool {
			return len(c.History.URL) == 0 && c.History.Bodies == "keep" && c.History.Retention == 0 && c.History.Backlog == 1_000_000
		}},
		{[]string{"HISTORY_URL=postgres://me:pw@db/x", "HISTORY_BODIES=hash", "HISTORY_RETENTION=720h", "HISTORY_BACKLOG=5000"},
			func(c *Config) bool {
				return string(c.History.URL) == "postgres://me:pw@db/x" && c.History.Bodies == "hash" && c.History.Retention == 720*time.Hour &&
					c.History.Backlog == 5000
			}},
		{[]string{"TAKEOVER=lease", "LIMITS=instance"}, func(c *Config) bool { return c.Takeover == 0 && c.Limits == route.LimitsInstance }},
		// 8 instances may have 16 each
		{[]string{"ROUTE_ORDERS_HOST_CONCURRENCY=128"}, func(c *Config) bool { return first(c).HostConcurrency == 128 }},
		{[]string{"TAKEOVER=1s"}, func(c *Config) bool { return c.Takeover == time.Second }},
		{[]string{"ROUTE_ORDERS_RETRY=wechat"}, func(c *Config) bool {
			r := first(c)
			return slices.Equal(r.Ladder, notice.WeChatLadder) && r.Ack.String() == "status:200,204" && r.Timeout == 5*time.Second
		}},
		{[]string{"ROUTE_ORDERS_RETRY=alipay", "ROUTE_ORDERS_TIMEOUT=3s", "ROUTE_ORDERS_ACK=2xx"}, func(c *Config) bool {
			r := first(c)
			return slices.Equal(r.Ladder, notice.AlipayLadder) && r.Ack.Kind == route.Ack2xx && r.Timeout == 3*time.Second
		}},
		{[]string{"ROUTE_ORDERS_RETRY=none"}, func(c *Config) bool { return first(c).Ladder != nil && len(first(c).Ladder) == 0 }},
		{[]string{"ROUTE_ORDERS_RETRY=1s, 2s"}, func(c *Config) bool { return len(first(c).Ladder) == 2 }},
		{[]string{"ROUTE_ORDERS_CONCURRENCY=4"}, func(c *Config) bool { return first(c).Concurrency == 4 && first(c).HostConcurrency == 4 }},
		{[]string{"ROUTE_ORDERS_RATE=120/m"}, func(c *Config) bool { return first(c).Rate == 2 }},
		{[]string{"ROUTE_ORDERS_SECRET=" + secret + ", " + secret}, func(c *Config) bool {
			return len(first(c).Secrets) == 2 && string(first(c).Secrets[0].Bytes()) == "secretsecretsecretsecret"
		}},
		{[]string{"ROUTE_ORDERS_HEADERS=authorization=Bearer x=y,x-env=prod"}, func(c *Config) bool {
			return slices.Equal(first(c).Headers, []notice.Header{{Name: "authorization", Value: "Bearer x=y"}, {Name: "x-env", Value: "prod"}})
		}},
		{[]string{"ROUTE_ORDERS_TARGET=notice", "ROUTE_ORDERS_ALLOW=10.0.0.0/8, fd00::1,Hook.internal.,*.Corp.example"}, func(c *Config) bool {
			return first(c).Allow.String() == "*.corp.example,10.0.0.0/8,fd00::1/128,hook.internal"
		}},
		{[]string{"ROUTE_ORDERS_PROXY=socks5h://u:p@proxy:1080"}, func(c *Config) bool { return first(c).Proxy.URL().Scheme == "socks5h" }},
		{[]string{"ROUTE_ORDERS_TARGET=list:q", "ROUTE_ORDERS_HTTPS_ONLY=0", "ROUTE_ORDERS_METHOD=post"},
			func(c *Config) bool { return !first(c).HTTPSOnly }},
		{nil, func(c *Config) bool { return first(c).Signs() == sign.PerRoute }},
		{[]string{"ROUTE_ORDERS_TARGET=notice"}, func(c *Config) bool { return first(c).Signs() == sign.PerHost }},
		{[]string{"ROUTE_ORDERS_SIGN_PER=host, route", "ROUTE_ORDERS_SECRET=" + secret}, func(c *Config) bool {
			return first(c).Signs() == sign.PerHostRoute
		}},
		{[]string{"ROUTE_ORDERS_TARGET=notice", "ROUTE_ORDERS_HEADERS=a=b",
			"ROUTE_ORDERS_HEADERS_TO=Shop.example, HTTP://*.shop.example:8080,[::1]:*"}, func(c *Config) bool {
			to := first(c).HeadersTo
			return to.String() == "[::1]:*,http://*.shop.example:8080,shop.example" &&
				to.Match(route.Origin{Scheme: "https", Host: "shop.example", Port: "443"})
		}},
		{[]string{"ROUTE_ORDERS_TARGET=https://merchant.example/a|b?n=张 x"}, func(c *Config) bool {
			return first(c).Target.URL.String() == "https://merchant.example/a%7Cb?n=%E5%BC%A0%20x"
		}},
		{[]string{"ROUTE_ORDERS_TARGET=stream:events", "ROUTE_ORDERS_MAXLEN=1000"}, func(c *Config) bool {
			return first(c).Target == route.Target{Kind: route.KindStream, Key: "events", MaxLen: 1000}
		}},
		{[]string{"ROUTES=my-route", "ROUTE_MY_ROUTE_PREFIX=a", "ROUTE_MY_ROUTE_TARGET=log", "ROUTE_MY_ROUTE_ADOPT=true",
			"ROUTE_ORDERS_PREFIX=-", "ROUTE_ORDERS_TARGET=-"}, func(c *Config) bool { return first(c).Name == "my-route" && first(c).Adopt }},
	} {
		c, err := load(with(v.env...))
		if err != nil || !v.ok(c) {
			t.Errorf("%q: %v\n%+v", v.env, err, c)
		}
	}
}

func TestHostConcurrencyOfOneInstanceIsAtMostConcurrency(t *testing.T) {
	const want = "is more than NOTIFIER_ROUTE_ORDERS_CONCURRENCY (64)"
	if _, err := load(with("LIMITS=instance", "ROUTE_ORDERS_HOST_CONCURRENCY=65")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("want %q, have %v", want, err)
	}
	if _, err := load(with("LIMITS=instance", "ROUTE_ORDERS_HOST_CONCURRENCY=64")); err != nil {
		t.Error(err)
	}
}

func TestLoadRejectsWrongValue(t *testing.T) {
	for _, v := range []struct{ env, want string }{
		{"ROUTES=-", "NOTIFIER_ROUTES: is missing"},
		{"ROUTES=or ders", `"or ders" is not a valid name`},
		{"ROUTES=orders,ORDERS", "list each name once"},
		{"ROUTE_ORDERS_PREFIX=-", "NOTIFIER_ROUTE_ORDERS_PREFIX: is missing"},
		{"ROUTE_ORDERS_PREFIX=a:b:c:d", "want app, app:module or app:module:type"},
		{"ROUTE_ORDERS_PREFIX=notifier:x", "this service's namespace"},
		{"ROUTE_ORDERS_TARGET=-", "NOTIFIER_ROUTE_ORDERS_TARGET: is missing"},
		{"ROUTE_ORDERS_TARGET=ftp://x", "want http(s)://…, notice, list:<key>"},
		{"ROUTE_ORDERS_TARGET=list:notifier:meta", "belong to this service"},
		{"ROUTE_ORDERS_TARGET=list:app1:trans:notice:1", "could be a notice's key"},
		{"ROUTE_ORDERS_RETRY=15s,soon", `"soon" is not a duration`},
		{"ROUTE_ORDERS_RETRY=wechatt", "standard, wechat, alipay or none"},
		{"ROUTE_ORDERS_JITTER=0.6", "0 to 0.5"},
		{"ROUTE_ORDERS_JITTER=NaN", "0 to 0.5"},
		{"ROUTE_ORDERS_TIMEOUT=0", "from 1ms to 10m"},
		{"ROUTE_ORDERS_ACK=3xx", "want 2xx, status:200,204"},
		{"ROUTE_ORDERS_CONCURRENCY=0", "from 1 to 100000"},
		{"ROUTE_ORDERS_RATE=fast", "100/s"},
		{"ROUTE_ORDERS_RATE=0/s", "100/s"},
		{"ROUTE_ORDERS_SECRET=" + hidden, "does not begin with whsec_"},
		{"ROUTE_ORDERS_SECRET=" + secret + ",whsec_c2hvcnQ=", "secret 2 has 5 bytes"},
		{"ROUTE_ORDERS_SECRET=whsec_*" + hidden, "not base64"},
		{"ROUTE_ORDERS_HEADERS=" + hidden, "entry 1 has no '='"},
		{"ROUTE_ORDERS_HEADERS=webhook-id=" + hidden, "reserved"},
		{"ROUTE_ORDERS_HEADERS=a=" + hidden + "\n", "NOTIFIER"}, // trimmed: right; see below
		{"ROUTE_ORDERS_TARGET=https://merchant.example/%zz" + hidden, "NOTIFIER_ROUTE_ORDERS_TARGET"},
		{"ROUTE_ORDERS_TARGET=https://merchant.example:70000/" + hidden, "url has the port 70000; want a number from 1 to 65535"},
		{"ROUTE_ORDERS_TARGET=https://merchant.example/100%/" + hidden, "write %25 for the character %"},
		{"ROUTE_ORDERS_TARGET=htps://merchant.example/" + hidden, `="htps://merchant.example": `},
		{"ROUTE_ORDERS_ALLOW=10.0.0.0/8", "for the target notice"},
		{"ROUTE_ORDERS_ALLOW=10.0.0.0/33", "a network such as"},
		{"ROUTE_ORDERS_ALLOW=*", "*.domain"},
		{"ROUTE_ORDERS_SIGN_PER=merchant", "want route, host, audience or host,route"},
		{"ROUTE_ORDERS_SIGN_PER=host", "needs NOTIFIER_ROUTE_ORDERS_SECRET"},
		{"ROUTE_ORDERS_HEADERS_TO=shop.example", "is for the target notice"},
		{"ROUTE_ORDERS_HTTPS_ONLY=maybe", "true or false"},
		{"ROUTE_ORDERS_METHOD=PATCH", "POST, PUT or GET"},
		{"ROUTE_ORDERS_HTTP=2", "want 1.1"},
		{"ROUTE_ORDERS_TLS=1.0", "want compatible"},
		{"ROUTE_ORDERS_PROXY=" + hidden, "http://host:port"},
		{"ROUTE_ORDERS_CA_FILE=/run/no.pem", "file does not exist"},
		{"ROUTE_ORDERS_CA_FILE=/run/none.pem", "certificates in PEM"},
		{"ROUTE_ORDERS_CERT_FILE=/run/none.pem", "NOTIFIER_ROUTE_ORDERS_KEY_FILE: is missing"},
		{"ROUTE_ORDERS_KEY_FILE=/run/none.pem", "NOTIFIER_ROUTE_ORDERS_CERT_FILE: is missing"},
		{"ROUTE_ORDERS_MAXLEN=5", "is for stream targets"},
		{"ROUTE_ORDERS_ADOPT=x", "true or false"},
		{"ROUTE_ORDERS_ORDER=key", "want none or id"},
		{"ROUTE_ORDERS_ORDER_DEAD=stop", "want skip or block"},
		{"ROUTE_ORDERS_ORDER_DEAD=block", "needs NOTIFIER_ROUTE_ORDERS_ORDER=id"},
		{"ROUTE_ORDERS_ON_DEAD=alarms", `ON_DEAD="alarms": is not in NOTIFIER_ROUTES; want the name of another route`},
		{"ROUTE_ORDERS_ON_DEAD=Orders", "is this route, and a dead letter would cause the next one; want"},
		{"ROUTE_ORDERS_ON_DEAD_BODY=include", "needs NOTIFIER_ROUTE_ORDERS_ON_DEAD"},
		{"ROUTE_ORDERS_ON_DOWN=10m", "needs NOTIFIER_ROUTE_ORDERS_ON_DEAD"},
		{"ROUTE_ORDERS_ON_DEAD_BODY=yes", "want none or include"},
		{"ROUTE_ORDERS_PAUSE_AFTER=10s", "1m"},
		{"ROUTE_ORDERS_ON_STATUS=204:dead", "204 is a success, which ACK accepts or not; want statuses from 300 to 599"},
		{"ROUTE_ORDERS_ON_STATUS=404:dead,404:dead", "is given twice"},
		{"ROUTE_ORDERS_ACK=report", "is for the targets list: and stream:"},
		{"REDIS_URL=http://" + hidden, "rediss://"},
		{"REDIS_URL=redis://u:" + hidden + "@h:x/0", "not shown"},
		{"REDIS_URL=redis://u:" + hidden + "/#@h:1/0", "%40 %23 %2F %25"},
		{"REDIS_URL_FILE=/run/missing", "file does not exist"},
		{"REDIS_URL_FILE=/run/empty", "is empty; want a file that contains the secret"},
		{"KEY=" + hidden, "NOTIFIER_KEY: want 32 random bytes"},
		{"KEY=MTIzNDU2Nzg5MA==", "the value has 10 bytes"},
		{"KEY_FILE=/run/missing", "file does not exist"},
		{"REDIS_MODE=single", "standalone, sentinel or cluster"},
		{"NAMESPACE=a:b", "1 to 64"},
		{"INSTANCE=a b", "1 to 64"},
		{"SHARDS=0", "1 to 1024"},
		{"SHARDS=1025", "1 to 1024"},
		{"GRACE=0", "1ms to 10s"},
		{"GRACE=11s", "1ms to 10s"},
		{"MAX_BODY=1GiB", "a size from"},
		{"MAX_BODY=17MiB", "to 16MiB"},
		{"MAX_BODY=-1", "a size from"},
		{"CONCURRENCY=many", "whole number"},
		{"RETENTION=-1s", "a duration from"},
		{"RETAIN=-1", "whole number"},
		{"REPEAT_WINDOW=-1s", "a duration"},
		{"REPEAT_BYTES=65GiB", "64GiB"},
		{"CONFIGURE_REDIS=perhaps", "true or false"},
		{"SHUTDOWN_TIMEOUT=1h", "10m"},
		{"SHUTDOWN_DELAY=11m", "10m"},
		{"SHUTDOWN_DELAY=-1s", "a duration"},
		{"PPROF_LISTEN=:6060", "a loopback address with a port"},
		{"PPROF_LISTEN=10.0.0.1:6060", "a loopback address with a port"},
		{"PPROF_LISTEN=127.0.0.1", "a loopback address with a port"},
		{"HISTORY_URL=mysql://me:hunter22@db/x",
			"postgres://user:password@host:5432/database or sqlite:///path/to/file (the value is not shown)"},
		{"HISTORY_URL=sqlite://history.db", "three slashes"},
		{"HISTORY_URL=sqlite:///var/lib/", "an absolute path"},
		{"HISTORY_BODIES=some", "keep"},
		{"HISTORY_RETENTION=1h", "24h"},
		{"HISTORY_BACKLOG=10", "1000"},
		{"TAKEOVER=0", "from 1s to 1h, such as 3s, or lease"},
		{"TAKEOVER=2h", "from 1s to 1h, such as 3s, or lease"},
		{"TAKEOVER=never", "or lease"},
		{"REDIS_CA_FILE=/run/ca.pem", "begin NOTIFIER_REDIS_URL with rediss://"},
		{"SENTINEL_PASSWORD=" + hidden, "needs NOTIFIER_REDIS_MODE=sentinel"},
		{"DURABILITY=disk", "memory, fsync or replicas:N"},
		{"DURABILITY_SETTLE=replicas:0", "with N from 1 to 16"},
		{"DURABILITY_TIMEOUT=1ms", "from 10ms to 30s"},
		{"LIMITS=all", "fleet or instance"},
		{"API_MEMORY=much", "a size from 1048576 to 2047MiB"},
		{"API_MEMORY=2MiB", "NOTIFIER_API_MEMORY=\"2MiB\": want at least 2359296 for NOTIFIER_MAX_BODY=262144"},
		{"LOG_LEVEL=loud", "debug, info, warn or error"},
		{"LOG_FORMAT=xml", "json or console"},
		{"LOG_CALLS=some", "off, changes or all"},
		{"LOG_ATTEMPTS=none", "want all, failed, or 1/n"},
		{"LISTEN=:8080", "clients with tokens"},
		{"LISTEN=0.0.0.0:8080", "clients with tokens"},
		{"LISTEN=8080", "host:port"},
		{"LISTEN=127.0.0.1:http", "host:port"},
		{"UI_BODIES=hidden", "NOTIFIER_UI_BODIES=\"hidden\": want shown or masked"},
		{"TRUSTED_PROXIES=10.0.0.0/8,proxy.example", "NOTIFIER_TRUSTED_PROXIES=\"proxy.example\": want networks or addresses"},
		{"UI_MASK=card,a[x]", "NOTIFIER_UI_MASK=\"card,a[x]\": \"a[x]\": want [*], [0] or ['name'] in brackets"},
		{"METRICS_LISTEN=9090", "host:port"},
		{"METRICS_LISTEN=:99999", "host:port"},
		{"METRICS_LISTEN=127.0.0.1:8080", "another address than NOTIFIER_LISTEN"},
		{"FOO=1", "NOTIFIER_FOO: is not known; see docs/configuration.md"},
		{"KEYS=1", "did you mean NOTIFIER_KEY?"},
		{"GRACEFUL=1", "did you mean NOTIFIER_GRACE?"},
		{"REDIS_ULR=x", "did you mean NOTIFIER_REDIS_URL?"},
		{"ROUTE_ORDER_PREFIX=x", "did you mean NOTIFIER_ROUTE_ORDERS_PREFIX?"},
		{"ROUTE_REFUNDS_PREFIX=x", "missing from NOTIFIER_ROUTES?"},
		{"CLIENT_SHOP_TOKEN=" + hidden, "missing from NOTIFIER_CLIENTS?"},
		{"SOMETHING_ELSE=" + hidden, "is not known"},
	} {
		c, err := load(with(v.env))
		if strings.HasSuffix(v.env, "\n") {
			if err != nil {
				t.Errorf("%q: %v", v.env, err)
			}
			continue
		}
		var errs Errors
		if !errors.As(err, &errs) || len(errs) != 1 || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%q: want one problem with %q, have\n%v\n%+v", v.env, v.want, err, c)
		}
		if err != nil && strings.Contains(err.Error(), hidden) {
			t.Errorf("%.30q: the secret is in the error: %v", v.env, err)
		}
	}
}

func TestLoadRejectsWrongCombination(t *testing.T) {
	shop := []string{"CLIENTS=shop", "CLIENT_SHOP_TOKEN=" + token, "CLIENT_SHOP_ROLE=produce"}
	for _, v := range []struct {
		env  []string
		want string
	}{
		{append(shop, "CLIENT_SHOP_TOKEN_FILE=/run/token"), "not both"},
		{append(shop, "CLIENT_SHOP_TOKEN=short"), "32 to 512"},
		{append(shop, "CLIENT_SHOP_TOKEN="), "NOTIFIER_CLIENT_SHOP_TOKEN: is missing; want a token, or NOTIFIER_CLIENT_SHOP_TOKEN_FILE"},
		{append(shop, "CLIENT_SHOP_TOKEN="), "openssl rand -base64 32 creates one"},
		{append(shop, "CLIENT_SHOP_PREFIX=a:"), "segment module is empty"},
		{append(shop, "CLIENT_SHOP_READ_ONLY=true"), "NOTIFIER_CLIENT_SHOP_READ_ONLY=\"true\": was replaced by roles; use ROLE=read"},
		{append(shop, "CLIENT_SHOP_RATE=fast"), "NOTIFIER_CLIENT_SHOP_RATE=\"fast\": want a rate such as 100/s"},
		{append(shop, "CLIENT_SHOP_ROLE="), "NOTIFIER_CLIENT_SHOP_ROLE: is missing; want read ("},
		{append(shop, "CLIENT_SHOP_ROLE=root"),
			"NOTIFIER_CLIENT_SHOP_ROLE=\"root\": want read (read everything under its prefix), produce ("},
		{append(shop, "CLIENT_SHOP_ROLE=public"), "operate (also redrive, purge, replay, restore, pause, make links) or admin ("},
		{append(shop, "CLIENTS=shop,till", "CLIENT_TILL_ROLE=read", "CLIENT_TILL_TOKEN="+token), "is the token of client shop too"},
		{[]string{"ROUTES=orders,b", "ROUTE_B_PREFIX=app1:trans", "ROUTE_B_TARGET=log"}, "is the prefix of route orders too"},
		{[]string{"ROUTES=orders,a,a_host", "ROUTE_A_PREFIX=a", "ROUTE_A_TARGET=notice", "ROUTE_A_HOST_PREFIX=b", "ROUTE_A_HOST_TARGET=notice"},
			"would share the variable NOTIFIER_ROUTE_A_HOST_CONCURRENCY"},
		{[]string{"ROUTE_ORDERS_TARGET=list:q", "ROUTE_ORDERS_SECRET=" + secret}, "is for HTTP targets"},
		{[]string{"ROUTE_ORDERS_TARGET=http://h/" + hidden, "ROUTE_ORDERS_HTTPS_ONLY=true"}, "is not https"},
		{[]string{"ROUTE_ORDERS_TARGET=notice", "ROUTE_ORDERS_HEADERS=authorization=" + hidden}, "NOTIFIER_ROUTE_ORDERS_HEADERS_TO: is missing"},
		{[]string{"ROUTE_ORDERS_TARGET=notice", "ROUTE_ORDERS_HEADERS_TO=shop.example"}, "needs NOTIFIER_ROUTE_ORDERS_HEADERS"},
		{[]string{"ROUTE_ORDERS_TARGET=notice", "ROUTE_ORDERS_HEADERS=a=b", "ROUTE_ORDERS_HEADERS_TO=shop.example/hook"},
			"\"shop.example/hook\" is not [http://|https://]host[:port|:*]"},
		{[]string{"ROUTE_ORDERS_TARGET=list:q", "ROUTE_ORDERS_SIGN_PER=host"}, "is for HTTP targets"},
		{[]string{"ROUTE_ORDERS_TARGET=stream:q", "ROUTE_ORDERS_RATE=100/s"},
			"NOTIFIER_ROUTE_ORDERS_RATE: is for HTTP targets; the target of this route is stream"},
		{[]string{"ROUTE_ORDERS_TARGET=log", "ROUTE_ORDERS_RATE=100/s"}, "NOTIFIER_ROUTE_ORDERS_RATE: is for HTTP targets"},
		{[]string{"ROUTE_ORDERS_SECRET=" + secret, "ROUTE_ORDERS_SIGN_PER=audience", "ROUTE_ORDERS_ADOPT=true"},
			"a plain timer names no audience"},
		{[]string{"ROUTE_ORDERS_CERT_FILE=/run/none.pem", "ROUTE_ORDERS_KEY_FILE=/run/none.pem"}, "want a certificate in PEM"},
		{[]string{"ROUTE_ORDERS_TARGET=list:q", "ROUTE_ORDERS_ACK=2xx"}, "Want report"},
		{[]string{"ROUTE_ORDERS_TARGET=log", "ROUTE_ORDERS_ACK=report"}, "the target is log"},
		{[]string{"ROUTE_ORDERS_TARGET=notice", "ROUTE_ORDERS_ADOPT=true"}, "a plain timer has no url"},
		{[]string{"ROUTE_ORDERS_ADOPT=true", "RETENTION=1m"}, "at least 1h, because route orders adopts"},
		{[]string{"ROUTE_ORDERS_ADOPT=true", "RETAIN=10"}, "at least 10000"},
		{[]string{"REDIS_MODE=cluster", "REDIS_URL=redis://h:1/2"}, "the only one of a cluster"},
		{[]string{"REDIS_MODE=sentinel", "REDIS_URL=redis://h:1/2"}, "master_name"},
	} {
		_, err := load(with(v.env...))
		var errs Errors
		if !errors.As(err, &errs) || len(errs) != 1 || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%q: want one problem with %q, have\n%v", v.env, v.want, err)
		}
		if err != nil && (strings.Contains(err.Error(), hidden) || strings.Contains(err.Error(), token)) {
			t.Errorf("the secret is in the error: %v", err)
		}
	}
}

// Common first mistakes. Earlier errors suggested NOTIFIER_REDIS_MODE for _ADDR and _RATE for _URL,
// and a range for 1 week, which did not help.
func TestFirstMistakesGetTheRightVariable(t *testing.T) {
	for _, v := range []struct{ env, want string }{
		{"REDIS_ADDR=localhost:6379", "NOTIFIER_REDIS_ADDR: is not known; want NOTIFIER_REDIS_URL, which has host"},
		{"REDIS_HOST=localhost", "want NOTIFIER_REDIS_URL"},
		{"REDIS_PORT=6379", "want NOTIFIER_REDIS_URL"},
		{"REDIS_PASSWORD=" + hidden, "want NOTIFIER_REDIS_URL"},
		{"REDIS_PASSWORD_FILE=/run/x", "want NOTIFIER_REDIS_URL_FILE"},
		{"PORT=8080", "want NOTIFIER_LISTEN"},
		{"ROUTE_ORDERS_URL=https://shop.example", "want NOTIFIER_ROUTE_ORDERS_TARGET"},
		{"ROUTE_ORDERS_RETRIES=15s", "want NOTIFIER_ROUTE_ORDERS_RETRY"},
		{"RETENTION=7 days", `NOTIFIER_RETENTION="7 days": want 168h: the units are w, d, h, m, s and ms`},
		{"RETENTION=1 week", `want 168h:`},
		{"GRACE=7d", `want a duration from 1ms to 10s`},
		{"ROUTE_ORDERS_TIMEOUT=15sec", `want 15s:`},
		{"ROUTE_ORDERS_TIMEOUT=5000", `from 1ms to 10m, such as 15s, 3m, 1h30m; a number without a unit is seconds`},
		{"ROUTE_ORDERS_RETRY=15s,3m,1day", `NOTIFIER_ROUTE_ORDERS_RETRY="15s,3m,1day": step 3: "1day" is not a duration; want 24h:`},
		{"ROUTE_ORDERS_RETRY=15s,1h*", `repeats its last step, so it needs NOTIFIER_ROUTE_ORDERS_EXPIRES, such as 7d`},
		{"ROUTE_ORDERS_RETRY=15s,10s*", `step 2 is 10s*; a step that repeats is at least 1m`},
		{"ROUTE_ORDERS_EXPIRES=never", `want a duration from 1s to 87600h, such as 15s, 3m, 1h30m`},
		{"REDIS_URL=localhost:6379", `NOTIFIER_REDIS_URL="localhost:6379": want redis://localhost:6379/0`},
		{"REDIS_URL=[::1]:6379", `want redis://[::1]:6379/0`},
		{"REDIS_URL=" + hidden, "(the value is not shown)"},
		{"REDIS_URL=:" + hidden + "@localhost:6379", "(the value is not shown)"},
		{"REDIS_URL=localhost:6379/" + hidden, "(the value is not shown)"},
		{"REDIS_URL=u:" + hidden, "(the value is not shown)"},
		{"ROUTE_ORDERS_SECRET=" + hidden[:8], "echo whsec_$(openssl rand -base64 32) makes one"},
		{"ROUTE_ORDERS_SECRET=whsec_c2hvcnQ=", "has 5 bytes; want 24 to 64; echo whsec_$(openssl rand -base64 32) makes one"},
	} {
		_, err := load(with(v.env))
		var errs Errors
		if !errors.As(err, &errs) || len(errs) != 1 || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%q: want one problem with %q, have\n%v", v.env, v.want, err)
		}
		if err != nil && strings.Contains(err.Error(), hidden) {
			t.Errorf("%.30q: the secret is in the error: %v", v.env, err)
		}
	}
	for _, v := range []struct{ mode, url, want string }{
		{"cluster", "a:1,b:2", `"a:1,b:2": want redis://a:1?addr=b:2`},
		{"sentinel", "a:1, b:2", `want redis://a:1/0?master_name=main&addr=b:2`},
		{"standalone", "a:1,b:2", "not shown"},
	} {
		if _, err := load(with("REDIS_MODE="+v.mode, "REDIS_URL="+v.url)); err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s %s: want %q, have\n%v", v.mode, v.url, v.want, err)
		}
	}
}

func TestSecretCommandsInErrorsWork(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Fatal("openssl is not installed: apt-get install openssl")
	}
	sh := func(line string) string {
		out, err := exec.Command("sh", "-c", line).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if _, err := load(with("CLIENTS=shop", "CLIENT_SHOP_ROLE=read", "CLIENT_SHOP_TOKEN="+sh("openssl rand -base64 32"),
		"ROUTE_ORDERS_SECRET="+sh("echo whsec_$(openssl rand -base64 32)"))); err != nil {
		t.Error(err)
	}
}

func TestLoadReportsAllProblems(t *testing.T) {
	_, err := load(with("GRACE=x", "SHARDS=x", "ROUTE_ORDERS_TARGET=x", "ROUTES=orders,b", "TYPO=x", "LISTEN=:1"))
	want := []string{"NOTIFIER_GRACE=", "NOTIFIER_LISTEN=", "NOTIFIER_ROUTE_B_PREFIX:", "NOTIFIER_ROUTE_B_TARGET:",
		"NOTIFIER_ROUTE_ORDERS_TARGET=",
		"NOTIFIER_SHARDS=", "NOTIFIER_TYPO:"}
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%v", len(lines), len(want), err)
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w) {
			t.Errorf("line %d is %q, want %s…", i, lines[i], w)
		}
	}
}

func TestConfigPrintsNoSecret(t *testing.T) {
	c, err := load(with("REDIS_URL=redis://u:"+hidden+"@h:1/0", "CLIENTS=shop", "CLIENT_SHOP_ROLE=read", "CLIENT_SHOP_TOKEN="+token,
		"ROUTE_ORDERS_SECRET="+secret,
		"ROUTE_ORDERS_TARGET=https://u:"+hidden+"@h/p?key="+hidden))
	if err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal([]any{c.Redis, c.Clients})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprintf("%v %+v %#v", *c, *c, *c), string(j), strings.Join(Describe(c), "\n")} {
		for _, bad := range []string{hidden, token, "secretsecret"} {
			if strings.Contains(s, bad) {
				t.Errorf("%s is in %s", bad, s)
			}
		}
	}
}

func TestDescribeSummarizesRoutes(t *testing.T) {
	c, err := load(with("ROUTES=orders,q", "ROUTE_Q_PREFIX=app2", "ROUTE_Q_TARGET=list:todo", "ROUTE_Q_RETRY=none", "ROUTE_ORDERS_JITTER=0.1",
		"CLIENTS=shop,desk", "CLIENT_SHOP_TOKEN="+token, "CLIENT_DESK_TOKEN=desk"+token, "CLIENT_DESK_ROLE=read", "CLIENT_DESK_PREFIX=app1",
		"CLIENT_SHOP_ROLE=operate"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"redis redis://127.0.0.1:6379/0 (standalone), namespace notifier, the number of shards stored in Redis",
		"durability: a call succeeds once its writes are in Redis's memory: a failover loses writes that the promoted " +
			"replica had not received, and a crash of the machine loses writes that were not on disk",
		"route orders: app1:trans to https://merchant.example, 9 retries over 25h13m15s (15s,3m,10m,30m,30m,1h,2h,6h,15h ± 10 %), " +
			"acknowledged by 2xx within 10s, 64 at a time here and 16 to a host from all instances, unsigned",
		"route q: app2 to list:todo, no retry, within 10s, 64 at a time",
		"client shop: role operate, all keys",
		"client desk: role read, keys under app1",
	}
	if got := Describe(c); !slices.Equal(got, want) {
		t.Errorf("have\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPromiseIsOneSentence(t *testing.T) {
	for set, want := range map[string]string{
		"DURABILITY=memory": "a failover loses writes that the promoted replica had not received",
		"DURABILITY=fsync":  "a crash of the machine loses none of them, but a failover",
		"DURABILITY=replicas:1": "once 1 replica has received its writes: a failover loses none of them unless that replica is " +
			"partitioned together with the master",
		"DURABILITY=replicas:2":        "while at most 1 of them is partitioned",
		"DURABILITY=replicas:3":        "while at most 2 of them are partitioned",
		"DURABILITY_SETTLE=replicas:1": "not delivered again after a failover",
		"DURABILITY_SETTLE=fsync":      "not delivered again after a crash of Redis's machine",
	} {
		c, err := load(with(set))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Promise(); !strings.Contains(got, want) || strings.Contains(got, ". ") || strings.Contains(got, "\n") {
			t.Errorf("%s: %s", set, got)
		}
	}
}

func TestVariablesHaveDescriptions(t *testing.T) {
	left := maps.Clone(texts)
	for _, v := range Variables() {
		if v.Text == "" {
			t.Errorf("%s has no text", v.Name)
		}
		delete(left, strings.TrimPrefix(v.Name, Prefix))
	}
	if len(left) > 0 {
		t.Errorf("texts without a variable: %v", left)
	}
}
