package callback

import (
	"encoding/json"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"notifier/internal/notice"
	"notifier/internal/route"
)

const dots = "•••"

// RedactURL spells a URL for logs, errors and answers: user and password, and
// the values of query parameters whose names say that they are secret, become dots. What
// cannot be parsed is not shown at all.
func RedactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(an address that cannot be read)"
	}
	return redact(u)
}

func redact(u *url.URL) string {
	if u.User == nil && u.RawQuery == "" && u.Opaque == "" {
		return u.String()
	}
	c := *u
	if c.Opaque != "" { // mailto:…, user:password@… without slashes: nothing of it is ours
		c.Opaque = dots
	}
	c.User = nil
	c.RawQuery = redactQuery(u.RawQuery)
	out := c.String()
	if u.User != nil {
		out = strings.Replace(out, "//", "//"+dots+"@", 1)
	}
	return out
}

func redactQuery(q string) string {
	if q == "" {
		return ""
	}
	parts := strings.Split(q, "&")
	for i, p := range parts {
		name, _, has := strings.Cut(p, "=")
		plain, err := url.QueryUnescape(name)
		if has && (err != nil || notice.SecretName(plain)) {
			parts[i] = name + "=" + dots
		}
	}
	return strings.Join(parts, "&")
}

// scrubber takes a call's secrets out of text that came from outside: a
// receiver may echo the headers it got, and its answer is kept and shown.
type scrubber []string

// minScrub is the shortest value worth hiding: shorter ones would punch holes
// into ordinary words.
const minScrub = 4

func (s *scrubber) add(values ...string) {
	for _, v := range values {
		if len(v) < minScrub {
			continue
		}
		*s = append(*s, v)
		quoted, err := json.Marshal(v)
		if err == nil && string(quoted[1:len(quoted)-1]) != v { // a receiver that repeats it in JSON
			*s = append(*s, string(quoted[1:len(quoted)-1]), strings.ReplaceAll(strings.ReplaceAll(v, `\`, `\\`), `"`, `\"`))
		}
		if escaped := url.QueryEscape(v); escaped != v {
			*s = append(*s, escaped)
		}
	}
}

func (s *scrubber) addURL(u *url.URL) {
	if u == nil {
		return
	}
	if u.User != nil {
		pw, _ := u.User.Password()
		s.add(u.User.String(), pw, basicAuth(u.User))
	}
	for name, vs := range u.Query() {
		if notice.SecretName(name) {
			for _, v := range vs {
				s.add(v)
			}
		}
	}
}

func (s *scrubber) addHeaders(hs []notice.Header) {
	for _, h := range hs {
		if !notice.SecretName(h.Name) {
			continue
		}
		s.add(h.Value)
		// "Bearer abc": the part after the scheme is the secret.
		if _, rest, ok := strings.Cut(h.Value, " "); ok {
			s.add(rest)
		}
	}
}

func (s scrubber) scrub(text string) string {
	for _, v := range s {
		if strings.Contains(text, v) {
			text = strings.ReplaceAll(text, v, dots)
		}
	}
	return text
}

// routeSecrets are the secrets a route's requests carry.
func routeSecrets(r *route.Route) scrubber {
	var s scrubber
	s.addHeaders(r.Headers)
	s.addURL(r.Target.URL)
	s.addURL(r.Proxy.URL())
	return s
}

// printable makes bytes from outside fit to be shown, cut to what is kept of a
// response. What is no UTF-8 text as a whole is shown in ASCII with \x escapes: a
// chance letter amid another encoding would only mislead. Control characters but
// line ends and tabs are escaped likewise.
func printable(b []byte) string {
	if len(b) > notice.KeptResponse {
		b = b[:notice.KeptResponse]
		for i := 1; i < utf8.UTFMax; i++ { // not amid a rune
			if c := b[len(b)-i]; utf8.RuneStart(c) {
				if !utf8.FullRune(b[len(b)-i:]) {
					b = b[:len(b)-i]
				}
				break
			}
		}
	}
	return notice.Kept(escaped(b))
}

// escaped is printable without a limit.
func escaped(b []byte) string {
	text := utf8.Valid(b)
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := rune(b[0]), 1
		if text {
			r, n = utf8.DecodeRune(b)
		}
		switch {
		case r < 0x20 && r != '\n' && r != '\t' && r != '\r', r == 0x7f, r >= 0x80 && !text:
			out = append(out, '\\', 'x', hexDigits[b[0]>>4], hexDigits[b[0]&15])
		case r >= 0x80 && !unicode.IsPrint(r) && !unicode.IsSpace(r):
			out = append(out, "\ufffd"...) // direction marks and the like could forge what is shown
		default:
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return string(out)
}

const hexDigits = "0123456789abcdef"
