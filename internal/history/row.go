package history

import (
	"crypto/sha256"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// Row is one ending of a notice as history keeps it.
type Row struct {
	// Notice as it was when it ended. Its Body is nil where bodies are not kept;
	// headers whose values were secrets have none.
	*notice.Notice
	Outcome notice.Ending
	Number  int // of the ending, from 1
	Ended   time.Time
	Host    string // that was called; empty = none
	// BodySize is the body's length in bytes; BodyHash its SHA-256 where bodies are
	// hashed. BodyKept: the body is what it was.
	BodySize int
	BodyHash []byte
	BodyKept bool
	// Withheld are the names of headers whose values are not kept: secrets, and all
	// of a row that the database has refused as it was.
	Withheld []string
	// Damaged are the names of columns that cannot be read. Such a row is never sent again.
	Damaged []string
}

// rowOf is an ending as a row.
func rowOf(e store.Ended, bodies Bodies) Row {
	n := *e.Notice
	r := Row{Notice: &n, Outcome: e.Outcome, Number: e.Number, Ended: e.At, Host: e.Host}
	if n.Raw != nil { // all that is known of it
		n.Body = n.Raw
	}
	if n.URL != "" {
		r.Host = HostOf(n.URL)
		n.URL = withoutPassword(n.URL)
	}
	r.BodySize = len(n.Body)
	switch {
	case bodies == BodiesKeep || bodies == "" || len(n.Body) == 0:
		r.BodyKept = true
	case bodies == BodiesHash:
		sum := sha256.Sum256(n.Body)
		r.BodyHash, n.Body = sum[:], nil
	default:
		n.Body = nil
	}
	if len(n.Headers) > 0 {
		n.Headers = append([]notice.Header(nil), n.Headers...)
		for i, h := range n.Headers {
			if notice.SecretName(h.Name) {
				n.Headers[i].Value = ""
				r.Withheld = append(r.Withheld, h.Name)
			}
		}
	}
	return r
}

// HostOf is the host of an address in the form of notice.Host; empty if it has
// none.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host, err := notice.Host(u.Hostname())
	if err != nil {
		return ""
	}
	return host
}

// PasswordWithheld reports whether an address may have had a password that is not
// kept: it has a user and none.
func PasswordWithheld(address string) bool { return notice.PasswordMissing(address, true) }

func withoutPassword(address string) string {
	if !strings.Contains(address, "@") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	if _, has := u.User.Password(); has {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

func attemptsText(list []notice.Attempt) string {
	if len(list) == 0 {
		return "[]"
	}
	return encode(list)
}

func readAttempts(f *rowReader) (list []notice.Attempt) {
	if json.Unmarshal([]byte(f.text()), &list) != nil {
		f.damage()
		return nil
	}
	return list
}

func headersText(r *Row) string {
	if len(r.Headers) == 0 {
		return "[]"
	}
	out := make([][]string, len(r.Headers))
	for i, h := range r.Headers {
		out[i] = []string{h.Name, h.Value}
		if notice.SecretName(h.Name) || slices.Contains(r.Withheld, h.Name) {
			out[i] = out[i][:1]
		}
	}
	return encode(out)
}

func readHeaders(f *rowReader) (list []notice.Header, withheld []string) {
	var pairs [][]string
	if json.Unmarshal([]byte(f.text()), &pairs) != nil {
		f.damage()
		return nil, nil
	}
	for _, p := range pairs {
		switch len(p) {
		case 1:
			list, withheld = append(list, notice.Header{Name: p[0]}), append(withheld, p[0])
		case 2:
			list = append(list, notice.Header{Name: p[0], Value: p[1]})
		}
	}
	return list, withheld
}

// encode writes JSON in which a word of an answer can be found as it stands.
func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "[]" // strings and numbers: it does not fail
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// columns of a row, in the order of values.
var columns = []string{"ended", "id", "ending", "app", "module", "type", "name", "route", "host", "outcome", "reason", "due", "made",
	"attempts_made", "url", "audience", "method", "content_type", "retry", "trace", "headers", "attempts", "body_size", "body_sha256",
	"body_text", "body"}

// plain is text as PostgreSQL takes it: without zero bytes, in UTF-8.
func plain(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] == 0 || s[i] >= utf8.RuneSelf {
			return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
		}
	}
	return s
}

// parts are the four of a key. What is no key, which a record under a foreign
// field of the hash may be, is all name.
func parts(key string) keys.Key {
	k, err := keys.Parse(key)
	if err != nil {
		return keys.Key{ID: plain(key)}
	}
	return k
}

// textual reports whether a body is kept as text, in which words can be found.
func textual(body []byte) bool {
	if !utf8.Valid(body) {
		return false
	}
	for _, c := range body {
		if c == 0 {
			return false
		}
	}
	return true
}
