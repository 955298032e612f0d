package tracing

import (
	"encoding/json"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// MaxBody is the maximum length of the body in a copy, in bytes.
const MaxBody = 64 << 10

// Push is the Method of a copy of an entry of a list or stream.
const Push = "PUSH"

// Copy is a copy of one attempt, without a signature.
type Copy struct {
	Key     string    `json:"key"`
	Route   string    `json:"route"` // its name
	ID      string    `json:"id"`    // the webhook-id
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"` // when the handler returned
	// Target is the kind of the route's target.
	Target route.Kind `json:"target"`
	Method string     `json:"method"`
	// URL is the receiver's address. Empty: there is none, as on a log route.
	URL string `json:"url,omitempty"`
	// Query is the query of a GET.
	Query   string          `json:"query,omitempty"`
	Headers []notice.Header `json:"headers,omitempty"`
	Body    []byte          `json:"body,omitempty"`
	// Size is the length of the whole body. Cut reports whether Body is only its beginning.
	Size int  `json:"size"`
	Cut  bool `json:"cut,omitempty"`
	// Masked reports whether the instance that made the copy has masked it.
	Masked bool `json:"masked,omitempty"`
	// Standard reports whether the attempt was signed with the scheme standard, and Schemes
	// lists all schemes.
	Standard bool           `json:"standard,omitempty"`
	Schemes  string         `json:"schemes,omitempty"`
	Outcome  notice.Outcome `json:"outcome"`
	Reason   notice.Reason  `json:"reason,omitempty"`
	Status   int            `json:"status,omitempty"`
}

// SetBody sets the copy's body, or the beginning of one that is longer than MaxBody.
func (c *Copy) SetBody(body []byte) {
	c.Size = len(body)
	if c.Cut = len(body) > MaxBody; c.Cut {
		body = body[:MaxBody]
	}

	c.Body = body
}

// message is one message on the channel. It has one of the three members.
type message struct {
	Copy *Copy `json:"copy,omitempty"`
	// Seen: an instance has seen a tap, and publishes copies for it.
	Seen *seen `json:"seen,omitempty"`
	// Dropped is how many copies an instance has dropped, by the prefix of the taps.
	Dropped map[string]int64 `json:"dropped,omitempty"`
}

type seen struct {
	Tap      string `json:"tap"`
	Instance string `json:"instance"`
}

// encode makes the text of a message. Strings and numbers can always be encoded.
func (m *message) encode() []byte {
	b, _ := json.Marshal(m)
	return b
}

// member is a tap as the zset has it.
type member struct{ client, id, prefix string }

// noClient is the name of the client where none is configured. No client can have it.
const noClient = "-"

func (m member) owner() string {
	if m.client == "" {
		return noClient + " "
	}
	return m.client + " "
}

func (m member) String() string { return m.owner() + m.id + " " + m.prefix }

// parseMember is the inverse of String.
func parseMember(text string) (m member, ok bool) {
	client, rest, some := strings.Cut(text, " ")
	id, prefix, more := strings.Cut(rest, " ")
	return member{client, id, prefix}, some && more && id != "" && (prefix == "" || keys.CheckPrefix(prefix) == nil)
}
