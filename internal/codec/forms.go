package codec

import (
	"encoding/json"
	"time"

	"notifier/internal/notice"
)

// Types of members. Each reads and writes itself; schema.go has their descriptions.
type (
	// Stamp is a time as the API writes it: RFC 3339, UTC, milliseconds. The zero time is absent.
	Stamp time.Time
	// Due is a Stamp with any time; times before 1970 count as 1970.
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
	// Steps is a Ladder that a request may give as an array, as text or by name.
	Steps notice.Ladder
	// Attempts are the last attempts of a notice.
	Attempts []notice.Attempt
)

// Delay is a Go duration or a number of seconds.
type Delay struct {
	Span time.Duration
	// ReadAs is the duration in words if it was given without a unit, else empty. Such a number is seconds. The answer
	// shows ReadAs, so that a producer that meant milliseconds notices.
	ReadAs string
}

// Expiry is when a notice expires: a time, or a Go duration or a number of seconds after its due time.
type Expiry notice.Expiry

// Content is the part of a notice that its producer gave, without the body.
type Content struct {
	URL         URL         `json:"url,omitempty" doc:"The notice's own address, without a password."`
	URLSealed   bool        `json:"url_sealed,omitempty" doc:"True if url is without its query and fragment, which are encrypted. Clients of the roles operate and admin get the whole url, and not this member."`
	Audience    Audience    `json:"audience,omitempty" doc:"The audience, as given."`
	Method      string      `json:"method,omitempty" enum:"POST,PUT,GET"`
	ContentType ContentType `json:"content_type,omitempty"`
	Retry       Ladder      `json:"retry,omitzero" doc:"The notice's own ladder, if it has one; empty = one attempt."`
	Expires     Stamp       `json:"expires,omitzero" doc:"When it expires: no attempt begins from then on, and it is dead with the reason expired."`
	// ExpiresAfter tells a restored notice apart from one whose producer gave a time.
	ExpiresAfter *Delay   `json:"expires_after,omitempty" doc:"The time from its first due time to expires, if that was given as a duration, or by the route."`
	Tick         Stamp    `json:"tick,omitzero" doc:"The time that it is for, if it is one of a recurring notice. due can be later, as after a retry."`
	Headers      Headers  `json:"headers,omitempty" doc:"The notice's own headers without those in headers_withheld."`
	Withheld     []string `json:"headers_withheld,omitempty" doc:"Names of headers with secret values, which are not shown."`
	// ScheduledURL has no user, password and query.
	ScheduledURL string `json:"scheduled_url,omitempty" doc:"The url of the schedule call without its query, if the url was changed since."`
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
	Ending       int          `json:"ending" doc:"How often it has been finalized. Names, with id, what a resend concerns."`
	Route        string       `json:"route" doc:"The name of its route."`
	State        notice.State `json:"state" enum:"scheduled,claimed,delivered,cancelled,dead,replaced,lost" doc:"replaced: another notice replaced it under the same key; only in the history. lost: Redis has only its record left, as after an eviction, and nothing delivers it; schedule it again with on_duplicate replace."`
	Due          Stamp        `json:"due" doc:"The promised time of the next attempt, or of the last one if the notice is finalized. A postponement does not change it; see next_attempt_at."`
	Attempt      int          `json:"attempt,omitempty" doc:"The number of the coming attempt, from 1. Absent once the notice is finalized."`
	AttemptsMade int          `json:"attempts_made" doc:"The number of attempts so far."`
	MaxAttempts  int          `json:"max_attempts,omitempty" doc:"The maximum number of attempts. Absent if they are made until it expires, or if a worker decides."`
	Content
	EndedBefore int      `json:"ended_before,omitempty" doc:"How often the notice was finalized before, as a dead letter that was redriven or a notice that was resent."`
	Replay      string   `json:"replay,omitempty" doc:"The id of the replay that sends it again."`
	Redirect    string   `json:"redirect,omitempty" doc:"The id of the redirect that last changed its url."`
	Resend      int      `json:"resend,omitempty" doc:"How often it was resent. Its callbacks carry the number in the header notifier-resend."`
	ResentAfter int      `json:"resent_after,omitempty" doc:"The ending after which it was last resent."`
	Client      string   `json:"client,omitempty" doc:"The client that scheduled it, or # and its number if its name is unknown. Recorded if two or more clients are configured, and shown to clients without a prefix. Not in the history."`
	CreatedAt   Stamp    `json:"created_at"`
	SettledAt   Stamp    `json:"settled_at,omitzero" doc:"When it was delivered or cancelled, or when it died."`
	Reason      string   `json:"reason,omitempty" doc:"Why it is dead. Of a scheduled notice: missing if its record is gone, unreadable if it cannot be read; the notice dies when it is due."`
	NextAttempt Stamp    `json:"next_attempt_at,omitzero" doc:"The time of the next attempt of a scheduled notice. Later than due if the notice was postponed, for example because its host was busy or its breaker open. Absent while waits is true."`
	Waits       bool     `json:"waits,omitempty" doc:"True while the notice is due, but another one of its sequence comes first. Only on routes with an order."`
	WaitsFor    string   `json:"waits_for,omitempty" doc:"With waits: the key of the notice of its sequence that is in flight, or else of the first one that is pending. Absent if the client's prefix does not cover that key, or if that notice has just ended."`
	Sealed      bool     `json:"sealed,omitempty" doc:"True if Redis has the body, headers, the url's credentials and the answers encrypted. Only clients of the roles operate and admin see them."`
	ForgottenAt Stamp    `json:"forgotten_at,omitzero" doc:"When the audience or id that seals the notice was forgotten: body, headers, the url's credentials and answers are gone."`
	Attempts    Attempts `json:"attempts" doc:"The last 20 attempts."`
	Payload
}

