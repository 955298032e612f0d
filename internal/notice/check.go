package notice

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Methods lists the HTTP methods that a callback may use; the first is the default.
var Methods = []string{"POST", "PUT", "GET"}

// Check validates content from a producer and gives its url the canonical form. Its errors wrap ErrInvalid and name the
// field as the API does.
func (c *Content) Check() (err error) {
	if c.URL != "" {
		if c.URL, err = CanonicalURL(c.URL); err != nil {
			return err
		}
	}

	if err := CheckAudience(c.Audience); err != nil {
		return err
	}
	if c.Method != "" && !slices.Contains(Methods, c.Method) {
		return invalid("method %q; want POST, PUT or GET", c.Method)
	}
	if c.ContentType != "" && (len(c.ContentType) > 256 || !printable(c.ContentType)) {
		return invalid("content_type %.80q is no header value of at most 256 printable characters", c.ContentType)
	}
	if len(c.Body) > MaxBody {
		return invalid("body has %d bytes, at most %d are allowed", len(c.Body), MaxBody)
	}
	if err := CheckHeaders(c.Headers); err != nil {
		return err
	}
	if c.Traceparent != "" && !traceparent(c.Traceparent) {
		return invalid("traceparent %.80q is not of the form 00-<32 hex>-<16 hex>-<2 hex>", c.Traceparent)
	}
	if err := c.checkExpiry(); err != nil {
		return err
	}
	if c.Tracestate != "" && (c.Traceparent == "" || !tracestate(c.Tracestate)) {
		return invalid("tracestate %.80q needs a traceparent, and at most %d printable characters", c.Tracestate, MaxTracestate)
	}

	return c.Ladder.Check()
}

// CheckAudience validates the name of an audience. An empty name is valid and means none.
func CheckAudience(s string) error {
	if len(s) > MaxAudience || strings.ContainsFunc(s, notSegment) {
		return invalid("audience %.80q is not 1 to %d letters, digits, '_', '.', '~' or '-'", s, MaxAudience)
	}
	return nil
}

func notSegment(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.~-", r))
}

// HTTPS reports whether an address has the scheme https.
func HTTPS(address string) bool {
	return len(address) > 6 && strings.EqualFold(address[:6], "https:")
}

// SortHeaders sorts headers from an object or a map, which have no order, by name: a repeated call must give the same
// content. It returns a name that occurs twice, if any.
func SortHeaders(hs []Header) (twice string) {
	slices.SortStableFunc(hs, func(a, b Header) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	for i := 1; i < len(hs); i++ {
		if strings.EqualFold(hs[i-1].Name, hs[i].Name) {
			return hs[i].Name
		}
	}

	return ""
}

// CheckHeaders validates headers from a producer or the configuration. It rejects invalid names, reserved
// names, and values with control characters, which would allow header injection.
func CheckHeaders(hs []Header) error {
	if len(hs) > MaxHeaders {
		return invalid("headers: %d given, at most %d are allowed", len(hs), MaxHeaders)
	}

	total := 0
	for _, h := range hs {
		if h.Name == "" || strings.ContainsFunc(h.Name, notToken) {
			return invalid("headers: %.80q is not a header name", h.Name)
		}
		if Reserved(h.Name) {
			return invalid("headers: %s is reserved", h.Name)
		}
		if !printable(h.Value) {
			return invalid("headers: the value of %s holds a control character", h.Name)
		}

		total += len(h.Name) + len(h.Value)
	}

	if total > MaxHeaderBytes {
		return invalid("headers: %d bytes in all, at most %d are allowed", total, MaxHeaderBytes)
	}

	return nil
}

func notToken(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}

func printable(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 0x20 && c != '\t') || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

func traceparent(s string) bool {
	if len(s) != 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" {
		return false
	}
	if !isHex(s[:2]) || !isHex(s[3:35]) || !isHex(s[36:52]) || !isHex(s[53:]) {
		return false
	}

	return s[3:35] != strings.Repeat("0", 32) && s[36:52] != strings.Repeat("0", 16)
}

// isHex reports whether s consists of lower-case hexadecimal digits.
func isHex(s string) bool { return strings.Trim(s, hexDigits) == "" }

// tracestate reports whether s may be stored and sent as a tracestate. Its members are not parsed: only the
// tracing systems that wrote them can.
func tracestate(s string) bool {
	if len(s) > MaxTracestate || !strings.Contains(s, "=") {
		return false
	}

	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}

	return true
}

// Reserved reports whether a producer may not set the header: it frames the exchange, or this service sets
// it. Some servers read an underscore as a hyphen, so both count as equal.
func Reserved(name string) bool {
	switch l := strings.ReplaceAll(strings.ToLower(name), "_", "-"); l {
	case "host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer", "upgrade",
		"keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate", "expect", "accept-encoding",
		"user-agent", "traceparent", "tracestate":
		return true
	default:
		return strings.HasPrefix(l, "webhook-") || strings.HasPrefix(l, "notifier-")
	}
}
