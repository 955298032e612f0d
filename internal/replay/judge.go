package replay

import (
	"cmp"
	"time"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// What may come of an item beside store.ReplaySent. The first three are the
// script's.
const (
	Pending     = "pending"         // something waits under its key, or is worked on
	Dead        = "dead"            // another notice's dead letter lies under its key
	Cancelled   = "cancelled"       // it was cancelled since
	Gone        = "gone"            // its row is not in the history any more
	BodyHashed  = "body_hashed"     // NOTIFIER_HISTORY_BODIES was hash
	BodyDropped = "body_dropped"    // it was drop, or the database refused the body
	SecretLost  = "secret_not_kept" // a header's value or a url's password, which the history never keeps
	Unreadable  = "unreadable"      // its record could not be read
	NoRoute     = "no_route"        // no route covers its key today
	Unfit       = "unfit"           // today's route does not take it: url or audience are missing, or may not be called
)

// Results are all that may come of an item.
var Results = []string{store.ReplaySent, Pending, Dead, Cancelled, Gone, BodyHashed, BodyDropped, SecretLost, Unreadable, NoRoute, Unfit}

// Judge says where a row's notice would go today, and what keeps it from that;
// "" = nothing does. Of the row only what history.DB.Choose gives is looked at.
func Judge(table *route.Table, row *history.Row) (to *route.Route, refused string) {
	switch {
	case row.Reason == notice.ReasonUnreadable || row.Reason == notice.ReasonMissing || row.Made <= 0 || len(row.Damaged) > 0:
		return nil, Unreadable
	case !row.BodyKept && row.BodyHash != nil:
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

// content is what the notice brings along to a route. Its own address only goes
// where each notice brings one.
func content(to *route.Route, row *history.Row) notice.Content {
	c := row.Content
	if to.Target.Kind != route.KindNotice {
		c.URL = ""
	}
	return c
}

// hostNow is the host that a route calls for the notice of a row; empty = none.
func hostNow(to *route.Route, row *history.Row) string {
	switch to.Target.Kind {
	case route.KindNotice:
		return history.HostOf(row.URL)
	case route.KindFixed:
		host, err := notice.Host(to.Target.URL.Hostname())
		if err != nil {
			return ""
		}
		return host
	}
	return ""
}

// item is what the store schedules of an item of the database.
func item(table *route.Table, r *history.Replay, it *history.ReplayItem, delay time.Duration) store.ReplayItem {
	out := store.ReplayItem{Number: it.Number, Delay: delay}
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
		Content: content(to, it.Row)}
	if !r.NewIDs {
		n := max(it.Row.AttemptsMade, 0)
		out.AttemptsMade, out.Redriven, out.Endings = n, n, it.Row.Number
	}
	return out
}