// Ending is an entry of the history.
type Ending struct {
	Key          string        `json:"key" example:"app1:orders:paid:4711"`
	ID           string        `json:"id" doc:"The webhook-id of its callbacks."`
	Ending       int           `json:"ending" doc:"1, or higher if the notice was finalized before: a dead letter that was redriven, cancelled or replaced."`
	Route        string        `json:"route" doc:"The name of its route, or the prefix if no route has it any more."`
	Host         string        `json:"host,omitempty" doc:"The host that was called."`
	Outcome      notice.Ending `json:"outcome" enum:"delivered,dead,cancelled,replaced"`
	Reason       string        `json:"reason,omitempty" doc:"Why it is dead."`
	Due          Stamp         `json:"due" doc:"When its last attempt was due."`
	CreatedAt    Stamp         `json:"created_at"`
	EndedAt      Stamp         `json:"ended_at" doc:"By Redis's clock."`
	AttemptsMade int           `json:"attempts_made"`
	Content
	Attempts   Attempts `json:"attempts" doc:"The last 20 attempts."`
	BodySize   *int     `json:"body_size,omitempty" doc:"In bytes. Absent if the notice is sealed and the caller may not read it."`
	BodySHA256 string   `json:"body_sha256,omitempty" doc:"In hex, if the history hashes bodies."`
	BodyKept   bool     `json:"body_kept" doc:"Whether the entry has the whole body."`
	Sealed     bool     `json:"sealed,omitempty" doc:"The notice is sealed. The roles operate and admin get the body, headers and answers, other callers do not."`
	// ForgottenAt is when the subject of a sealed notice was forgotten.
	ForgottenAt Stamp    `json:"forgotten_at,omitzero" doc:"When the subject of the sealed notice was forgotten. Its body, headers and answers cannot be read any more."`
	Unreadable  []string `json:"unreadable,omitempty" doc:"Columns of the database row that cannot be read, because another program has changed them. A replay skips such an entry."`
	Payload
}

