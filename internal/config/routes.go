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

	"notifier/internal/access"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// What a route has that says nothing else.
const (
	defaultTimeout = 10 * time.Second
	defaultPerHost = 16
	maxTimeout     = 10 * time.Minute
	minToken       = 32
	maxToken       = 512
	makeToken      = "openssl rand -base64 32 makes one"
)

func (r *reader) clients(value string) []Client {
	var out []Client
	tokens := map[string]string{}
	for _, name := range r.names(Prefix+"CLIENTS", value) {
		var raw clientVars
		p := clientPrefix(name)
		found := len(r.errs)
		r.fill(p, &raw)
		switch {
		case raw.Token == "" && len(r.errs) == found:
			r.add(p+"TOKEN", "", "is missing; want a token, or "+p+"TOKEN_FILE with the name of a file that holds it; "+makeToken)
		case raw.Token != "" && !tokenOK(raw.Token):
			r.add(p+"TOKEN", "", fmt.Sprintf("(not shown) want %d to %d printable characters without blanks; %s", minToken, maxToken, makeToken))
		case raw.Token != "" && tokens[raw.Token] != "":
			r.add(p+"TOKEN", "", "(not shown) is the token of client "+tokens[raw.Token]+" too; want one of its own")
		}
		tokens[raw.Token] = name
		if raw.Prefix != "" {
			if err := keys.CheckPrefix(raw.Prefix); err != nil {
				r.add(p+"PREFIX", raw.Prefix, err.Error())
			}
		}
		out = append(out, Client{Name: name, Token: Secret(raw.Token), Prefix: raw.Prefix, Role: r.role(p, raw.Role), Rate: r.rate(p+"RATE", raw.Rate)})
	}
	return out
}

// role reads the role of a client whose variables begin with prefix.
func (r *reader) role(prefix, name string) access.Role {
	readOnly, removed := r.value(prefix + "READ_ONLY")
	role, err := access.ParseRole(name)
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
	if len(names) == 0 && !r.errs.of(Prefix+"ROUTES") {
		r.add(Prefix+"ROUTES", "", "is missing; want the names of one route or more, such as orders,refunds")
	}
	var out []*route.Route
	variables := map[string]string{}
	for _, name := range names {
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
	r.fill(rr.prefix, &rr.raw)
	rr.place(c)
	rr.retry()
	rr.limits()
	rr.calls()
	return rr.rt
}

func (rr *routeReader) bad(name, value, text string) { rr.add(rr.prefix+name, value, text) }

// place reads prefix and target.
func (rr *routeReader) place(c *Config) {
	raw, rt := &rr.raw, rr.rt
	rt.Prefix = raw.Prefix
	if raw.Prefix == "" {
		rr.bad("PREFIX", "", "is missing; want app, app:module or app:module:type")
	} else if err := keys.CheckPrefix(raw.Prefix); err != nil {
		rr.bad("PREFIX", raw.Prefix, err.Error())
	} else if app, _, _ := strings.Cut(raw.Prefix, ":"); app == c.Namespace {
		rr.bad("PREFIX", raw.Prefix, fmt.Sprintf("%s is this service's own namespace; want another app, or another %sNAMESPACE", app, Prefix))
	}
	rt.Adopt = rr.booleanAs(rr.prefix+"ADOPT", raw.Adopt)

	if raw.Target == "" {
		rr.bad("TARGET", "", "is missing; want http(s)://…, notice, list:<key>, stream:<key> or log")
		return
	}
	t, err := route.ParseTarget(raw.Target)
	if err != nil {
		// What looks like an address may hold a password.
		rr.bad("TARGET", shownTarget(raw.Target), err.Error())
		return
	}
	rt.Target = t
	if rt.Adopt && t.Kind == route.KindNotice {
		rr.bad("ADOPT", raw.Adopt, "does not go with the target notice: a plain timer brings no url. Want another target, or false")
	}
	if t.Key != "" && (t.Key == c.Namespace || keys.HasPrefix(t.Key, c.Namespace)) {
		rr.bad("TARGET", raw.Target, fmt.Sprintf("keys that begin with %s: are this service's own; want another", c.Namespace))
	}
	n := rr.integerAs(rr.prefix+"MAXLEN", raw.MaxLen, 0, 1_000_000_000)
	if n > 0 && t.Kind != route.KindStream {
		rr.bad("MAXLEN", raw.MaxLen, "only a stream target has a length; want none for "+string(t.Kind))
	}
	rt.Target.MaxLen = int64(n)
}

// shownTarget is a target that could not be read, as far as it may be shown.
func shownTarget(s string) string {
	if u, err := url.Parse(s); err == nil && u.Scheme != "" && u.Host != "" {
		return origin(u)
	}
	if strings.ContainsAny(s, "@?") || strings.Contains(s, "//") {
		return ""
	}
	return s
}

// retry reads ladder, acknowledgement and timeout. A preset gives all three, and
// what is given beside it wins.
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
		}
		rt.Ladder = l
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
	rt.HostConcurrency = min(defaultPerHost, rt.Concurrency)
	if raw.HostConcurrency != "" {
		rt.HostConcurrency = rr.integerAs(rr.prefix+"HOST_CONCURRENCY", raw.HostConcurrency, 1, 100_000)
	}
	if raw.Rate != "" {
		rt.Rate = rr.rate(rr.prefix+"RATE", raw.Rate)
	}
}

