package route

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"net/url"
	"strconv"
	"strings"
)

// Digest stands for what the configuration says of the route, so that instances
// that were given different things can be told apart without showing them. What
// is not set leaves no trace, so that a later version with more settings has the
// same digest where they are not used. CONCURRENCY is left out: it is each
// instance's own and may differ.
//
// Whoever reads Redis reads the digest, and could try out passwords against it.
// So it is keyed with the route's secrets, which are random. Where there are
// none, what may hold a password (values of headers, user and query of the
// target, user of the proxy) is left out, and a difference in it does not show.
func (r *Route) Digest() string {
	var key []byte
	for _, s := range r.Secrets {
		key = append(key, s.Bytes()...)
		key = append(key, 0)
	}
	d := digest{hmac.New(sha256.New, key)}
	d.add("name", r.Name)
	d.add("prefix", r.Prefix)
	d.add("target", string(r.Target.Kind))
	d.add("url", shown(r.Target.URL))
	d.add("key", r.Target.Key)
	d.number("maxlen", float64(r.Target.MaxLen))
	d.add("ladder", r.Ladder.String())
	d.number("jitter", r.Jitter)
	d.add("timeout", r.Timeout.String())
	d.add("ack", r.Ack.String())
	d.number("host concurrency", float64(r.HostConcurrency))
	d.number("rate", r.Rate)
	d.number("secrets", float64(len(r.Secrets)))
	d.add("signs", string(r.Signs()))
	for _, scheme := range r.Sign {
		d.add("sign", string(scheme))
	}
	for _, k := range r.SignKeys {
		d.add("sign key", k.ID)
	}
	d.add("sign header", r.SignHeaders.String())
	d.add("headers to", r.HeadersTo.String())
	d.add("allow", r.Allow.String())
	d.flag("https only", r.HTTPSOnly)
	d.flag("adopt", r.Adopt)
	d.add("ca", r.CAFile)
	d.add("cert", r.CertFile)
	d.add("key file", r.KeyFile)
	d.add("proxy", r.Proxy.String())
	d.add("method", r.Method)
	for _, h := range r.Headers {
		d.add("header", strings.ToLower(h.Name))
		if len(r.Secrets) > 0 {
			d.add("value", h.Value)
		}
	}
	if o := r.OAuth2; o != nil {
		d.add("token url", shown(o.TokenURL))
		d.add("oauth2 client", o.ClientID)
		d.add("oauth2 scopes", strings.Join(o.Scopes, " "))
		d.add("oauth2 audience", o.Audience)
		if len(r.Secrets) > 0 {
			d.add("oauth2 secret", string(o.ClientSecret))
		}
	}
	if len(r.Secrets) > 0 {
		d.add("whole url", whole(r.Target.URL))
		d.add("whole proxy", whole(r.Proxy.URL()))
	}
	return hex.EncodeToString(d.h.Sum(nil)[:digestBytes])
}

// digestBytes are enough to tell configurations apart, and few in the Redis of
// somebody with hundreds of routes.
const digestBytes = 6

// digest takes settings in an order, each with its name, so that no two ways of
// filling them look alike.
type digest struct{ h hash.Hash }

func (d digest) add(name, value string) {
	if value != "" {
		_, _ = fmt.Fprintf(d.h, "%s %d:%s\n", name, len(value), value) // a hash takes everything
	}
}

func (d digest) number(name string, n float64) {
	if n != 0 {
		d.add(name, strconv.FormatFloat(n, 'g', -1, 64))
	}
}

func (d digest) flag(name string, on bool) {
	if on {
		d.add(name, "true")
	}
}

// shown is an address without what may be secret in it.
func shown(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

func whole(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.String()
}
