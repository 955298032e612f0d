package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// Defaults and bounds of a route's and a client's variables.
const (
	defaultTimeout = 10 * time.Second
	defaultPerHost = 16
	maxTimeout     = 10 * time.Minute
	minToken       = 32
	maxToken       = 512
	makeToken      = "openssl rand -base64 32 creates one"
)

func (r *reader) clients(value string) []Client {
	var out []Client
	tokens := map[string]string{}
	for _, name := range r.names(Prefix+"CLIENTS", value) {
		var raw clientVars
		p := ClientPrefix(name)
		found := len(r.errs)
		r.fill(p, &raw)
		switch {
		case name == audit.Rule:
			r.add(Prefix+"CLIENTS", value, "the name rule is reserved: the audit has it for pauses by rule; want another name")
		case raw.Token == "" && len(r.errs) == found:
			r.add(p+"TOKEN", "", "is missing; want a token, or "+p+"TOKEN_FILE with the name of a file that holds it; "+makeToken)
		case raw.Token != "" && !tokenOK(raw.Token):
			r.add(p+"TOKEN", "", fmt.Sprintf("(not shown) want %d to %d printable characters without blanks; %s", minToken, maxToken, makeToken))
		case raw.Token != "" && tokens[raw.Token] != "":
			r.add(p+"TOKEN", "", "(not shown) is the token of client "+tokens[raw.Token]+" too; want a different token")
		}

		tokens[raw.Token] = name
		if raw.Prefix != "" {
			if err := keys.CheckPrefix(raw.Prefix); err != nil {
				r.add(p+"PREFIX", raw.Prefix, err.Error())
			}
		}

		out = append(out, Client{Name: name, Token: Secret(raw.Token), Prefix: raw.Prefix, Role: r.role(p, raw.Role),
			Rate: r.rate(p+"RATE", raw.Rate)})
	}

	return out
}

// role reads the role of the client whose variables have that prefix.
func (r *reader) role(prefix, name string) auth.Role {
	readOnly, removed := r.value(prefix + "READ_ONLY")
	role, err := auth.ParseRole(name)
	switch {
	case removed:
		r.known[prefix+"READ_ONLY"] = true
		r.add(prefix+"READ_ONLY", readOnly, "was replaced by roles; use ROLE=read")
	case name == "":
		r.add(prefix+"ROLE", "", "is missing; "+err.Error())
	case err != nil:
		r.add(prefix+"ROLE", name, err.Error())
	}

	return role
}

func (r *reader) rate(variable, value string) float64 {
	perSecond, err := notice.ParseRate(value)
	if err != nil {
		r.add(variable, value, err.Error())
	}

	return perSecond
}

func tokenOK(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) >= minToken && len(s) <= maxToken
}

func (r *reader) routes(value string, c *Config) []*route.Route {
	names := r.names(Prefix+"ROUTES", value)
	if len(names) == 0 && !r.errs.Of(Prefix+"ROUTES") {
		r.add(Prefix+"ROUTES", "", "is missing; want the names of one route or more, such as orders,refunds")
	}

	var out []*route.Route
	r.defaults()
	variables := map[string]string{}
	for f := range fields(defaultVars{}) {
		variables[routePrefix(reserved)+f.name] = reserved
	}

	for _, name := range names {
		if name == reserved {
			r.add(Prefix+"ROUTES", value, "the name default is reserved: "+routePrefix(reserved)+
				"… are the defaults of all routes; want another name")
			continue
		}

		for f := range fields(routeVars{}) {
			v := routePrefix(name) + f.name
			if other := variables[v]; other != "" {
				r.add(Prefix+"ROUTES", value, fmt.Sprintf("routes %s and %s would share the variable %s; rename one", other, name, v))
			}

			variables[v] = name
		}

		out = append(out, r.route(name, c))
	}

	return out
}

// routeReader reads the variables of one route.
type routeReader struct {
	*reader
	prefix string // of its variables
	raw    routeVars
	rt     *route.Route
}

func (r *reader) route(name string, c *Config) *route.Route {
	rr := &routeReader{reader: r, prefix: routePrefix(name), rt: &route.Route{Name: name}}
	r.fillOr(rr.prefix, &rr.raw, rr.defaultOf)
	rr.prefixAndTarget(c)
	rr.retry()
	rr.limits()
	rr.calls()
	rr.seal(c)
	return rr.rt
}

