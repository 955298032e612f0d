package codec

import (
	"encoding/json"
	"time"

	"notifier/internal/notice"
)

// Types of members. Each reads and writes itself; schema.go describes them.
type (
	// Stamp is a time as the API writes it: RFC 3339, UTC, milliseconds. The zero time is absent.
	Stamp time.Time
	// Due is a Stamp that may be any time; times before 1970 count as 1970.
	Due time.Time
	// URL is the address of a callback.
	URL string
	// Audience names the receiver whose key signs a callback.
	Audience string
	// ContentType is the media type of a body.
	ContentType string
	// Reason is one of notice.Reasons.
	Reason string
	// Headers are written as an object of strings.
	Headers []notice.Header
	// Ladder is written as an array of durations.
	Ladder notice.Ladder
	// Steps is a Ladder that a request may give as text or by name.
	Steps notice.Ladder
	// Attempts are the last attempts of a notice.
	Attempts []notice.Attempt
)

// Delay is a Go duration or a number of seconds.
type Delay struct {
	Span time.Duration
	// ReadAs is the duration in words if it was given without a unit, else empty. Such a delay is in seconds; a
	// producer that meant milliseconds sees it in the answer.
	ReadAs string
}

// Content is the part of a notice that its producer gave, but for the body.
type Content struct {
	URL         URL         `json:"url,omitempty" doc:"Its own address, without a password."`
	Audience    Audience    `json:"audience,omitempty" doc:"The audience, as given."`
	Method      string      `json:"method,omitempty" enum:"POST,PUT,GET"`
	ContentType ContentType `json:"content_type,omitempty"`
	Retry       Ladder      `json:"retry,omitzero" doc:"Its own ladder, if it brought one; empty = one attempt."`
	Headers     Headers     `json:"headers,omitempty" doc:"Its own headers but those in headers_withheld."`
	Withheld    []string    `json:"headers_withheld,omitempty" doc:"Names of headers whose values are secrets, which are not shown."`
}

// Payload is a notice's body in one of two members.
type Payload struct {
	Body       json.RawMessage `json:"body,omitempty" doc:"The body, if it is JSON, byte for byte."`
	BodyBase64 []byte          `json:"body_base64,omitempty" doc:"The body, if it is not JSON, or contains control characters or direction marks."`
}

// Notice is a notice as the API shows it.
type Notice struct {
	Key          string       `json:"key" example:"app1:orders:paid:4711"`
	ID           string       `json:"id" doc:"The webhook-id of its callbacks."`
	Route        string       `json:"route" doc:"The name of its route."`
	State        notice.State `json:"state" enum:"scheduled,claimed,delivered,cancelled,dead,replaced" doc:"replaced: another notice took its key; only from the history."`
	Due          Stamp        `json:"due" doc:"When the coming (or last) attempt is (was) promised. A postponement does not change it: see next_attempt_at."`
	Attempt      int          `json:"attempt,omitempty" doc:"The number of the coming attempt, from 1. Absent once the notice is finalized."`
	AttemptsMade int          `json:"attempts_made" doc:"The number of attempts so far."`
	MaxAttempts  int          `json:"max_attempts" doc:"The attempts it may have in all."`
	Content
	EndedBefore int      `json:"ended_before,omitempty" doc:"How often it had ended before: it was dead and was redriven."`
	Replay      string   `json:"replay,omitempty" doc:"The id of the replay that sends it again."`
	Client      string   `json:"client,omitempty" doc:"The client that scheduled it, or # and its number if its name is unknown. Recorded where two or more clients are configured, and shown to clients without a prefix. Not in the history."`
	CreatedAt   Stamp    `json:"created_at"`
	SettledAt   Stamp    `json:"settled_at,omitzero" doc:"When it was delivered or cancelled, or when it died."`
	Reason      string   `json:"reason,omitempty" doc:"Why it is dead."`
	NextAttempt Stamp    `json:"next_attempt_at,omitzero" doc:"When a scheduled notice is attempted next: later than due if it was postponed, because its host was busy or its breaker open, for example."`
	Attempts    Attempts `json:"attempts" doc:"The last 20 attempts."`
	Payload
}

// Ending is an entry of the history.
type Ending struct {
	Key          string        `json:"key" example:"app1:orders:paid:4711"`
	ID           string        `json:"id" doc:"The webhook-id of its callbacks."`
	Ending       int           `json:"ending" doc:"1, or more if it had ended before: a dead letter that was redriven, cancelled or replaced."`
	Route        string        `json:"route" doc:"The name of its route, or the prefix if no route has that any more."`
	Host         string        `json:"host,omitempty" doc:"The host that was called."`
	Outcome      notice.Ending `json:"outcome" enum:"delivered,dead,cancelled,replaced"`
	Reason       string        `json:"reason,omitempty" doc:"Why it is dead."`
	Due          Stamp         `json:"due" doc:"When its last attempt was due."`
	CreatedAt    Stamp         `json:"created_at"`
	EndedAt      Stamp         `json:"ended_at" doc:"By Redis's clock."`
	AttemptsMade int           `json:"attempts_made"`
	Content
	Attempts   Attempts `json:"attempts" doc:"The last 20 attempts."`
	BodySize   int      `json:"body_size" doc:"In bytes."`
	BodySHA256 string   `json:"body_sha256,omitempty" doc:"In hex, where bodies are hashed."`
	BodyKept   bool     `json:"body_kept" doc:"Whether the body is here as it was."`
	Unreadable []string `json:"unreadable,omitempty" doc:"Columns of the entry's row that cannot be read: another program has changed them. Such an entry is not sent again."`
	Payload
}

