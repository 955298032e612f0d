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

// RedactURL returns a URL without secrets, for logs, errors and answers. User, password, and the values of
// query parameters with a secret name become dots. A URL that cannot be parsed is not shown at all.
func RedactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(an invalid address)"
	}

	return redact(u)
}

func redact(u *url.URL) string {
	if u.User == nil && u.RawQuery == "" && u.Opaque == "" {
		return u.String()
	}

	c := *u
	if c.Opaque != "" { // mailto:…, or user:password@… without slashes: no part is safe
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

// scrubber removes a call's secrets from text that came from outside. A receiver may echo the headers of the
// request, and its answer is stored and shown.
type scrubber []string

// minScrub is the shortest value that is hidden: shorter ones would also be removed from ordinary words.
const minScrub = 4

func (s *scrubber) add(values ...string) {
	for _, v := range values {
		if len(v) < minScrub {
			continue
		}

		*s = append(*s, v)
		quoted, err := json.Marshal(v)
		if err == nil && string(quoted[1:len(quoted)-1]) != v { // the receiver may quote it in JSON
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
		// "Bearer abc": the secret is the part after the scheme.
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

// routeSecrets returns the secrets that a route's requests carry.
func routeSecrets(r *route.Route) scrubber {
	var s scrubber
	s.addHeaders(r.Headers)
	s.addURL(r.Target.URL)
	s.addURL(r.Proxy.URL())
	return s
}

// printable returns bytes of unknown content as text that is safe to show, of at most notice.KeptResponse bytes. ASCII
// control characters except tabs and line ends are escaped, for example as \x1b. Most other characters that cannot be
// printed, such as direction marks, become U+FFFD. If the text is not valid UTF-8, all bytes outside ASCII are escaped.
func printable(b []byte) string {
	if len(b) > notice.KeptResponse {
		b = b[:notice.KeptResponse]
		for i := 1; i < utf8.UTFMax; i++ { // do not cut within a rune
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

// escaped is printable without the limit on the length.
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
			out = append(out, "\ufffd"...) // direction marks and the like could change how the rest is displayed
		default:
			out = append(out, b[:n]...)
		}

		b = b[n:]
	}

	return string(out)
}

const hexDigits = "0123456789abcdef"
