package notice

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// CanonicalURL validates the address of a target and returns its canonical form, which is stored, compared, shown and
// called. Characters that servers refuse in a request line are percent-encoded byte by byte: spaces, bytes outside
// ASCII and "<>\^`{|}. A bare % is encoded in a query and refused in a path. Everything else stays as given.
// The canonical form of a canonical form is the same.
func CanonicalURL(s string) (string, error) {
	s, err := encodeURL(s)
	if err != nil {
		return "", err
	}
	if len(s) > MaxURL {
		return "", invalid("url is %d bytes long when percent-encoded, at most %d are allowed", len(s), MaxURL)
	}

	u, err := url.Parse(s)
	if err != nil {
		return "", invalid("url cannot be parsed; want http://host/path or https://host/path")
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return "", invalid("url must be absolute, http or https, and name a host")
	}
	if _, err := Host(u.Hostname()); err != nil {
		return "", invalid("url names the host %.80q, which is not a public host name", u.Hostname())
	}
	if strings.HasSuffix(u.Host, ":") {
		return "", invalid("url has a colon after the host but no port; remove the colon")
	}

	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", invalid("url has the port %.20s; want a number from 1 to 65535", port)
		}
	}

	return s, nil
}

// encodeURL returns an address with its path and query in canonical form. It leaves scheme and host unchecked.
func encodeURL(s string) (string, error) {
	if strings.TrimFunc(s, invisible) != s {
		return "", invalid("url has white space before or after it; remove it")
	}

	path := len(s)
	if at := strings.Index(s, "://"); at >= 0 {
		if end := strings.IndexAny(s[at+3:], "/?#"); end >= 0 {
			path = at + 3 + end
		}
	}

	var out []byte // nil as long as nothing changes
	done, inQuery := 0, false
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c == 0x7f {
			return "", invalid("url holds a control character; remove it, or percent-encode it if the receiver wants it")
		}
		if i < path {
			continue
		}

		bare := barePercent(s, i)
		if inQuery = inQuery || c == '?' || c == '#'; bare && !inQuery {
			return "", invalid("url has a %% in its path that no two hexadecimal digits follow; write %%25 for the character %%")
		}

		if bare || refused(c) {
			out = append(append(out, s[done:i]...), '%', upperHex[c>>4], upperHex[c&15])
			done = i + 1
		}
	}

	if out == nil {
		return s, nil
	}

	return string(append(out, s[done:]...)), nil
}

// barePercent reports whether s[i] is a % that two hexadecimal digits do not follow.
func barePercent(s string, i int) bool {
	return s[i] == '%' && (i+2 >= len(s) || !hexDigit(s[i+1]) || !hexDigit(s[i+2]))
}

const upperHex = "0123456789ABCDEF"

// refused reports whether some servers answer 400 if a path or a query contains the byte. Tomcat refuses each of them.
func refused(c byte) bool {
	switch c {
	case ' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}':
		return true
	}
	return c >= 0x80
}

// invisible reports whether a character is white space or a format character such as a byte order mark.
func invisible(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// PasswordMissing reports whether a password may have been removed from a URL that was shown or stored. A notice that
// is sent to such a URL cannot be restored. fromHistory is true if the URL comes from the history, the database of
// finalized notices, which stores no password. Elsewhere, xxxxx replaces a removed password.
func PasswordMissing(address string, fromHistory bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return false
	}

	// A user without a password may have had none. In the history this is not known, so it counts as removed.
	_, has := u.User.Password()
	return has && u.Redacted() == u.String() || !has && fromHistory
}
