package api

import (
	"context"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"notifier/internal/codec"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// ScheduleRequest is the body of the schedule calls.
type ScheduleRequest struct{ codec.Request }

// ScheduleAnswer answers a schedule call.
type ScheduleAnswer struct {
	codec.Notice
	Created  bool `json:"created"`
	Replaced bool `json:"replaced" doc:"The key had an older notice, which was replaced."`
	ReadAs
}

// SettledNotice is a finalized notice that is no longer stored.
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

// KeptNotice is a Notice without its body, or a SettledNotice.
type KeptNotice struct {
	notice  codec.Notice
	settled SettledNotice
}

// AppendJSON writes the notice.
func (k *KeptNotice) AppendJSON(b []byte) []byte {
	if k.settled.State != "" {
		return codec.Append(b, &k.settled)
	}
	return codec.Append(b, &k.notice)
}

// kept shows a notice in the answer to a batch, without its body: it would double the traffic.
func (a *api) kept(ctx context.Context, c caller, f *store.Found, inline bool) *KeptNotice {
	if f.State == notice.Settled {
		return &KeptNotice{settled: settledOf(f.Notice)}
	}

	v := a.view(f, a.scheduledBy(ctx, c, f.Notice), inline)
	v.Sealed = f.Sealed != ""
	return &KeptNotice{notice: waitsFor(v, c, f)}
}

// Schema is one of the two.
func (KeptNotice) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{r.Schema(reflect.TypeFor[codec.Notice](), true, ""), r.Schema(reflect.TypeFor[SettledNotice](),
		true, "")}}
}

// ReadAs is the interpretation of an ambiguous delay.
type ReadAs struct {
	Delay string `json:"delay,omitempty" example:"1h23m20s" doc:"The delay that was read from a number without a unit, which is seconds."`
}

// BatchResult is one item's result.
type BatchResult struct {
	Key      string `json:"key"`
	Status   int    `json:"status" doc:"The status of the item as a separate call."`
	Created  *bool  `json:"created,omitempty"`
	Replaced *bool  `json:"replaced,omitempty"`
	ReadAs
	Notice  *KeptNotice `json:"notice,omitempty" doc:"Without its body."`
	Problem *Problem    `json:"problem,omitempty"`
}

// RescheduleRequest is the body of PATCH: at most one of delay and due.
type RescheduleRequest struct {
	Delay *codec.Delay `json:"delay,omitempty" doc:"Time from now, such as 15s or 1h30m. A number without a unit is seconds, never milliseconds: 5000 is 1h23m20s, and the answer says so."`
	Due   codec.Due    `json:"due,omitempty" format:"date-time"`
	URL   codec.URL    `json:"url,omitempty" maxLength:"2048" doc:"The new address, of a route with the target notice. Checked as in a schedule call."`
	// Headers are nil if they stay.
	Headers     *codec.Headers `json:"headers,omitempty" doc:"The new headers, in place of all headers that the notice has."`
	KeepHeaders bool           `json:"keep_headers,omitempty" doc:"With a url of another host: true keeps the notice's Authorization, Cookie and Proxy-* headers, which are dropped otherwise."`
}

// readdresses reports whether the request changes the url or the headers.
func (q *RescheduleRequest) readdresses() bool { return q.URL != "" || q.Headers != nil }

// ChangeAnswer answers the calls that change one notice.
type ChangeAnswer struct {
	codec.Notice
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
	Response string `json:"response,omitempty" doc:"Stored with the attempt; the first 512 bytes."`
}

// NackRequest is a consumer's report of failure.
type NackRequest struct {
	AckRequest
	Permanent bool `json:"permanent,omitempty" doc:"No further attempt: the notice is dead."`
}

// DeferRequest is a consumer's request to postpone a notice.
type DeferRequest struct {
	AckRequest
	After *codec.Delay `json:"after,omitempty" doc:"The delay until the notice is pushed again; 5s if absent."`
}

// Page is one page of a listing.
type Page struct {
	Items  []codec.Notice `json:"items"`
	Cursor string         `json:"cursor,omitempty" doc:"Pass this to get the next page. Absent on the last page."`
	Missing
}

// Alive answers GET /healthz.
type Alive struct {
	Status string `json:"status"`
}