// Snapshot is a pending or dead notice in a file or a restore. It has the members of a listing, of the history and of
// the pages' download.
type Snapshot struct {
	Key          string       `json:"key" maxLength:"323"`
	ID           string       `json:"id" doc:"The webhook-id of its callbacks, which is kept."`
	State        notice.State `json:"state,omitempty" enum:"scheduled,claimed,dead" doc:"Either this or outcome."`
	Outcome      notice.State `json:"outcome,omitempty" enum:"dead"`
	Reason       Reason       `json:"reason,omitempty"`
	Due          Stamp        `json:"due,omitzero" doc:"Required for a pending notice: its next due time; a past time means now."`
	CreatedAt    Stamp        `json:"created_at"`
	SettledAt    Stamp        `json:"settled_at,omitzero" doc:"Required for a dead letter, or ended_at: the time of its death."`
	EndedAt      Stamp        `json:"ended_at,omitzero"`
	Attempt      int          `json:"attempt,omitempty" minimum:"1" doc:"One more than the attempts made; or attempts_made."`
	AttemptsMade int          `json:"attempts_made" required:"false"`
	MaxAttempts  int          `json:"max_attempts,omitempty" minimum:"1" doc:"The maximum number of attempts. Used for a notice that was dead before."`
	EndedBefore  int          `json:"ended_before,omitempty" doc:"How often the notice was finalized before; or ending, which is one more."`
	Ending       int          `json:"ending,omitempty"`
	Replay       string       `json:"replay,omitempty" maxLength:"64" doc:"The id of the replay that sent it again."`
	Resend       int          `json:"resend,omitempty" doc:"How often it was resent."`
	ResentAfter  int          `json:"resent_after,omitempty" doc:"The ending after which it was last resent."`
	Attempts     Attempts     `json:"attempts" required:"false"`
	Content
	Masked     bool     `json:"masked,omitempty" doc:"If true, the notice is refused, because parts of it were masked."`
	BodyKept   *bool    `json:"body_kept,omitempty" doc:"If false, the notice is refused."`
	Unreadable []string `json:"unreadable,omitempty" doc:"If not empty, the notice is refused."`
	Sealed     bool     `json:"sealed,omitempty" doc:"If true, the notice is refused, because the line may lack its content."`
	// ForgottenAt is when the subject of a sealed notice was forgotten.
	ForgottenAt Stamp `json:"forgotten_at,omitzero" doc:"If present, the notice is refused, because its content is gone."`
	// The following are ignored: the route is found by the key, and the client of the call is recorded.
	Client      string `json:"client,omitempty" doc:"Ignored. The client that restores a notice is recorded."`
	Route       string `json:"route,omitempty" doc:"Ignored, like the following members. The key's present route is used."`
	Host        string `json:"host,omitempty"`
	NextAttempt string `json:"next_attempt_at,omitempty"`
	Waits       bool   `json:"waits,omitempty"`
	WaitsFor    string `json:"waits_for,omitempty"`
	BodySize    int    `json:"body_size,omitempty"`
	BodySHA256  string `json:"body_sha256,omitempty"`
	Redirect    string `json:"redirect,omitempty"`
	OnDuplicate string `json:"on_duplicate,omitempty" doc:"For lines that import schedules, see POST /v1/notices."`
	Payload
}

// Request is a notice to schedule.
type Request struct {
	Key         string          `json:"key" doc:"app:module:type:id of letters, digits, '_', '.', '~', '-'." maxLength:"323"`
	Delay       *Delay          `json:"delay,omitempty" doc:"Time from now, such as 15s or 1h30m. A number without a unit is seconds, never milliseconds: 5000 is 1h23m20s, as the answer shows."`
	Due         Due             `json:"due,omitzero" doc:"Instead of delay. Kept to the millisecond, never early."`
	Body        json.RawMessage `json:"body,omitempty" doc:"Any JSON. Delivered byte for byte."`
	BodyText    *string         `json:"body_text,omitempty" doc:"Instead of body: text."`
	BodyBase64  []byte          `json:"body_base64,omitempty" doc:"Instead of body: bytes."`
	ContentType ContentType     `json:"content_type,omitempty" maxLength:"256" doc:"By default application/json if the body is JSON."`
	URL         URL             `json:"url,omitempty" maxLength:"2048" doc:"The address to call. Required if the route's target is notice, refused otherwise. Spaces, bytes outside ASCII, \"<>\\^\x60{|} and a bare % in the query are percent-encoded. Answers show this form, and repeated calls are compared in it. White space around the address, control characters, a bare % in the path and impossible ports are refused (422). Refused (422) if the route sends its headers to this host, but not with this scheme and port."`
	Audience    Audience        `json:"audience,omitempty" maxLength:"128" doc:"The receiver whose key signs the notice, such as m17. Required if the route signs for each audience. Letters, digits, '_', '.', '~', '-'."`
	Headers     Headers         `json:"headers,omitempty" doc:"Headers of the callback, at most 32 and 8 KiB."`
	Method      string          `json:"method,omitempty" enum:"POST,PUT,GET"`
	Retry       Steps           `json:"retry,omitzero" doc:"Delays between attempts instead of the route's; none = one attempt."`
	Expires     Expiry          `json:"expires,omitzero" doc:"Until when an attempt may begin: a time, or the time after due, such as 10m. Later the notice is dead with the reason expired, without a call. By default as the route says. Refused (422) if it is not after due. A repeated call must give the same time again; another duration is the same content."`
	OnDuplicate string          `json:"on_duplicate,omitempty" enum:"reject,keep,replace" doc:"Action if the key exists already; default reject."`
}

// Entry is a notice in a Redis list.
type Entry struct {
	ID          string `json:"id"`
	Key         string `json:"key"`
	Attempt     int    `json:"attempt"`
	Due         string `json:"due"`
	ContentType string `json:"content_type,omitempty"`
	Payload
	Sealed string `json:"sealed,omitempty"` // in place of the body
	Lost   bool   `json:"body_lost,omitempty"`
	Replay string `json:"replay,omitempty"`
	Resend int    `json:"resend,omitempty"`
}
