package jobs

import (
	"cmp"
	"time"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// The results of items. The first four are those of the script.
const (
	Sent         = "sent"            // its notice was scheduled
	Pending      = "pending"         // something waits under its key, or is worked on
	Dead         = "dead"            // another notice's dead letter has the key
	Cancelled    = "cancelled"       // it was cancelled since
	Gone         = "gone"            // its row is not in the history any more
	BodyHashed   = "body_hashed"     // NOTIFIER_HISTORY_BODIES was hash
	BodyDropped  = "body_dropped"    // it was drop, or the database refused the body
	SecretLost   = "secret_not_kept" // a header's value or a url's password, which the history never keeps
	KeyForgotten = "forgotten"       // the subject of its sealed content was forgotten
	KeyLost      = "key_lost"        // neither Redis nor the history has the key of its sealed content
	Unreadable   = "unreadable"      // its record could not be read
	NoRoute      = "no_route"        // no route covers its key today
	Unfit        = "unfit"           // today's route does not take it: url or audience are missing, or may not be called
)

// Results are all results of an item.
var Results = []string{Sent, Pending, Dead, Cancelled, Gone, BodyHashed, BodyDropped, SecretLost, KeyForgotten, KeyLost, Unreadable,
	NoRoute, Unfit}

// Judge returns the current route for a row's notice and the reason why it cannot be replayed; "" =
// it can. It uses only the fields of the row that history.DB.Choose returns.
func Judge(table *route.Table, row *history.Row) (to *route.Route, refused string) {
	switch {
	case row.Reason == notice.ReasonUnreadable || row.Reason == notice.ReasonMissing || row.Made <= 0 || len(row.Damaged) > 0:
		return nil, Unreadable
	case !row.BodyKept && (row.BodyHash != nil || row.Same != ""):
		return nil, BodyHashed
	case !row.BodyKept:
		return nil, BodyDropped
	case !keys.Valid(row.Key):
		return nil, NoRoute
	}

	if to = table.Match(row.Key); to == nil {
		return nil, NoRoute
	}
	if len(row.Withheld) > 0 || to.Target.Kind == route.KindNotice && history.PasswordWithheld(row.URL) {
		return to, SecretLost
	}

	c := content(to, row)
	if len(to.Misfits(&c)) > 0 {
		return to, Unfit
	}

	return to, ""
}

// content returns the content of the notice for a route. Its own address is included only if each
// notice of the route has one. It has no expiry, because the notice is sent again on purpose.
func content(to *route.Route, row *history.Row) notice.Content {
	c := row.Content.WithoutExpiry()
	if to.Target.Kind != route.KindNotice {
		c.URL = ""
	}

	return c
}

// hostNow is the host that a route calls for a notice with an address; empty = none.
func hostNow(to *route.Route, address string) string {
	switch to.Target.Kind {
	case route.KindNotice:
		return history.HostOf(address)
	case route.KindFixed:
		host, err := notice.Host(to.Target.URL.Hostname())
		if err != nil {
			return ""
		}

		return host
	}
	return ""
}

// itemOf converts an item of the database for the store.
func itemOf(table *route.Table, r *history.Replay, it *history.ReplayItem, delay time.Duration) Item {
	out := Item{Number: it.Number, Delay: delay}
	if it.Row == nil {
		out.Result = Gone
		return out
	}

	to, refused := Judge(table, it.Row)
	if refused != "" {
		out.Result = refused
		return out
	}

	out.Notice = &notice.Notice{Key: it.Row.Key, Route: to.Prefix, Made: it.Row.Made, Replay: cmp.Or(r.Name, r.ID),
		FirstDue: notice.UnknownDue, Content: content(to, it.Row)}
	if !r.NewIDs {
		n := max(it.Row.AttemptsMade, 0)
		out.AttemptsMade, out.Redriven, out.Endings = n, n, it.Row.Number
	}

	return out
}
