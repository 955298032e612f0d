package dispatch

import (
	"encoding/json"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// facts is the body of a hook's notice. The time of the death is added when it is scheduled.
type facts struct {
	Key          string          `json:"key"`
	ID           string          `json:"id"`
	Route        string          `json:"route"`
	Reason       notice.Reason   `json:"reason"`
	Host         string          `json:"host,omitempty"`
	Due          string          `json:"due"`
	CreatedAt    string          `json:"created_at"`
	AttemptsMade int             `json:"attempts_made"`
	LastAttempt  *notice.Attempt `json:"last_attempt,omitempty"`
	BodyBase64   []byte          `json:"body_base64,omitempty"`
	Sealed       string          `json:"sealed,omitempty"` // in place of the body
	BodyOmitted  bool            `json:"body_omitted,omitempty"`
}

// settledAt is the length of the member that is added when the hook's notice is scheduled.
const settledAt = len(`"settled_at":"` + notice.StampLayout + `",`)

// death returns the entry for the hook of a route whose notice n dies; nil if the route has no hook.
// host is the host of the last attempt.
func death(r *route.Route, n *notice.Notice, host string) *store.Death {
	if r.OnDead == nil {
		return nil
	}

	f := facts{Key: n.Key, ID: n.ID(), Route: r.Name, Reason: n.Reason, Host: host, Due: notice.Stamp(n.Due),
		CreatedAt: notice.Stamp(n.Made.Time()), AttemptsMade: n.AttemptsMade}
	if k := len(n.Attempts); k > 0 {
		f.LastAttempt = &n.Attempts[k-1]
	}

	if r.OnDeadBody > 0 {
		f.BodyBase64, f.Sealed = n.Body, n.Sealed
	}

	text, err := json.Marshal(&f)
	if int64(len(text)+settledAt) > r.OnDeadBody && (f.BodyBase64 != nil || f.Sealed != "") {
		f.BodyBase64, f.Sealed, f.BodyOmitted = nil, "", true
		text, err = json.Marshal(&f)
	}

	if err != nil { // no member can cause one
		text = []byte("{}")
	}

	return &store.Death{Hook: r.OnDead.Prefix, Facts: text}
}