// acknowledgement checks that the rule fits the target: an answer acknowledges
// a call, a consumer's report what went to a list or stream.
func (rr *routeReader) acknowledgement() {
	given, report := rr.raw.Ack != "", rr.rt.Ack.Kind == route.AckReport
	switch kind := rr.rt.Target.Kind; {
	case !given || kind == "":
	case http(kind) && report:
		rr.bad("ACK", rr.raw.Ack, "is for targets list: and stream:, whose consumers report; want 2xx, status:200,204, body:success or json:code=SUCCESS")
	case (kind == route.KindList || kind == route.KindStream) && !report:
		rr.bad("ACK", rr.raw.Ack, "is for HTTP targets; the target of this route is "+string(kind)+". Want report, or nothing: then the push is the delivery")
	case kind == route.KindLog:
		rr.bad("ACK", rr.raw.Ack, "is for targets that answer; a log does not. Remove it")
	}
}

// calls reads what only an HTTP target has.
func (rr *routeReader) calls() {
	raw, rt := &rr.raw, rr.rt
	rr.acknowledgement()
	rt.HTTPSOnly = rr.booleanAs(rr.prefix+"HTTPS_ONLY", raw.HTTPSOnly)
	if rt.Method = strings.ToUpper(raw.Method); !slices.Contains(notice.Methods, rt.Method) {
		rr.bad("METHOD", raw.Method, "want "+list(notice.Methods))
	}
	if rt.Target.Kind != "" && !http(rt.Target.Kind) {
		for name, set := range map[string]bool{"RATE": raw.Rate != "", "SECRET": raw.Secret != "", "HEADERS": raw.Headers != "",
			"SIGN": raw.Sign != "", "SIGN_KEY": raw.SignKey != "", "SIGN_KEY_ID": raw.SignKeyID != "", "SIGN_HEADER": raw.SignHeader != "",
			"OAUTH2_TOKEN_URL": raw.OAuth2TokenURL != "", "OAUTH2_CLIENT_ID": raw.OAuth2ClientID != "", "OAUTH2_CLIENT_SECRET": raw.OAuth2ClientSecret != "",
			"OAUTH2_SCOPES": raw.OAuth2Scopes != "", "OAUTH2_AUDIENCE": raw.OAuth2Audience != "",
			"SIGN_PER": raw.SignPer != "", "HEADERS_TO": raw.HeadersTo != "",
			"ALLOW": raw.Allow != "", "CA_FILE": raw.CAFile != "", "CERT_FILE": raw.CertFile != "", "KEY_FILE": raw.KeyFile != "",
			"PROXY": raw.Proxy != "", "HOST_CONCURRENCY": raw.HostConcurrency != "", "METHOD": rt.Method != "POST",
			"HTTPS_ONLY": rt.HTTPSOnly} {
			if set {
				rr.bad(name, "", "is for HTTP targets; the target of this route is "+string(rt.Target.Kind)+". Remove it")
			}
		}
		return
	}
	var err error
	rr.signing()
	rr.headers()
	rr.oauth2()
	if raw.Allow != "" {
		if rt.Allow, err = route.ParseAllow(raw.Allow); err != nil {
			rr.bad("ALLOW", raw.Allow, err.Error())
		} else if rt.Target.Kind == route.KindFixed {
			rr.bad("ALLOW", raw.Allow, "is for the target notice: an address that the configuration gives is called wherever it is. Remove it")
		}
	}
	if u := rt.Target.URL; rt.HTTPSOnly && u != nil && u.Scheme != "https" {
		rr.bad("TARGET", origin(u), "is not https, although "+rr.prefix+"HTTPS_ONLY is set; want https://…")
	}
	if raw.Proxy != "" {
		if rt.Proxy, err = route.ParseProxy(raw.Proxy); err != nil {
			rr.bad("PROXY", "", "(not shown) "+err.Error())
		}
	}
	rr.certificates()
}