// Snapshot is a notice in a file or a restore: pending or dead, as a listing, the history or the pages' download shows
// it. It has the members of all three.
type Snapshot struct {
	Key          string       `json:"key" maxLength:"323"`
	ID           string       `json:"id" doc:"The webhook-id of its callbacks, which it has again."`
	State        notice.State `json:"state,omitempty" enum:"scheduled,claimed,dead" doc:"Or outcome: one of the two."`
	Outcome      notice.State `json:"outcome,omitempty" enum:"dead"`
	Reason       Reason       `json:"reason,omitempty"`
	Due          Stamp        `json:"due,omitzero" doc:"Required of a pending notice: when it is due again, or now if that has passed."`
	CreatedAt    Stamp        `json:"created_at"`
	SettledAt    Stamp        `json:"settled_at,omitzero" doc:"Required of a dead letter: when it died; or ended_at: one of the two."`
	EndedAt      Stamp        `json:"ended_at,omitzero"`
	Attempt      int          `json:"attempt,omitempty" minimum:"1" doc:"One more than the attempts made; or attempts_made."`
	AttemptsMade int          `json:"attempts_made" required:"false"`
	MaxAttempts  int          `json:"max_attempts,omitempty" minimum:"1" doc:"The attempts it may have in all. Read of a notice that was dead before."`
	EndedBefore  int          `json:"ended_before,omitempty" doc:"How often it had ended before; or ending, which is one more."`
	Ending       int          `json:"ending,omitempty" minimum:"1"`
	Replay       string       `json:"replay,omitempty" maxLength:"64" doc:"The id of the replay that sent it again."`
	Attempts     Attempts     `json:"attempts" required:"false"`
	Content
	Masked     bool     `json:"masked,omitempty" doc:"If true, it is refused: the pages' rules masked parts of it."`
	BodyKept   *bool    `json:"body_kept,omitempty" doc:"If false, it is refused."`
	Unreadable []string `json:"unreadable,omitempty" doc:"If there are any, it is refused."`
	// These are not read: the route of today holds, and the client of the call is recorded.
	Client      string `json:"client,omitempty" doc:"Is not read: the client that puts a notice back is recorded."`
	Route       string `json:"route,omitempty" doc:"Is not read, as the following: the key's route of today holds."`
	Host        string `json:"host,omitempty"`
	NextAttempt string `json:"next_attempt_at,omitempty"`
	BodySize    int    `json:"body_size,omitempty"`
	BodySHA256  string `json:"body_sha256,omitempty"`
	OnDuplicate string `json:"on_duplicate,omitempty" doc:"Of a line that import schedules: see POST /v1/notices."`
	Payload
}

// Request is a notice to schedule.
type Request struct {
	Key         string          `json:"key" doc:"app:module:type:id of letters, digits, '_', '.', '~', '-'." maxLength:"323"`
	Delay       *Delay          `json:"delay,omitempty" doc:"Time from now, such as 15s or 1h30m. A number without a unit is seconds, never milliseconds: 5000 is 1h23m20s, and the answer says so."`
	Due         Due             `json:"due,omitzero" doc:"Instead of delay. Kept to the millisecond, never early."`
	Body        json.RawMessage `json:"body,omitempty" doc:"Any JSON; delivered byte for byte as it stands here."`
	BodyText    *string         `json:"body_text,omitempty" doc:"Instead of body: text."`
	BodyBase64  []byte          `json:"body_base64,omitempty" doc:"Instead of body: bytes."`
	ContentType ContentType     `json:"content_type,omitempty" maxLength:"256" doc:"application/json if absent and the body is JSON."`
	URL         URL             `json:"url,omitempty" maxLength:"2048" doc:"Where to; only, and always, if the target is notice. Refused (422) if the route sends its headers to this host, but not by this scheme and port."`
	Audience    Audience        `json:"audience,omitempty" maxLength:"128" doc:"Whom it is for, such as m17: the receiver whose key signs it, if the route signs for each audience; required there. Letters, digits, '_', '.', '~', '-'."`
	Headers     Headers         `json:"headers,omitempty" doc:"Headers of the callback, at most 32 and 8 KiB."`
	Method      string          `json:"method,omitempty" enum:"POST,PUT,GET"`
	Retry       Steps           `json:"retry,omitzero" doc:"Delays between attempts instead of the route's; none = one attempt."`
	OnDuplicate string          `json:"on_duplicate,omitempty" enum:"reject,keep,replace" doc:"If the key is kept already; default reject."`
}

// Entry is a notice in a Redis list.
type Entry struct {
	ID          string `json:"id"`
	Key         string `json:"key"`
	Attempt     int    `json:"attempt"`
	Due         string `json:"due"`
	ContentType string `json:"content_type,omitempty"`
	Payload
	Lost   bool   `json:"body_lost,omitempty"`
	Replay string `json:"replay,omitempty"`
}
