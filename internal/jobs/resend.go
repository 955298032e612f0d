package jobs

import (
	"fmt"

	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Refusal is the error of a notice that is not resent.
type Refusal struct {
	State  notice.State // the notice's; empty if the key has another notice
	Reason Reason
	Args   []any // of the reason
}

// Refuse returns a Refusal.
func Refuse(state notice.State, reason Reason, args ...any) *Refusal {
	return &Refusal{state, reason, args}
}

// Error implements error.
func (r *Refusal) Error() string { return "the notice is not resent: " + r.Why() }

// Why returns the reason. It names the call to use instead, if one helps.
func (r *Refusal) Why() string { return fmt.Sprintf(r.Reason.text, r.Args...) }

// Reason is a reason for which a notice is not resent. Only this package has reasons, so that [Reasons] lists all that
// the pages have to translate.
type Reason struct{ text string }

// Text returns the reason with %[1]v and %[2]v in place of the arguments.
func (r Reason) Text() string { return r.text }

var allReasons []Reason

// Reasons returns all reasons.
func Reasons() []Reason { return allReasons }

func reason(text string) Reason {
	r := Reason{text}
	allReasons = append(allReasons, r)
	return r
}

// The reasons. AnotherNotice has the id of the key's notice as argument, NotCurrent the current ending and the one that
// the call named.
var (
	Changing      = reason("other calls change it at the moment; read it again")
	AnotherNotice = reason("the key has another notice, with the id %[1]v")
	ProducersKey  = reason("its producer has set the key in Redis; delete the key, or schedule a new notice under another key")
	NotCurrent    = reason("its current ending is %[1]v, not %[2]v; read it again, then resend that ending if it is still needed")

	IsScheduled = reason("it is scheduled and waits for its next attempt; fire it to send it now")
	IsClaimed   = reason("an attempt is in flight; read it again when that has ended")
	IsCancelled = reason("it was cancelled; schedule it again with on_duplicate replace")
	IsReplaced  = reason("another notice has replaced it; schedule a new notice")

	NoRecord     = reason("its record cannot be read; schedule a new notice")
	NoDeadRecord = reason("its record cannot be read; redrive it")

	bodyHashed  = reason("Redis does not keep it any more, and the history has only a digest of its body; schedule a new notice")
	bodyDropped = reason("Redis does not keep it any more, and the history does not have its body; schedule a new notice")
	secretLost  = reason("Redis does not keep it any more, and the history keeps no secret headers or passwords of urls; " +
		"schedule a new notice")
	forgotten = reason("its subject was forgotten, so its sealed content cannot be read any more; schedule a new notice")
	keyLost   = reason("the key of its sealed content is lost; schedule a new notice")
	noRoute   = reason("no route covers its key any more; configure one, or schedule a new notice under another key")
	unfit     = reason("its route does not accept it any more: its url or audience is missing or not allowed; schedule a new notice")
)

// refusals are the reasons why a notice is not resent from the history, by the result of Judge.
var refusals = map[string]Reason{
	BodyHashed: bodyHashed, BodyDropped: bodyDropped, SecretLost: secretLost, Unreadable: NoRecord, NoRoute: noRoute, Unfit: unfit,
	KeyForgotten: forgotten, KeyLost: keyLost,
}

// RefuseRow returns the Refusal of a history entry whose notice a [Keyring] has refused with a result.
func RefuseRow(row *history.Row, result string) *Refusal {
	return Refuse(notice.State(row.Outcome), refusals[result])
}

// FromRow returns the notice of a history entry for a resend, or a *Refusal.
func FromRow(table *route.Table, row *history.Row) (*notice.Notice, error) {
	to, refused := Judge(table, row)
	if refused != "" {
		return nil, RefuseRow(row, refused)
	}

	n := *row.Notice
	n.Route, n.Content, n.FirstDue = to.Prefix, content(to, row), notice.UnknownDue
	return store.Again(&n, row.Number), nil
}
