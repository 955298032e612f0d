package audit

import (
	"strings"
	"time"

	"notifier/internal/auth"
	"notifier/internal/keys"
)

// Action is the audited action.
type Action string

// The actions.
const (
	Cancel         Action = "cancel"
	Fire           Action = "fire"
	Reschedule     Action = "reschedule"
	Readdress      Action = "readdress" // got another url or other headers
	Redrive        Action = "redrive"   // of one notice, or of all that fit under a prefix
	Resend         Action = "resend"    // of one notice
	PauseReceiver  Action = "pause-receiver"
	ResumeReceiver Action = "resume-receiver"
	LimitReceiver  Action = "limit-receiver"
	Pause          Action = "pause"
	Resume         Action = "resume"
	Release        Action = "release" // of a prefix that was recorded for workers
	Secret         Action = "secret"  // a receiver's keys were shown
	SignIn         Action = "sign-in"
	SignOut        Action = "sign-out"
	Purge          Action = "purge" // of dead letters that fit under a prefix
	SendTest       Action = "send-test"
	PortalLink     Action = "portal-link"
	PortalRevoke   Action = "portal-revoke"
	Restore        Action = "restore"         // notices were put back
	Replay         Action = "replay"          // was made
	ReplayStop     Action = "replay-stop"     // was stopped
	ReplayResume   Action = "replay-resume"   // goes on
	Redirect       Action = "redirect"        // was started
	RedirectStop   Action = "redirect-stop"   // was stopped
	RedirectGoOn   Action = "redirect-resume" // goes on
	CancelMany     Action = "cancel-many"     // a job was started
	JobStop        Action = "job-stop"
	JobResume      Action = "job-resume"
	Recur          Action = "recur" // a recurring notice was created or replaced
	RecurDelete    Action = "recur-delete"
	RecurPause     Action = "recur-pause"
	RecurResume    Action = "recur-resume"
	RecurRun       Action = "recur-run"   // a notice of it was stored for now
	Settings       Action = "settings"    // an instance started with other settings of a route
	Tap            Action = "tap"         // copies of attempts under a prefix were streamed
	Erase          Action = "erase"       // of the history and of notices in Redis; the erased key or host is only stored as a digest
	Forget         Action = "forget"      // of a subject of sealed notices
	ForgetLift     Action = "forget-lift" // of a forgotten subject
	Open           Action = "open"        // the content of sealed notices was shown
)

// Class decides which of a client's two streams an entry is in. Calls of one class cannot
// push entries of the other out.
type Class string

// The classes.
const (
	Rare     Class = "rare"
	Frequent Class = "frequent"
)

// Classes are all of them.
var Classes = []Class{Rare, Frequent}

// Class is that of an action. Actions that programs take by the thousand are frequent, as
// is any action of another version.
func (a Action) Class() Class {
	switch a {
	case SignIn, Secret, Purge, Erase, Forget, ForgetLift, Pause, Resume, Release, PauseReceiver, ResumeReceiver, LimitReceiver,
		Replay, ReplayStop, ReplayResume, Restore, PortalLink, PortalRevoke,
		Redirect, RedirectStop, RedirectGoOn, CancelMany, JobStop, JobResume, Recur, RecurDelete, RecurPause, RecurResume, Tap, Settings:
		return Rare
	}
	return Frequent
}

// Result is the result of an action.
type Result string

// The results. A refusal, and usually a repetition, changes nothing and has no entry.
const (
	Done Result = "done"
	// Failed: Redis did not answer, or refused. The action may have been done if only the reply was
	// lost.
	Failed Result = "failed"
)

// The ways of signing in, the start of an instance, and the rule of a route. Rule is the client of its entries, too.
const (
	API   = "api"
	Pages = "pages"
	Start = "start"
	Rule  = "rule"
)

// Entry is a call, or several that were the same within a minute.
type Entry struct {
	// ID orders entries by time. It and At, by Redis's clock, are given when the
	// entry is kept.
	ID string
	At time.Time
	// Place is where a page that ends with the entry goes on: see [Range].
	Place string
	// Count is the number of calls. The first was at At, the last at most a minute later.
	Count int
	// Client is the client's name; empty if no clients are configured. Address is its IP address, or that
	// of an untrusted proxy. An entry of an instance has no client, and its label as the address. That of a rule has the
	// client Rule.
	Client  string
	Address string
	Via     string // API, Pages, Start or Rule
	Action  Action
	// Key is the key of the notice. It is empty if the action concerns several notices; Prefix is then
	// their common prefix.
	Key    string
	Prefix string
	Route  string // the name of the route on which the action was done
	Result Result
	// Detail says more, in a few words. It holds no secret and no content.
	Detail string
}

// VisibleTo reports whether a caller may read the entry: an admin without a prefix reads
// the entries of all clients, any other caller its own.
func (e *Entry) VisibleTo(c auth.Caller) bool {
	return c.Everything() || e.Client == c.Name
}

// within reports whether the entry is about keys under prefix, or about that key.
func (e *Entry) within(prefix string) bool {
	if e.Key != "" {
		return e.Key == prefix || keys.HasPrefix(e.Key, prefix)
	}
	return e.Prefix == prefix || keys.HasPrefix(e.Prefix, prefix)
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

// Fields returns the entry as names and values of a stream entry, without empty ones. Read is the
// inverse.
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

// Read returns the entry with the fields of a stream entry. It ignores unknown fields, which come
// from another version.
func Read(id string, at time.Time, get func(name string) string) Entry {
	e := Entry{ID: id, At: at, Count: 1}
	for name, v := range e.named {
		*v = clip(get(name))
	}

	return e
}