func (rr *routeReader) bad(name, value, text string) { rr.add(rr.prefix+name, value, text) }

// prefixAndTarget reads the prefix and the target.
func (rr *routeReader) prefixAndTarget(c *Config) {
	raw, rt := &rr.raw, rr.rt
	rr.routePrefix(c)
	rt.Adopt = rr.booleanAs(rr.prefix+"ADOPT", raw.Adopt)
	rr.order()
	rr.deadLimit()
	rr.onDead(c)

	if raw.Target == "" {
		rr.bad("TARGET", "", "is missing; want http(s)://…, notice, list:<key>, stream:<key> or log")
		return
	}

	t, err := route.ParseTarget(raw.Target)
	if err != nil {
		// The text may be a malformed address with a password.
		rr.bad("TARGET", shownTarget(raw.Target), err.Error())
		return
	}

	rt.Target = t
	_, rt.Target.Secret = rr.value(rr.prefix + "TARGET_FILE")
	if rt.Adopt && t.Kind == route.KindNotice {
		rr.bad("ADOPT", raw.Adopt, "cannot be combined with the target notice, because a plain timer has no url; want another target, or false")
	}

	if t.Key != "" && (t.Key == c.Namespace || keys.HasPrefix(t.Key, c.Namespace)) {
		rr.bad("TARGET", raw.Target, fmt.Sprintf("keys that begin with %s: belong to this service; want another key", c.Namespace))
	}

	n := rr.integerAs(rr.prefix+"MAXLEN", raw.MaxLen, 0, 1_000_000_000)
	if n > 0 && t.Kind != route.KindStream {
		rr.bad("MAXLEN", raw.MaxLen, "is for stream targets; remove it, the target is "+string(t.Kind))
	}

	rt.Target.MaxLen = int64(n)
}

// routePrefix reads the prefix of the route.
func (rr *routeReader) routePrefix(c *Config) {
	prefix := rr.raw.Prefix
	rr.rt.Prefix = prefix
	if prefix == "" {
		rr.bad("PREFIX", "", "is missing; want app, app:module or app:module:type")
	} else if err := keys.CheckPrefix(prefix); err != nil {
		rr.bad("PREFIX", prefix, err.Error())
	} else if app, _, _ := strings.Cut(prefix, ":"); app == c.Namespace {
		rr.bad("PREFIX", prefix, fmt.Sprintf("%s is this service's namespace; want another app, or another %sNAMESPACE", app, Prefix))
	}
}

// order reads whether the notices of one business id are delivered one after another.
func (rr *routeReader) order() {
	raw := &rr.raw
	dead := route.OrderSkip
	switch raw.OrderDead {
	case string(route.OrderSkip):
	case string(route.OrderBlock):
		dead = route.OrderBlock
	default:
		rr.bad("ORDER_DEAD", raw.OrderDead, "want skip or block")
	}

	switch {
	case raw.Order == "id":
		rr.rt.Order = dead
	case raw.Order != "none":
		rr.bad("ORDER", raw.Order, "want none or id")
	case dead == route.OrderBlock:
		rr.bad("ORDER_DEAD", raw.OrderDead, "needs "+rr.prefix+"ORDER=id")
	}
}

// deadLimit reads how long, and how many, dead letters are kept.
func (rr *routeReader) deadLimit() {
	raw, rt := &rr.raw, rr.rt
	for _, v := range [...]struct{ name, value string }{{"DEAD_RETENTION", raw.DeadRetention}, {"DEAD_KEEP", raw.DeadKeep}} {
		if v.value != "" && rt.Order == route.OrderBlock {
			rr.bad(v.name, v.value, "cannot be combined with ORDER_DEAD=block: the successors of a removed dead letter would be delivered "+
				"without it; remove one of the two")
			return
		}
	}

	if raw.DeadRetention != "" {
		rt.DeadRetention = rr.durationAs(rr.prefix+"DEAD_RETENTION", raw.DeadRetention, time.Hour, notice.MaxHorizon)
	}

	if raw.DeadKeep != "" {
		rt.DeadKeep = int64(rr.integerAs(rr.prefix+"DEAD_KEEP", raw.DeadKeep, 1, 100_000_000))
	}
}

