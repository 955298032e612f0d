package history

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// Row is one entry of the history: a finalized notice.
type Row struct {
	// Notice is the notice as it was finalized. Its Body is nil if bodies are not stored. Headers with secret
	// values have no value.
	*notice.Notice
	Outcome notice.Ending
	Number  int // of the entry, from 1
	Ended   time.Time
	Host    string // the called host; empty = none
	// BodySize is the length of the body in bytes, BodyHash its SHA-256 if bodies are hashed. BodyKept means
	// that Body is the body. A sealed row has a negative BodySize, and BodyKept means that it has the sealed text.
	BodySize int
	BodyHash []byte
	BodyKept bool
	// Withheld are the names of headers whose values are not stored: secrets, and all headers of a row that
	// the database rejected at first.
	Withheld []string
	// Damaged are the names of unreadable columns. Such a row is never sent again.
	Damaged []string
	// Shard has, of a row to write, the data keys of its sealed texts.
	Shard int
}

// sizeSealed is the BodySize of sealed rows. Their bodies have no known size.
const sizeSealed = -1

// WasSealed reports whether the notice was sealed, also if its sealed text is not stored.
func (r *Row) WasSealed() bool { return r.BodySize < 0 }

// rowOf returns the row of a finalized notice.
func rowOf(e store.Entry, bodies Bodies) Row {
	n := *e.Notice
	r := Row{Notice: &n, Outcome: e.Outcome, Number: e.Number, Ended: e.At, Host: e.Host}
	if n.Raw != nil { // an unreadable record has nothing else
		n.Body = n.Raw
	}

	if n.URL != "" {
		r.Host = HostOf(n.URL)
		n.URL = withoutPassword(n.URL)
	}

	if n.Sealed != "" {
		r.keepSealed(bodies)
		return r
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

// keepSealed drops the parts of a sealed content that are not stored. It has no headers in clear text.
func (r *Row) keepSealed(bodies Bodies) {
	r.BodySize = sizeSealed
	switch bodies {
	case BodiesHash:
		r.Sealed = ""
	case BodiesDrop:
		r.Sealed, r.Same = "", ""
	default:
		r.BodyKept = true
	}
}

// HostOf returns the host of an address, normalized by notice.Host; empty if it has none.
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

// PasswordWithheld reports whether an address may have had a password that is not stored: it has a user
// without a password.
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

// attemptsText returns the text of the column attempts: a JSON array with one object per attempt. The last object may
// have more members, for facts about the whole notice. Without attempts, the array is empty, or has one object with
// only these members.
//
//	resend     how often the notice was resent
//	resent     number of the notice's outcomes before its last resend
//	scheduled  the url as scheduled, and a digest of the content, if url or headers were changed since
//	expires, first_expires, expires_after, tick  as in the record
//	sealed_content, same  the sealed text of a content, and its digest
//	url_sealed  true if the sealed text has the query and the fragment of the url
//
// An attempt has the sealed text of its answer in sealed.
func attemptsText(n *notice.Notice) string {
	more := ""
	if n.Resend > 0 {
		more = fmt.Sprintf(`,"resend":%d,"resent":%d`, n.Resend, n.Resent)
	}

	if times := encode(timesOf(&n.Content)); times != "{}" {
		more += "," + times[1:len(times)-1]
	}

	if n.Scheduled != nil {
		more += `,"scheduled":` + encode(notice.AsScheduled{URL: withoutPassword(n.Scheduled.URL), Content: n.Scheduled.Content})
	}

	if n.Sealed != "" {
		more += sealedMember + encode(n.Sealed)
	}

	if n.Same != "" {
		more += sameMember + encode(n.Same)
	}

	if n.URLSealed {
		more += `,"url_sealed":true`
	}

	switch {
	case len(n.Attempts) == 0 && more != "":
		return "[{" + more[1:] + "}]"
	case len(n.Attempts) == 0:
		return "[]"
	}

	return strings.TrimSuffix(attemptList(n.Attempts), "}]") + more + "}]"
}

// The members of a sealed content in attemptsText. No text in JSON has them, because its quotation marks are escaped.
const (
	sealedMember = `,"sealed_content":`
	sameMember   = `,"same":`
)

// attemptList returns attempts as a JSON array, with their sealed answers.
func attemptList(list []notice.Attempt) string {
	if !slices.ContainsFunc(list, func(a notice.Attempt) bool { return a.Sealed != "" }) {
		return encode(list)
	}

	texts := make([]string, len(list))
	for i, a := range list {
		if texts[i] = encode(a); a.Sealed != "" {
			texts[i] = strings.TrimSuffix(texts[i], "}") + `,"sealed":` + encode(a.Sealed) + "}"
		}
	}

	return "[" + strings.Join(texts, ",") + "]"
}

// times are the times of a notice that have no column, in Unix ms and ms.
type times struct {
	Expires      int64 `json:"expires,omitempty"`
	FirstExpires int64 `json:"first_expires,omitempty"`
	ExpiresAfter int64 `json:"expires_after,omitempty"`
	Tick         int64 `json:"tick,omitempty"`
}

func timesOf(c *notice.Content) times {
	t := times{FirstExpires: c.FirstExpires, ExpiresAfter: c.ExpiresAfter.Milliseconds()}
	if !c.Expires.IsZero() {
		t.Expires = c.Expires.UnixMilli()
	}

	if !c.Tick.IsZero() {
		t.Tick = c.Tick.UnixMilli()
	}

	return t
}

func (t times) set(c *notice.Content) {
	c.FirstExpires, c.ExpiresAfter = t.FirstExpires, time.Duration(t.ExpiresAfter)*time.Millisecond
	if c.Expires, c.Tick = (time.Time{}), (time.Time{}); t.Expires > 0 {
		c.Expires = time.UnixMilli(t.Expires).UTC()
	}

	if t.Tick > 0 {
		c.Tick = time.UnixMilli(t.Tick).UTC()
	}
}

// readAttempts reads what attemptsText wrote.
func readAttempts(f *rowReader, n *notice.Notice) {
	text := []byte(f.text())
	var list []struct {
		N, Resend, Resent int
		Scheduled         *notice.AsScheduled
		Sealed, Same      string
		Content           string `json:"sealed_content"`
		URLSealed         bool   `json:"url_sealed"`
		times
	}
	readable := json.Unmarshal(text, &list) == nil
	if last := len(list) - 1; readable && last >= 0 {
		r := list[last]
		if r.Resend > 0 && r.Resend <= r.Resent && r.Resent <= n.Endings {
			n.Resend, n.Resent = r.Resend, r.Resent
		}

		n.Scheduled, n.Sealed, n.Same, n.URLSealed = r.Scheduled, r.Content, r.Same, r.URLSealed
		r.set(&n.Content)
		alone := n.Resend > 0 || n.Scheduled != nil || n.Sealed != "" || n.Same != "" || n.URLSealed || r.times != times{}
		if last == 0 && r.N == 0 && alone { // there are no attempts
			return
		}
	}

	if json.Unmarshal(text, &n.Attempts) != nil {
		n.Attempts, n.Resend, n.Resent, n.Scheduled, n.Sealed, n.Same, n.URLSealed = nil, 0, 0, nil, "", "", false
		times{}.set(&n.Content)
		f.damage()
	}

	for i := range min(len(n.Attempts), len(list)) {
		n.Attempts[i].Sealed = list[i].Sealed
	}
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

// encode writes JSON in which the words of an answer can be searched: it does not escape HTML.
func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "[]" // strings and numbers: it cannot fail
	}

	return strings.TrimSuffix(b.String(), "\n")
}

// columns of a row, in the order of values.
var columns = []string{"ended", "id", "ending", "app", "module", "type", "name", "route", "host", "outcome", "reason", "due", "made",
	"attempts_made", "url", "audience", "method", "content_type", "retry", "trace", "headers", "attempts", "body_size", "body_sha256",
	"body_text", "body"}

// plain returns text that PostgreSQL accepts: UTF-8 without zero bytes.
func plain(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] == 0 || s[i] >= utf8.RuneSelf {
			return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
		}
	}
	return s
}

// parts returns the four segments of a key. A text that is not a key, which a record in a foreign field of
// the hash may have, is all name.
func parts(key string) keys.Key {
	k, err := keys.Parse(key)
	if err != nil {
		return keys.Key{ID: plain(key)}
	}

	return k
}

// textual reports whether a body is stored as text, whose words can be searched.
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
