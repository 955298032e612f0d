package audit

import (
	"strings"
	"time"

	"notifier/internal/access"
)

// Action is what somebody did.
type Action string

// The actions.
const (
	Cancel       Action = "cancel"
	Fire         Action = "fire"
	Reschedule   Action = "reschedule"
	Redrive      Action = "redrive" // of one notice, or of all that fit under a prefix
	Pause        Action = "pause"
	Resume       Action = "resume"
	Secret       Action = "secret" // a receiver's keys were shown
	SignIn       Action = "sign-in"
	SignOut      Action = "sign-out"
	Purge        Action = "purge" // of dead letters that fit under a prefix
	SendTest     Action = "send-test"
	PortalLink   Action = "portal-link"
	PortalRevoke Action = "portal-revoke"
	Restore      Action = "restore"       // notices were put back
	Replay       Action = "replay"        // was made
	ReplayStop   Action = "replay-stop"   // was stopped
	ReplayResume Action = "replay-resume" // goes on
	Erase        Action = "erase"         // of the history and of what Redis keeps; what was erased is told by a digest only
)

// Result is what came of it.
type Result string

// The results. What changes nothing, a refusal or a repetition, has no entry.
const (
	Done Result = "done"
	// Failed: Redis gave no answer, or refused. What was asked for may have
	// happened all the same, where the answer was lost.
	Failed Result = "failed"
)

// How somebody came.
const (
	API   = "api"
	Pages = "pages"
)

// Entry is one call.
type Entry struct {
	// ID orders entries by time. It and At, by Redis's clock, are given when the
	// entry is kept.
	ID string
	At time.Time
	// Client is the client's name, empty where none is configured. Address is its IP
	// address; behind a proxy that is not trusted, the proxy's.
	Client  string
	Address string
	Via     string // API or Pages
	Action  Action
	// Key is the notice's; of what concerns more than one it is empty, and Prefix
	// is what all of them lie under.
	Key    string
	Prefix string
	Route  string // the route's name, of what was done to a route
	Result Result
	// Detail says more, in a few words. It holds no secret and no content.
	Detail string
}

// Concerns reports whether all keys that the entry is about lie within the caller's
// scope.
func (e *Entry) Concerns(c access.Caller) bool {
	if e.Key != "" {
		return c.Covers(e.Key)
	}
	return c.Owns(e.Prefix)
}

// VisibleTo reports whether a caller may read the entry. Only admins read the entries
// of all clients. Of the others, a caller with a prefix reads entries about keys under
// that prefix, and a caller without one reads only its own entries.
func (e *Entry) VisibleTo(c access.Caller) bool {
	if c.Prefix == "" && !c.Everything() {
		return e.Client == c.Name
	}
	return e.Concerns(c)
}

// within reports whether the entry is about keys under prefix, or about that key.
func (e *Entry) within(prefix string) bool {
	return e.Key == prefix || e.Concerns(access.Caller{Prefix: prefix})
}

// The longest that is kept of a field, in bytes: a notice's key fits.
const maxField = 400

// clip keeps a field short and printable: it is shown on terminals.
func clip(s string) string {
	if len(s) > maxField {
		s = s[:maxField]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// Fields are the entry as the names and values of a stream's entry; what is
// empty is left out. Read is the inverse.
func (e *Entry) Fields() []string {
	var out []string
	for name, v := range e.named {
		if *v != "" {
			out = append(out, name, clip(*v))
		}
	}
	return out
}

// named walks the fields by their names.
func (e *Entry) named(yield func(name string, v *string) bool) {
	_ = yield("client", &e.Client) && yield("address", &e.Address) && yield("via", &e.Via) && yield("action", (*string)(&e.Action)) &&
		yield("key", &e.Key) && yield("prefix", &e.Prefix) && yield("route", &e.Route) && yield("result", (*string)(&e.Result)) &&
		yield("detail", &e.Detail)
}

// Read is an entry from the fields of a stream's. Fields that it does not know,
// of another version, are passed over.
func Read(id string, at time.Time, get func(name string) string) Entry {
	e := Entry{ID: id, At: at}
	for name, v := range e.named {
		*v = clip(get(name))
	}
	return e
}