// shownTarget returns the displayable part of a target that could not be parsed.
func shownTarget(s string) string {
	if u, err := url.Parse(s); err == nil && u.Scheme != "" && u.Host != "" {
		return origin(u)
	}
	if strings.ContainsAny(s, "@?") || strings.Contains(s, "//") {
		return ""
	}

	return s
}

// retry reads ladder, acknowledgement and timeout. A preset sets all three; variables that are set explicitly override
// the preset.
func (rr *routeReader) retry() {
	raw, rt := &rr.raw, rr.rt
	rt.Ladder, rt.Ack, rt.Timeout = notice.DefaultLadder, route.Ack{Kind: route.Ack2xx}, defaultTimeout
	if p := route.FindPreset(strings.ToLower(raw.Retry)); p != nil {
		rt.Ladder, rt.Ack, rt.Timeout = p.Ladder, p.Ack, p.Timeout
	} else if raw.Retry != "" {
		l, err := notice.ParseLadder(raw.Retry)
		if err != nil {
			rr.bad("RETRY", raw.Retry, fmt.Sprintf("%s; want steps such as 15s,3m,10m, or one of %s",
				strings.TrimPrefix(err.Error(), notice.ErrInvalid.Error()+": "), list(presetNames())))
		} else {
			rt.Ladder = l
		}
	}

	if raw.Ack != "" {
		a, err := route.ParseAck(raw.Ack)
		if err != nil {
			rr.bad("ACK", raw.Ack, err.Error())
		}

		rt.Ack = a
	}

	if raw.Timeout != "" {
		rt.Timeout = rr.durationAs(rr.prefix+"TIMEOUT", raw.Timeout, time.Millisecond, maxTimeout)
	}

	j, err := strconv.ParseFloat(raw.Jitter, 64)
	if err != nil || !(j >= 0 && j <= 0.5) {
		rr.bad("JITTER", raw.Jitter, "want a share from 0 to 0.5")
	}

	rt.Jitter = j
	if raw.Expires != "" {
		rt.Expires = rr.durationAs(rr.prefix+"EXPIRES", raw.Expires, time.Second, notice.MaxHorizon)
	} else if rt.Ladder.Repeats() {
		rr.bad("RETRY", raw.Retry, "repeats its last step, so it needs "+rr.prefix+"EXPIRES, such as 7d")
	}
}

func presetNames() []string {
	var names []string
	for _, p := range route.Presets {
		names = append(names, p.Name)
	}

	return names
}

func (rr *routeReader) limits() {
	raw, rt := &rr.raw, rr.rt
	rt.Concurrency = rr.integerAs(rr.prefix+"CONCURRENCY", raw.Concurrency, 1, 100_000)
	if raw.Weight != "" {
		rt.Weight = rr.integerAs(rr.prefix+"WEIGHT", raw.Weight, 1, 1000)
	}

	rt.HostConcurrency = min(defaultPerHost, rt.Concurrency)
	if raw.HostConcurrency != "" {
		rt.HostConcurrency = rr.integerAs(rr.prefix+"HOST_CONCURRENCY", raw.HostConcurrency, 1, 100_000)
	}

	if raw.Rate != "" {
		rt.Rate = rr.rate(rr.prefix+"RATE", raw.Rate)
	}
}

// acknowledgement checks that the rule fits the target.
func (rr *routeReader) acknowledgement() {
	switch kind := rr.rt.Target.Kind; {
	case rr.raw.Ack == "" || kind == "" || fits(rr.rt.Ack, kind):
	case http(kind):
		rr.bad("ACK", rr.raw.Ack, "is for the targets list: and stream:; want "+route.AckForms)
	case kind == route.KindList || kind == route.KindStream:
		rr.bad("ACK", rr.raw.Ack, "is for HTTP targets; the target of this route is "+string(kind)+
			". Want report, or remove it: then the push is the delivery")
	default:
		rr.bad("ACK", rr.raw.Ack, "is for targets that answer; remove it, the target is log")
	}
}

