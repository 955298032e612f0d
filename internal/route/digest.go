package route

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Digest returns a short hash of most settings of the route. Instances publish it, so that differences between their
// configurations are noticed without showing any setting. CONCURRENCY is left out, because it may differ between
// instances.
func (r *Route) Digest() string {
	// Anyone who can read Redis could test guessed passwords against the digest. So the route's secrets are its key.
	var key []byte
	for _, s := range r.keying() {
		key = append(key, s...)
		key = append(key, 0)
	}

	h := hmac.New(sha256.New, key)
	r.settings(func(name, value string, _ bool) {
		_, _ = fmt.Fprintf(h, "%s %d:%s\n", name, len(value), value) // a hash never fails
	})
	return hex.EncodeToString(h.Sum(nil)[:digestBytes])
}

// keying returns the secrets of the route that are too long to be guessed: those of its signatures.
func (r *Route) keying() [][]byte {
	var all [][]byte
	for _, s := range r.Secrets {
		all = append(all, s.Bytes())
	}

	if text := r.TextKey.Reveal(); text != "" {
		all = append(all, []byte(text))
	}

	return all
}

// SettingDigests returns the route's digest, followed by name=digest of each setting that is set, to tell which of them was changed. Those
// that may contain secrets are one of them, named secrets, whose key are the route's secrets.
func (r *Route) SettingDigests() string {
	secret := sha256.New()
	for _, s := range r.keying() {
		_, _ = fmt.Fprintf(secret, "%d:%s", len(s), s)
	}

	of, names := map[string]string{}, []string{}
	r.settings(func(name, value string, hidden bool) {
		if hidden {
			_, _ = fmt.Fprintf(secret, "%s %d:%s\n", name, len(value), value)
			return
		}

		if _, again := of[name]; !again {
			names = append(names, name)
		}

		of[name] += fmt.Sprintf("%d:%s", len(value), value)
	})

	text := r.Digest()
	for _, name := range names {
		sum := sha256.Sum256([]byte(of[name]))
		text += " " + strings.ReplaceAll(name, " ", "-") + "=" + hex.EncodeToString(sum[:settingBytes])
	}

	if len(r.keying()) > 0 {
		text += " secrets=" + hex.EncodeToString(secret.Sum(nil)[:settingBytes])
	}

	return text
}

// settings calls add with each setting of a digest. hidden settings may contain secrets.
func (r *Route) settings(add func(name, value string, hidden bool)) {
	d, keyed := digest{add}, len(r.keying()) > 0
	d.add("name", r.Name)
	d.add("prefix", r.Prefix)
	d.add("target", string(r.Target.Kind))
	d.add("url", shown(r.Target.Shown()))
	d.add("key", r.Target.Key)
	d.number("maxlen", float64(r.Target.MaxLen))
	d.add("ladder", r.Ladder.String())
	d.number("jitter", r.Jitter)
	if r.Expires > 0 {
		d.add("expires", r.Expires.String())
	}

	d.add("timeout", r.Timeout.String())
	d.add("ack", r.Ack.String())
	d.add("on status", r.OnStatus.String())
	d.number("pause after", r.PauseAfter.Seconds())
	d.number("host concurrency", float64(r.HostConcurrency))
	d.number("rate", r.Rate)
	d.number("secrets", float64(len(r.Secrets)))
	d.flag("text key", r.TextKey.Reveal() != "")
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
	d.add("seal", string(r.Seal))
	d.flag("seal url", r.SealURL)
	d.flag("open entries", r.OpenEntries)
	d.add("order", string(r.Order))
	d.number("dead retention", r.DeadRetention.Seconds())
	d.number("dead keep", float64(r.DeadKeep))
	if r.OnDead != nil {
		d.add("on dead", r.OnDead.Prefix)
		d.flag("on dead body", r.OnDeadBody > 0)
		d.number("on down", r.OnDown.Seconds())
	}

	if r.Robot != nil {
		d.add("format", string(r.Robot.Format))
	}

	d.add("ca", r.CAFile)
	d.add("cert", r.CertFile)
	d.add("key file", r.KeyFile)
	d.add("proxy", r.Proxy.String())
	d.flag("http/1.1", r.HTTP1)
	d.flag("tls compatible", r.TLSCompatible)
	d.add("method", r.Method)

	// Without secrets, the hash has no key: settings that may contain a password are left out.
	for _, h := range r.Headers {
		d.add("header", strings.ToLower(h.Name))
		if keyed {
			d.secret("value", h.Value)
		}
	}

	if o := r.OAuth2; o != nil {
		d.add("token url", shown(o.TokenURL)) // user and query are always left out
		d.add("oauth2 client", o.ClientID)
		d.add("oauth2 scopes", strings.Join(o.Scopes, " "))
		d.add("oauth2 audience", o.Audience)
		if keyed {
			d.secret("oauth2 secret", string(o.ClientSecret))
		}
	}

	if keyed {
		d.secret("whole url", whole(r.Target.URL))
		d.secret("whole proxy", whole(r.Proxy.URL()))
	}
}

// digestBytes are enough to distinguish configurations, and few even with hundreds of routes.
const digestBytes = 6

// settingBytes are enough to notice that a setting was changed.
const settingBytes = 3

// digest passes settings on in a fixed order, each with its name, so that different settings never hash the same text.
type digest struct {
	to func(name, value string, hidden bool)
}

// add skips a setting that is not set, so that a later version with more settings computes the same digest.
func (d digest) add(name, value string) {
	if value != "" {
		d.to(name, value, false)
	}
}

// secret adds a setting that may contain a secret.
func (d digest) secret(name, value string) {
	if value != "" {
		d.to(name, value, true)
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

// shown returns an address without the parts that may be secret.
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