// headers reads what headers a route's requests have, and which hosts get them:
// on a route whose notices bring their urls, a producer chooses who is called,
// and an Authorization is not for whomever it chooses.
func (rr *routeReader) headers() {
	raw, rt := &rr.raw, rr.rt
	var err error
	if raw.Headers != "" {
		if rt.Headers, err = parseHeaders(raw.Headers); err != nil {
			rr.bad("HEADERS", "", "(not shown) "+err.Error())
		}
		for _, h := range rt.Headers {
			if rt.Signing().Reserves(h.Name) {
				rr.bad("HEADERS", "", h.Name+" is written by "+rr.prefix+"SIGN; remove it, or give the signature's header another name in "+rr.prefix+"SIGN_HEADER")
			}
		}
	}
	if raw.HeadersTo != "" {
		if rt.HeadersTo, err = route.ParseOrigins(raw.HeadersTo); err != nil {
			rr.bad("HEADERS_TO", raw.HeadersTo, err.Error())
		}
	}
	each := rt.Target.Kind == route.KindNotice
	switch {
	case raw.HeadersTo != "" && rt.Target.Kind == route.KindFixed:
		rr.bad("HEADERS_TO", raw.HeadersTo, "is for the target notice: a route with one address sends its headers there. Remove it")
	case raw.HeadersTo != "" && raw.Headers == "" && !rr.hasOAuth2() && !rr.errs.of(rr.prefix+"HEADERS") && !rr.errs.of(rr.prefix+"HEADERS_FILE"):
		rr.bad("HEADERS_TO", raw.HeadersTo, "there are no "+rr.prefix+"HEADERS that these hosts could get; give some, or remove it")
	case each && (raw.Headers != "" || rr.hasOAuth2()) && raw.HeadersTo == "":
		given := "HEADERS"
		if raw.Headers == "" {
			given = "OAUTH2_TOKEN_URL's tokens"
		}
		rr.bad("HEADERS_TO", "", "is missing: each notice of this route brings its url, so "+rr.prefix+given+" would go to whatever host a "+
			"producer names. Want the hosts that get them, such as shop.example,*.shop.example; an entry is "+route.OriginGrammar)
	}
}

// certificates are read here, so that a wrong file is found at start and not in
// the first handshake.
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
		cert, ok1 := rr.file("CERT_FILE", raw.CertFile)
		key, ok2 := rr.file("KEY_FILE", raw.KeyFile)
		if ok1 && ok2 {
			if _, err := tls.X509KeyPair(cert, key); err != nil {
				rr.bad("CERT_FILE", raw.CertFile, "want a certificate in PEM, and in "+rr.prefix+"KEY_FILE its key")
			}
		}
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
