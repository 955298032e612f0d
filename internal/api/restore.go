package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"notifier/internal/audit"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// RestoreRequest is a notice that was pending, as the listing shows it, or a dead
// letter as the history, the listing or the pages' download does. It is for the
// document only: parseLetter reads it.
type RestoreRequest struct {
	Key          string            `json:"key" maxLength:"323"`
	ID           string            `json:"id" doc:"The webhook-id of its callbacks, which it has again."`
	State        string            `json:"state,omitempty" enum:"scheduled,claimed,dead" doc:"Or outcome: one of the two."`
	Outcome      string            `json:"outcome,omitempty" enum:"dead"`
	Reason       string            `json:"reason,omitempty"`
	Due          string            `json:"due,omitempty" format:"date-time" doc:"Required of what was pending: when it is due again, or now if that has passed."`
	CreatedAt    string            `json:"created_at" format:"date-time"`
	SettledAt    string            `json:"settled_at,omitempty" format:"date-time" doc:"Required of a dead letter: when it died; or ended_at: one of the two."`
	EndedAt      string            `json:"ended_at,omitempty" format:"date-time"`
	Attempt      int               `json:"attempt,omitempty" doc:"One more than the attempts made; or attempts_made."`
	AttemptsMade int               `json:"attempts_made,omitempty"`
	MaxAttempts  int               `json:"max_attempts,omitempty" doc:"Read of what had been dead before: it has as many."`
	EndedBefore  int               `json:"ended_before,omitempty" doc:"How often it had ended before; or ending, which is one more."`
	Ending       int               `json:"ending,omitempty"`
	Replay       string            `json:"replay,omitempty" maxLength:"64" doc:"The id of the replay that sent it again."`
	Attempts     []Attempt         `json:"attempts,omitempty"`
	URL          string            `json:"url,omitempty" doc:"Refused if its password was removed: the password is xxxxx, or an entry of the history has a user and no password."`
	Audience     string            `json:"audience,omitempty"`
	Method       string            `json:"method,omitempty" enum:"POST,PUT,GET"`
	ContentType  string            `json:"content_type,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
	Withheld     []string          `json:"headers_withheld,omitempty" doc:"If there are any, it is refused."`
	Retry        *Steps            `json:"retry,omitempty"`
	Body         any               `json:"body,omitempty"`
	BodyBase64   string            `json:"body_base64,omitempty"`
	BodyKept     *bool             `json:"body_kept,omitempty" doc:"If false, it is refused."`
	Unreadable   []string          `json:"unreadable,omitempty" doc:"If there are any, it is refused."`
	// What says nothing of it that is not known otherwise.
	Client      string `json:"client,omitempty" doc:"Is not read: the client that puts a notice back is recorded."`
	Route       string `json:"route,omitempty" doc:"Is not read, as the following: the key's route of today holds."`
	Host        string `json:"host,omitempty"`
	BodySize    int    `json:"body_size,omitempty"`
	BodySHA256  string `json:"body_sha256,omitempty"`
	OnDuplicate string `json:"on_duplicate,omitempty"`
}

var restoreFields = []string{"key", "id", "state", "outcome", "reason", "due", "created_at", "settled_at", "ended_at", "attempt", "attempts_made",
	"ended_before", "ending", "replay", "attempts", "url", "audience", "method", "content_type", "headers", "headers_withheld", "retry", "body", "body_base64",
	"body_kept", "unreadable", "client", "route", "host", "max_attempts", "next_attempt_at", "body_size", "body_sha256", "on_duplicate"}

// restore serves POST /v1/notices/restore.
func (a *api) restore(w http.ResponseWriter, r *http.Request, at site) error {
	items, lines, err := a.readBatch(w, r, at.caller, a.parseLetter)
	if err != nil {
		return err
	}
	at.call.batch(items)
	var letters []store.Letter
	for i := range items {
		if items[i].sent = -1; items[i].problem == nil {
			items[i].sent = len(letters)
			letters = append(letters, items[i].letter)
		}
	}
	var replies []store.Reply
	back := 0
	if len(letters) > 0 {
		number := a.clientNumber(r.Context(), at.caller) // the file's word is not taken for who scheduled it
		for i := range letters {
			letters[i].Client = number
		}
		replies = a.restorer.Restore(r.Context(), letters)
	}
	for i := range replies {
		switch x := &replies[i]; {
		case errors.Is(x.Err, store.ErrTaken):
			p := problem(http.StatusConflict, "another notice is kept under this key, or this one is no dead letter any more: it is %s", x.State)
			p.State = string(x.State)
			x.Err = p
		case x.Created && (x.Err == nil || errors.Is(x.Err, wire.ErrUnconfirmed)):
			back++
		}
	}
	if back > 0 {
		a.operated(r, at, audit.Entry{Action: audit.Restore, Prefix: at.Prefix, Detail: notice.Count(back, "notice")}, nil)
	}
	return a.answerBatch(w, r, at.caller, batched{items, replies, lines})
}

// maxAttempts is more than any notice makes.
const maxAttempts = 1 << 30

// parseLetter reads one notice to put back. All that it takes to be sent as it would
// have been must be there.
func (a *api) parseLetter(data []byte, prefix string, c caller, _ string) (it item, err error) {
	var f faults
	if int64(len(data)) > a.itemLimit() {
		return it, tooLarge("the notice", a.itemLimit())
	}
	n := &notice.Notice{}
	it.letter.Notice = n
	var id string
	var made time.Time
	var state notice.State
	fromHistory, most := false, 0
	err = object(data, prefix, restoreFields, &f, func(name, at string, raw []byte) {
		switch name {
		case "key":
			it.req.Key = stringField(&f, at, raw)
		case "id":
			id = stringField(&f, at, raw)
		case "state", "outcome":
			state, fromHistory = notice.State(stringField(&f, at, raw)), fromHistory || name == "outcome"
			if pending := state == notice.Scheduled || state == notice.Claimed; state != notice.Dead && (name == "outcome" || !pending) {
				f.add(at, shown(raw), "want scheduled, claimed or dead: what has been delivered or cancelled is not put back")
			}
		case "reason":
			n.Reason = reasonField(&f, at, raw)
		case "due":
			n.Due = instantField(&f, at, raw)
		case "created_at":
			made = instantField(&f, at, raw)
		case "settled_at", "ended_at":
			it.letter.Died = instantField(&f, at, raw)
		case "attempt":
			n.AttemptsMade = countField(&f, at, raw, 1) - 1
		case "max_attempts":
			most = countField(&f, at, raw, 1)
		case "attempts_made":
			n.AttemptsMade = countField(&f, at, raw, 0)
		case "ending":
			n.Endings = countField(&f, at, raw, 1) - 1
		case "ended_before":
			n.Endings = countField(&f, at, raw, 0)
		case "replay":
			if n.Replay = stringField(&f, at, raw); !replayNames.MatchString(n.Replay) {
				f.add(at, clip(n.Replay, 100), "want the id of a replay")
			}
		case "attempts":
			n.Attempts = attemptsField(&f, at, raw)
		case "headers_withheld":
			if string(raw) != "[]" {
				f.add(at, shown(raw), "the values of these headers are secrets and were not kept")
			}
		case "unreadable":
			if string(raw) != "[]" {
				f.add(at, shown(raw), "the history cannot read these parts of it")
			}
		case "body_kept":
			if string(raw) != "true" {
				f.add(at, shown(raw), "its body was not kept")
			}
		default:
			it.contentField(&f, name, at, raw)
		}
	})
	if err != nil {
		return it, err
	}
	if err := a.bodyOf(&it, prefix, &f); err != nil {
		return it, err
	}
	if notice.PasswordMissing(it.req.URL, fromHistory) {
		f.add(prefix+"url", nil, "names a user, whose password was not kept")
	}
	switch {
	case len(f) > 0:
	case state == "":
		f.add(prefix+"state", nil, "is missing; want scheduled, claimed or dead")
	case state != notice.Dead && n.Due.IsZero():
		f.add(prefix+"due", nil, "is missing: when it is due")
	case state == notice.Dead && it.letter.Died.IsZero():
		f.add(prefix+"settled_at", nil, "is missing: when it died")
	case n.Reason == notice.ReasonUnreadable || n.Reason == notice.ReasonMissing:
		f.add(prefix+"reason", string(n.Reason), "nothing of such a notice was kept that could be put back")
	case len(n.Attempts) > 0 && n.Attempts[len(n.Attempts)-1].Number > n.AttemptsMade:
		f.add(prefix+"attempts", nil, "are more than were made")
	}
	if it.json && it.req.ContentType == "application/json" {
		it.req.ContentType = "" // what is shown of a JSON body whose type was not given
	}
	if err := a.place(&it.req, prefix, c, f); err != nil {
		return it, err
	}
	n.Key, n.Content = it.req.Key, it.req.Content
	if n.Due.IsZero() {
		n.Due = it.letter.Died
	}
	if state != notice.Dead {
		it.letter.Died, n.Reason = time.Time{}, ""
	}
	if n.Endings > 0 { // it was redriven, behind so many attempts as are beyond its ladder
		n.Redriven = min(max(most-1-len(a.ladderOf(n)), 0), n.AttemptsMade)
	}
	made = made.Truncate(time.Millisecond)
	var ok bool
	if n.Made, ok = notice.MadeOf(n.Key, id, made); !ok {
		f.add(prefix+"id", clip(id, 60), "is not that of a notice of this key that was made at created_at")
		return it, f.problem()
	}
	return it, nil
}

// ladderOf is the ladder that a notice has under its key's route.
func (a *api) ladderOf(n *notice.Notice) notice.Ladder {
	if r := a.routes.Match(n.Key); n.Ladder == nil && r != nil {
		return r.Ladder
	}
	return n.Ladder
}

func instantField(f *faults, at string, raw []byte) time.Time {
	t, err := time.Parse(time.RFC3339Nano, stringField(f, at, raw))
	if err != nil || t.Year() < 1971 || t.Year() > 2200 {
		f.add(at, shown(raw), "want a time such as 2026-11-21T09:30:00.000Z")
	}
	return t.UTC()
}

func countField(f *faults, at string, raw []byte, least int) int {
	var n int
	if json.Unmarshal(raw, &n) != nil || n < least || n > maxAttempts {
		f.add(at, shown(raw), "want a number from %d", least)
		return least
	}
	return n
}

func reasonField(f *faults, at string, raw []byte) notice.Reason {
	r := notice.Reason(stringField(f, at, raw))
	if !slices.Contains(notice.Reasons, r) {
		f.add(at, shown(raw), "want one of %s", join(notice.Reasons))
	}
	return r
}

// attemptsField reads attempts as they are shown, of which the last are kept.
func attemptsField(f *faults, at string, raw []byte) []notice.Attempt {
	var list []Attempt
	if err := json.Unmarshal(raw, &list); err != nil {
		f.add(at, nil, "want attempts as GET /v1/notices shows them")
		return nil
	}
	n := &notice.Notice{}
	for _, x := range list {
		if r := notice.Reason(x.Reason); r != "" && !slices.Contains(notice.Reasons, r) || x.N <= n.AttemptsMade || x.N > maxAttempts || x.DurationMS < 0 {
			f.add(at, nil, "want attempts as GET /v1/notices shows them")
			return nil
		}
		n.Add(notice.Attempt{Number: x.N, At: time.Time(x.At).UTC(), Duration: time.Duration(x.DurationMS*1000+0.5) * time.Microsecond, Status: x.Status,
			Reason: notice.Reason(x.Reason), Response: notice.Kept(x.Response)})
	}
	return n.Attempts
}
