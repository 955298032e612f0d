package api

import (
	"errors"
	"net/http"
	"time"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// RestoreRequest is a notice to put back.
type RestoreRequest struct{ codec.Snapshot }

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

// parseLetter reads one notice to put back. It must have all that it takes to be sent as it would have been.
func (a *api) parseLetter(it *item, data []byte, prefix string, c caller, _ traceContext) error {
	if int64(len(data)) > a.itemLimit() {
		return tooLarge("the notice", a.itemLimit())
	}

	var f codec.Faults
	var s codec.Snapshot
	if err := codec.Read(data, prefix, &s, &f); err != nil {
		return notJSON(err)
	}

	it.req = store.Request{Key: s.Key, Content: s.Given()}
	if it.req.Body = s.Bytes(); s.Body != nil && s.BodyBase64 != nil {
		f.Add(prefix+"body_base64", nil, "body and body_base64 are given; give one of them")
	}

	if err := a.checkBody(it, prefix, s.Body != nil); err != nil {
		return err
	}

	if it.json && it.req.ContentType == "application/json" {
		it.req.ContentType = "" // shown of a JSON body whose type was not given
	}

	checkSnapshot(&s, prefix, &f)
	if err := a.place(&it.req, prefix, c, f); err != nil {
		return err
	}

	return a.letterOf(&s, prefix, it)
}

// checkSnapshot adds what makes it impossible to put a notice back.
func checkSnapshot(s *codec.Snapshot, prefix string, f *codec.Faults) {
	for _, w := range s.Whole() {
		f.Add(prefix+w.Location, w.Value, "%s", w.Message)
	}

	if s.Replay != "" && !replayNames.MatchString(s.Replay) {
		f.Add(prefix+"replay", codec.Clip(s.Replay, 100), "want the id of a replay")
	}

	if len(*f) > 0 {
		return
	}

	reason := notice.Reason(s.Reason)
	switch {
	case s.Last() == "":
		f.Add(prefix+"state", nil, "is missing; want scheduled, claimed or dead")
	case s.Pending() && time.Time(s.Due).IsZero():
		f.Add(prefix+"due", nil, "is missing: when it is due")
	case !s.Pending() && s.Died().IsZero():
		f.Add(prefix+"settled_at", nil, "is missing: when it died")
	case reason == notice.ReasonUnreadable || reason == notice.ReasonMissing:
		f.Add(prefix+"reason", string(reason), "nothing of such a notice was kept that could be put back")
	case len(s.Attempts) > 0 && s.Attempts[len(s.Attempts)-1].Number > attemptsOf(s):
		f.Add(prefix+"attempts", nil, "are more than were made")
	}
}

// attemptsOf is the number of attempts made, of which a listing shows the next one's number as well.
func attemptsOf(s *codec.Snapshot) int {
	if s.Attempt > 0 {
		return s.Attempt - 1
	}
	return s.AttemptsMade
}

// letterOf makes the notice to put back of a snapshot that was checked, and of the content in it.
func (a *api) letterOf(s *codec.Snapshot, prefix string, it *item) error {
	n := &notice.Notice{Key: it.req.Key, Content: it.req.Content, Due: time.Time(s.Due), FirstDue: notice.UnknownDue,
		AttemptsMade: attemptsOf(s), Attempts: s.Attempts, Endings: max(s.EndedBefore, s.Ending-1), Replay: s.Replay}
	if s.Resend > 0 && s.ResentAfter > 0 {
		n.Resent = min(s.ResentAfter, n.Endings)
		n.Resend = min(s.Resend, n.Resent)
	}

	it.letter = store.Letter{Notice: n}
	if !s.Pending() {
		it.letter.Died, n.Reason = s.Died(), notice.Reason(s.Reason)
	}

	if n.Due.IsZero() {
		n.Due = s.Died()
	}

	if n.Endings > 0 { // it was redriven, behind so many attempts as are beyond its ladder
		n.Redriven = min(max(s.MaxAttempts-1-len(a.ladderOf(n)), 0), n.AttemptsMade)
	}

	var ok bool
	if n.Made, ok = notice.MadeOf(n.Key, s.ID, time.Time(s.CreatedAt).Truncate(time.Millisecond)); !ok {
		var f codec.Faults
		f.Add(prefix+"id", codec.Clip(s.ID, 60), "is not that of a notice of this key that was made at created_at")
		return refusal(f)
	}

	return nil
}

// ladderOf is the ladder that a notice has under its key's route.
func (a *api) ladderOf(n *notice.Notice) notice.Ladder {
	if r := a.routes.Match(n.Key); n.Ladder == nil && r != nil {
		return r.Ladder
	}
	return n.Ladder
}
