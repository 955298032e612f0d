package clienttest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"notifier/client"
)

// letterFields are those of a notice as listings and the history show it.
var letterFields = []string{"key", "id", "state", "outcome", "reason", "due", "created_at", "settled_at", "ended_at", "attempt", "attempts_made", "ended_before", "ending",
	"replay", "attempts", "url", "audience", "method", "content_type", "headers", "headers_withheld", "retry", "body", "body_base64", "body_kept", "route", "host", "max_attempts", "next_attempt_at",
	"body_size", "body_sha256", "on_duplicate"}

// contentFields are those of them that say what is sent, and where.
var contentFields = []string{"key", "url", "audience", "content_type", "method", "headers", "retry", "body", "body_base64"}

// restore puts one notice back as it was. It believes the id: those in here are made
// of nothing that could be checked.
func (s *Service) restore(data []byte, at string) (n *notice, status int, replaced bool, p *problem) {
	n, p = s.letter(data, at)
	if p != nil {
		return nil, 0, false, p
	}
	old := s.kept[n.key]
	dead := n.state == client.Dead
	if old == nil || dead && old.id == n.id && old.state == client.Cancelled { // which a purge does
		if old != nil { // the letter's next ending is counted on from the purge
			since := old.ended
			if old.reason != "" {
				since++
			}
			n.ended = max(n.ended, since)
		}
		s.made++
		n.serial = s.made
		s.kept[n.key] = n
		if dead {
			s.ended = append(s.ended, n)
		}
		return n, http.StatusCreated, false, nil
	}
	if dead && old.id == n.id && old.state == client.Dead || !dead && (old.id == n.id || len(old.differs(&n.content)) == 0) {
		return old, http.StatusOK, false, nil
	}
	p = failed(http.StatusConflict, "another notice is kept under this key, or this one is no dead letter any more: it is %s", old.state)
	p.State = old.state
	return nil, 0, false, p
}

// letter reads what is to be put back.
func (s *Service) letter(data []byte, at string) (*notice, *problem) {
	m, p := fields(data, at, letterFields...)
	if p != nil {
		return nil, p
	}
	given := map[string]json.RawMessage{}
	for _, name := range contentFields {
		if raw := m[name]; raw != nil {
			given[name] = raw
		}
	}
	plain, err := json.Marshal(given)
	if err != nil {
		return nil, wrongField("body", "is no notice")
	}
	var v struct {
		ID, State, Outcome, Reason, Replay string
		Due, CreatedAt, SettledAt, EndedAt time.Time
		Attempt, AttemptsMade, MaxAttempts int
		EndedBefore, Ending                int
		Attempts                           []attempt
	}
	for name, to := range map[string]any{"id": &v.ID, "state": &v.State, "outcome": &v.Outcome, "reason": &v.Reason, "replay": &v.Replay, "due": &v.Due, "created_at": &v.CreatedAt,
		"settled_at": &v.SettledAt, "ended_at": &v.EndedAt, "attempt": &v.Attempt, "attempts_made": &v.AttemptsMade, "max_attempts": &v.MaxAttempts, "ended_before": &v.EndedBefore,
		"ending": &v.Ending, "attempts": &v.Attempts} {
		if raw := m[name]; raw != nil && json.Unmarshal(raw, to) != nil {
			return nil, wrongField(at+name, "is not of its kind")
		}
	}
	if v.State == "" {
		v.State = v.Outcome
	}
	if v.SettledAt.IsZero() {
		v.SettledAt = v.EndedAt
	}
	if p := lacks(m, at, v.State, v.Due, v.SettledAt); p != nil {
		return nil, p
	}
	r, p := s.read(plain, at)
	if p != nil {
		return nil, p
	}
	if v.ID == "" || v.CreatedAt.IsZero() {
		return nil, wrongField(at+"id", "is not that of a notice of this key that was made at created_at")
	}
	n := &notice{content: r.content, key: r.key, id: v.ID, route: s.routeOf(r.key), state: v.State, due: v.Due.UTC(), createdAt: v.CreatedAt.UTC(), reason: v.Reason,
		attempts: v.Attempts, used: max(v.Attempt-1, v.AttemptsMade, 0), ended: max(v.Ending-1, v.EndedBefore, 0), replay: v.Replay}
	if n.ended > 0 {
		n.redriven = min(max(v.MaxAttempts-1-len(n.ladder()), 0), n.used)
	}
	if v.State == client.Dead {
		n.settledAt, n.outcome, n.endedAt = v.SettledAt.UTC(), client.Dead, v.SettledAt.UTC()
		if n.due.IsZero() {
			n.due = n.settledAt
		}
		return n, nil
	}
	n.state, n.reason = client.Scheduled, ""
	if n.due.Before(s.now) {
		n.due = s.now
	}
	return n, nil
}

// lacks says what keeps a notice from being what it was.
func lacks(m map[string]json.RawMessage, at, state string, due, died time.Time) *problem {
	var address string
	_ = json.Unmarshal(m["url"], &address) // it is read again, and then told if it is wrong
	u, err := url.Parse(address)
	switch {
	case m["headers_withheld"] != nil && string(m["headers_withheld"]) != "[]":
		return wrongField(at+"headers_withheld", "the values of these headers are secrets and were not kept")
	case m["body_kept"] != nil && string(m["body_kept"]) != "true":
		return wrongField(at+"body_kept", "its body was not kept")
	case state != "" && !slices.Contains([]string{client.Scheduled, client.Claimed, client.Dead}, state):
		name := "state"
		if m[name] == nil {
			name = "outcome"
		}
		return wrongField(at+name, "want scheduled, claimed or dead: what has been delivered or cancelled is not put back")
	case err == nil && passwordMissing(u, m["outcome"] != nil):
		return wrongField(at+"url", "names a user, whose password was not kept")
	case state == "":
		return wrongField(at+"state", "is missing; want scheduled, claimed or dead")
	case state != client.Dead && due.IsZero():
		return wrongField(at+"due", "is missing: when it is due")
	case state == client.Dead && died.IsZero():
		return wrongField(at+"settled_at", "is missing: when it died")
	}
	return nil
}

// passwordMissing reports whether the password was removed: the API shows xxxxx in its
// place, and the history stores the user only.
func passwordMissing(u *url.URL, fromHistory bool) bool {
	password, has := u.User.Password()
	return password == "xxxxx" || u.User != nil && !has && fromHistory
}