// calls reads the variables that only HTTP targets have.
func (rr *routeReader) calls() {
	raw, rt := &rr.raw, rr.rt
	rr.acknowledgement()
	rr.onStatus()
	rt.HTTPSOnly = rr.booleanAs(rr.prefix+"HTTPS_ONLY", raw.HTTPSOnly)
	if rt.Method = strings.ToUpper(raw.Method); !slices.Contains(notice.Methods, rt.Method) {
		rr.bad("METHOD", raw.Method, "want "+list(notice.Methods))
	}

	if rt.Target.Kind != "" && !http(rt.Target.Kind) {
		rr.noCalls()
		return
	}

	var err error
	rr.signing()
	rr.headers()
	rr.oauth2()
	rr.allow()
	if u := rt.Target.URL; rt.HTTPSOnly && u != nil && u.Scheme != "https" {
		rr.bad("TARGET", origin(u), "is not https, although "+rr.setBy("HTTPS_ONLY")+" is set; want https://…")
	}

	if raw.Proxy != "" {
		if rt.Proxy, err = route.ParseProxy(raw.Proxy); err != nil {
			rr.bad("PROXY", "", "(not shown) "+err.Error())
		}
	}

	rr.versions()
	rr.certificates()
}

// onStatus reads the consequences of answers, and of failures that last.
func (rr *routeReader) onStatus() {
	if rr.raw.PauseAfter != "" {
		rr.rt.PauseAfter = rr.durationAs(rr.prefix+"PAUSE_AFTER", rr.raw.PauseAfter, time.Minute, 7*24*time.Hour)
	}

	if rr.raw.OnStatus == "" {
		return
	}

	var err error
	if rr.rt.OnStatus, err = route.ParseOnStatus(rr.raw.OnStatus); err != nil {
		rr.bad("ON_STATUS", rr.raw.OnStatus, err.Error())
	}
}

// versions reads the versions of HTTP and TLS that the route's calls may use.
func (rr *routeReader) versions() {
	raw, rt := &rr.raw, rr.rt
	if rt.HTTP1 = raw.HTTP == "1.1"; raw.HTTP != "" && !rt.HTTP1 {
		rr.bad("HTTP", raw.HTTP, "want 1.1, or remove it")
	}

	if rt.TLSCompatible = raw.TLS == "compatible"; raw.TLS != "" && !rt.TLSCompatible {
		rr.bad("TLS", raw.TLS, "want compatible, or remove it")
	}
}

// noCalls reports settings for HTTP calls on a route with another target.
func (rr *routeReader) noCalls() {
	raw, rt := &rr.raw, rr.rt
	for name, set := range map[string]bool{"RATE": raw.Rate != "", "SECRET": raw.Secret != "", "HEADERS": raw.Headers != "",
		"SIGN": raw.Sign != "", "SIGN_KEY": raw.SignKey != "", "SIGN_KEY_ID": raw.SignKeyID != "", "SIGN_HEADER": raw.SignHeader != "",
		"SIGN_TEXT_KEY":    raw.SignTextKey != "",
		"OAUTH2_TOKEN_URL": raw.OAuth2TokenURL != "", "OAUTH2_CLIENT_ID": raw.OAuth2ClientID != "",
		"OAUTH2_CLIENT_SECRET": raw.OAuth2ClientSecret != "", "OAUTH2_SCOPES": raw.OAuth2Scopes != "",
		"OAUTH2_AUDIENCE": raw.OAuth2Audience != "", "SIGN_PER": raw.SignPer != "", "HEADERS_TO": raw.HeadersTo != "",
		"ALLOW": raw.Allow != "", "CA_FILE": raw.CAFile != "", "CERT_FILE": raw.CertFile != "", "KEY_FILE": raw.KeyFile != "",
		"PROXY": raw.Proxy != "", "HTTP": raw.HTTP != "", "TLS": raw.TLS != "", "HOST_CONCURRENCY": raw.HostConcurrency != "",
		"PAUSE_AFTER": raw.PauseAfter != "",
		"ON_STATUS":   raw.OnStatus != "",
		"METHOD":      rt.Method != "POST",
		"HTTPS_ONLY":  rt.HTTPSOnly} {
		if set {
			rr.bad(name, "", "is for HTTP targets; the target of this route is "+string(rt.Target.Kind)+". Remove it")
		}
	}
}

// allow reads the private addresses that the route may call.
func (rr *routeReader) allow() {
	raw, rt := &rr.raw, rr.rt
	if raw.Allow == "" {
		return
	}

	var err error
	if rt.Allow, err = route.ParseAllow(raw.Allow); err != nil {
		rr.bad("ALLOW", raw.Allow, err.Error())
	} else if rt.Target.Kind == route.KindFixed {
		rr.bad("ALLOW", raw.Allow, "is for the target notice; remove it, a configured address may be private")
	}
}

