package api

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// The types of this file are for the document only: requests are read by
// parseNotice and its like, answers are written by appendNotice.

// Delay is a Go duration or a number of seconds.
type Delay struct{}

// Schema describes a Delay.
func (Delay) Schema(huma.Registry) *huma.Schema {
	most := notice.MaxHorizon.Seconds()
	least := 0.0
	return &huma.Schema{
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, Description: "A Go duration, or seconds.", Examples: []any{"15s", "1h30m", "250ms"}},
			{Type: huma.TypeNumber, Description: "Seconds: 5000 is 1h23m20s. Five seconds are 5 or \"5s\", never 5000.", Minimum: &least, Maximum: &most},
		},
	}
}

// Steps is a ladder as a request gives it.
type Steps struct{}

// Schema describes Steps.
func (Steps) Schema(r huma.Registry) *huma.Schema {
	most := notice.MaxSteps
	return &huma.Schema{
		OneOf: []*huma.Schema{
			{Type: huma.TypeArray, Items: Delay{}.Schema(r), MaxItems: &most},
			{Type: huma.TypeString, Examples: []any{"15s,3m,10m", "none", "wechat"}},
		},
	}
}

// Schema describes a time.
func (stamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-21T09:30:00.000Z"}}
}

// ScheduleRequest is the body of the schedule calls.
type ScheduleRequest struct {
	Key         string            `json:"key" doc:"app:module:type:id of letters, digits, '_', '.', '~', '-'." maxLength:"323"`
	Delay       *Delay            `json:"delay,omitempty" doc:"Time from now, such as 15s or 1h30m. A number without a unit is seconds, never milliseconds: 5000 is 1h23m20s, and the answer says so."`
	Due         string            `json:"due,omitempty" format:"date-time" doc:"Instead of delay. Kept to the millisecond, never early."`
	Body        any               `json:"body,omitempty" doc:"Any JSON; delivered byte for byte as it stands here."`
	BodyText    string            `json:"body_text,omitempty" doc:"Instead of body: text."`
	BodyBase64  string            `json:"body_base64,omitempty" doc:"Instead of body: bytes."`
	ContentType string            `json:"content_type,omitempty" maxLength:"256" doc:"application/json if absent and the body is JSON."`
	URL         string            `json:"url,omitempty" maxLength:"2048" doc:"Where to; only, and always, if the target is notice. Refused (422) if the route sends its headers to this host, but not by this scheme and port."`
	Audience    string            `json:"audience,omitempty" maxLength:"128" doc:"Whom it is for, such as m17: the receiver whose key signs it, if the route signs for each audience; required there. Letters, digits, '_', '.', '~', '-'."`
	Headers     map[string]string `json:"headers,omitempty" doc:"Headers of the callback, at most 32 and 8 KiB."`
	Method      string            `json:"method,omitempty" enum:"POST,PUT,GET"`
	Retry       *Steps            `json:"retry,omitempty" doc:"Delays between attempts instead of the route's; none = one attempt."`
	OnDuplicate store.Duplicate   `json:"on_duplicate,omitempty" enum:"reject,keep,replace" doc:"If the key is kept already; default reject."`
}

// ScheduleAnswer answers a schedule call.
type ScheduleAnswer struct {
	Notice
	Created  bool `json:"created"`
	Replaced bool `json:"replaced" doc:"An older notice was there and is gone."`
	ReadAs
}

// SettledNotice is what is known of a notice that was finalized and is no longer kept.
type SettledNotice struct {
	Key   string       `json:"key" example:"app1:orders:paid:4711"`
	ID    string       `json:"id" doc:"The webhook-id of its callbacks."`
	State notice.State `json:"state" enum:"settled" doc:"It was delivered or cancelled, and NOTIFIER_RETAIN has trimmed it."`
}

// SettledAnswer answers a schedule call that is repeated after its notice was trimmed.
type SettledAnswer struct {
	SettledNotice
	Created  bool `json:"created" enum:"false"`
	Replaced bool `json:"replaced" enum:"false"`
	ReadAs
}

// KeptNotice is a notice, or what is known of one that is no longer kept.
type KeptNotice struct{}

// Schema is one of the two.
func (KeptNotice) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{r.Schema(reflect.TypeFor[Notice](), true, ""), r.Schema(reflect.TypeFor[SettledNotice](), true, "")}}
}

// ReadAs says how a time was understood that could be meant otherwise.
type ReadAs struct {
	Delay string `json:"delay,omitempty" example:"1h23m20s" doc:"What a delay without a unit was read as: it is seconds."`
}

// BatchResult is one item's result.
type BatchResult struct {
	Key      string `json:"key"`
	Status   int    `json:"status" doc:"What the item would have been answered alone."`
	Created  bool   `json:"created,omitempty"`
	Replaced bool   `json:"replaced,omitempty"`
	ReadAs
	Notice  *KeptNotice `json:"notice,omitempty" doc:"Without its body."`
	Problem *Problem    `json:"problem,omitempty"`
}

// RescheduleRequest is the body of PATCH: one of the two.
type RescheduleRequest struct {
	Delay *Delay `json:"delay,omitempty" doc:"Time from now, such as 15s or 1h30m. A number without a unit is seconds, never milliseconds: 5000 is 1h23m20s, and the answer says so."`
	Due   string `json:"due,omitempty" format:"date-time"`
}

// ChangeAnswer answers the calls that change one notice.
type ChangeAnswer struct {
	Notice
	Changed  bool         `json:"changed" doc:"false: it was so already."`
	Before   notice.State `json:"before" doc:"The state the call met."`
	InFlight bool         `json:"in_flight" doc:"An attempt was running when the call came; its end changes nothing any more."`
}

// RescheduleAnswer answers PATCH.
type RescheduleAnswer struct {
	ChangeAnswer
	ReadAs
}

// AckRequest is a consumer's report of success.
type AckRequest struct {
	Attempt  int    `json:"attempt" minimum:"1" doc:"The attempt's number, from the entry."`
	ID       string `json:"id" minLength:"1" maxLength:"100" doc:"The notice's id, from the entry."`
	Response string `json:"response,omitempty" doc:"Kept with the attempt, 512 bytes of it."`
}

// NackRequest is a consumer's report of failure.
type NackRequest struct {
	AckRequest
	Permanent bool `json:"permanent,omitempty" doc:"No further attempt: the notice is dead."`
}

// DeferRequest is a consumer's wish to get it later.
type DeferRequest struct {
	AckRequest
	After *Delay `json:"after,omitempty" doc:"How much later; the service's own pause if absent."`
}

// Page is one page of a listing.
type Page struct {
	Items  []Notice `json:"items"`
	Cursor string   `json:"cursor,omitempty" doc:"Leads to the next page; absent = there is no more."`
	Missing
}

// Alive answers GET /healthz.
type Alive struct {
	Status string `json:"status"`
}
