package callback

import (
	"cmp"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/transport"
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
// request, and its answer is stored and shown. Text must be scrubbed before it is cut: the beginning of a secret
// is not recognised as one.
type scrubber []string

// minScrub is the shortest value that is hidden: shorter ones would also be removed from ordinary words.
const minScrub = 4

// add adds secrets as they are, and as JSON, Go, HTML and URLs escape them.
func (s *scrubber) add(values ...string) {
	for _, v := range values {
		if len(v) < minScrub {
			continue
		}

		*s = append(*s, v)
		if plainText(v) {
			continue
		}

		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v)
		inJSON, _ := json.Marshal(v) // a string can always be encoded
		ascii := strconv.QuoteToASCII(v)
		for _, f := range [...]string{quoted, strings.ReplaceAll(quoted, "/", `\/`), string(inJSON[1 : len(inJSON)-1]), ascii[1 : len(ascii)-1],
			html.EscapeString(v), url.QueryEscape(v), url.PathEscape(v), url.User(v).String(), (&url.URL{Path: v}).EscapedPath()} {
			if !slices.Contains(*s, f) {
				*s = append(*s, f)
			}
		}
	}
}

// plainText reports whether no encoding escapes a character of v.
func plainText(v string) bool {
	return strings.IndexFunc(v, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

func (s *scrubber) addURL(u *url.URL) {
	if u == nil {
		return
	}

	if u.User != nil {
		pw, _ := u.User.Password()
		s.add(u.User.String(), u.User.Username()+":"+pw, pw)
		s.addToken(transport.BasicAuth(u.User))
	}

	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, raw, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		if err == nil && !notice.SecretName(plain) {
			continue
		}

		s.add(raw)
		if v, err := url.QueryUnescape(raw); err == nil && v != raw {
			s.add(v)
		}
	}
}

func (s *scrubber) addHeaders(hs []notice.Header) {
	for _, h := range hs {
		if notice.SecretName(h.Name) {
			s.addToken(h.Value)
		}
	}
}

// addToken adds the value of a header. The part after a scheme, as in "Bearer abc", is a secret, too.
func (s *scrubber) addToken(value string) {
	s.add(value)
	if _, rest, ok := strings.Cut(value, " "); ok {
		s.add(strings.TrimSpace(rest))
	}
}

// scrub returns text with dots in place of the secrets. The end of the text is hidden, too, if a secret begins with it:
// the text may have been cut.
func (s scrubber) scrub(text string) string {
	var found [][2]int // begin and end of each secret
	for _, v := range s {
		for from := 0; ; {
			i := strings.Index(text[from:], v)
			if i < 0 {
				break
			}

			found = append(found, [2]int{from + i, from + i + len(v)})
			from += i + 1
		}

		if i := beginsAt(text, v); i < len(text) {
			found = append(found, [2]int{i, len(text)})
		}
	}

	if len(found) == 0 {
		return text
	}

	slices.SortFunc(found, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	var out strings.Builder
	end := 0
	for i, f := range found {
		if i == 0 || f[0] > end { // secrets that overlap become one row of dots
			out.WriteString(text[end:f[0]])
			out.WriteString(dots)
		}

		end = max(end, f[1])
	}

	return out.String() + text[end:]
}

// beginsAt returns where the end of a text is the beginning of a secret, at least minScrub bytes of it. Without such an
// end it returns the length of the text.
func beginsAt(text, secret string) int {
	for at := max(0, len(text)-len(secret)+1); at <= len(text)-minScrub; at++ {
		i := strings.Index(text[at:], secret[:minScrub])
		if i < 0 {
			break
		}

		if at += i; strings.HasPrefix(secret, text[at:]) {
			return at
		}
	}

	return len(text)
}

// show returns bytes of unknown content without secrets, as printable does.
func (s scrubber) show(b []byte) string {
	window := notice.KeptResponse // the bytes that decide over the text that is kept if it has no secret
	for _, v := range s {
		window = max(window, notice.KeptResponse+len(v))
	}

	if len(b) > window {
		if head := string(b[:window]); s.scrub(head) == head {
			return printable(b)
		}
	}

	return printable([]byte(s.scrub(string(b))))
}

// routeSecrets returns the secrets that a route's requests carry.
func routeSecrets(r *route.Route) scrubber {
	var s scrubber
	s.addHeaders(r.Headers)
	s.addURL(r.Target.URL)
	if u := r.Target.URL; r.Target.Secret && u != nil {
		for part := range strings.SplitSeq(u.Path, "/") {
			if len(part) >= 16 || strings.ContainsAny(part, "0123456789") { // others are words
				s.add(part)
			}
		}

		for pair := range strings.SplitSeq(u.RawQuery, "&") {
			_, value, _ := strings.Cut(pair, "=")
			s.add(value)
		}
	}

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