// headers reads the headers of a route's requests and the hosts that get them. With the target notice, producers choose
// the host, so headers with credentials are sent only to listed hosts.
func (rr *routeReader) headers() {
	raw, rt := &rr.raw, rr.rt
	var err error
	if raw.Headers != "" {
		if rt.Headers, err = parseHeaders(raw.Headers); err != nil {
			rr.bad("HEADERS", "", "(not shown) "+err.Error())
		}
		for _, h := range rt.Headers {
			if rt.Signing().Reserves(h.Name) {
				rr.bad("HEADERS", "", h.Name+" is set by "+rr.prefix+"SIGN; remove it, or rename the signature's header with "+rr.prefix+"SIGN_HEADER")
			}
		}
	}

	if raw.HeadersTo != "" {
		if rt.HeadersTo, err = route.ParseOrigins(raw.HeadersTo); err != nil {
			rr.bad("HEADERS_TO", raw.HeadersTo, err.Error())
		}
	}

	rr.headersTo()
}

// headersTo checks that the secret headers of a route with the target notice go only to configured hosts.
func (rr *routeReader) headersTo() {
	raw, rt := &rr.raw, rr.rt
	each := rt.Target.Kind == route.KindNotice
	switch {
	case raw.HeadersTo != "" && rt.Target.Kind == route.KindFixed:
		rr.bad("HEADERS_TO", raw.HeadersTo, "is for the target notice; remove it, this route has one address")
	case raw.HeadersTo != "" && raw.Headers == "" && !rr.hasOAuth2() && !rr.errs.Of(rr.prefix+"HEADERS") &&
		!rr.errs.Of(rr.prefix+"HEADERS_FILE"):
		rr.bad("HEADERS_TO", raw.HeadersTo, "needs "+rr.prefix+"HEADERS; set those, or remove it")
	case each && (raw.Headers != "" || rr.hasOAuth2()) && raw.HeadersTo == "":
		given := "HEADERS"
		if raw.Headers == "" {
			given = "OAUTH2_TOKEN_URL's tokens"
		}

		rr.bad("HEADERS_TO", "", "is missing: each notice of this route brings its url, so "+rr.prefix+given+" would go to any host that a "+
			"producer names. Want the hosts that get them, such as shop.example,*.shop.example; an entry is "+route.OriginGrammar)
	}
}

// certificates reads the TLS files at start, so that a wrong file is an error before the first handshake.
func (rr *routeReader) certificates() {
	raw, rt := &rr.raw, rr.rt
	rt.CAFile, rt.CertFile, rt.KeyFile = raw.CAFile, raw.CertFile, raw.KeyFile
	if raw.CAFile != "" {
		if b, ok := rr.file("CA_FILE", raw.CAFile); ok && !x509.NewCertPool().AppendCertsFromPEM(b) {
			rr.bad("CA_FILE", raw.CAFile, "want a file with certificates in PEM")
		}
	}

	switch {
	case raw.CertFile == "" && raw.KeyFile == "":
	case raw.KeyFile == "":
		rr.bad("KEY_FILE", "", "is missing; "+rr.prefix+"CERT_FILE needs its key")
	case raw.CertFile == "":
		rr.bad("CERT_FILE", "", "is missing; "+rr.prefix+"KEY_FILE needs its certificate")
	default:
		rr.keyPair()
	}
}

// keyPair checks the client certificate and its key.
func (rr *routeReader) keyPair() {
	cert, ok1 := rr.file("CERT_FILE", rr.raw.CertFile)
	key, ok2 := rr.file("KEY_FILE", rr.raw.KeyFile)
	if !ok1 || !ok2 {
		return
	}

	if _, err := tls.X509KeyPair(cert, key); err != nil {
		rr.bad("CERT_FILE", rr.raw.CertFile, "want a certificate in PEM, and in "+rr.prefix+"KEY_FILE its key")
	}
}

func (rr *routeReader) file(name, path string) ([]byte, bool) {
	b, err := rr.readFile(path)
	if err != nil {
		rr.bad(name, path, "want the name of a file that can be read ("+cause(err)+")")
		return nil, false
	}

	return b, true
}
