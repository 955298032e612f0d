package api

import (
	"encoding/json"
	"time"

	"notifier/internal/codec"
	"notifier/internal/notice"
	"notifier/internal/recur"
)

// RecurrenceTicks says when the notices of a recurrence are due.
type RecurrenceTicks struct {
	Cron       string       `json:"cron,omitempty" maxLength:"256" doc:"minute hour day-of-month month day-of-week, as in Vixie cron, or @hourly, @daily, @weekly, @monthly, @yearly. L is the last day of a month. Either this or every. A fixed hour that a change of the clock skips has its tick at the first minute after the gap, and one that occurs twice has it the first time; hours with * or a step match each minute that the clock shows." example:"0 2 * * *"`
	Zone       string       `json:"zone,omitempty" maxLength:"64" doc:"The IANA time zone of cron; UTC if absent." example:"Asia/Shanghai"`
	Every      *codec.Delay `json:"every,omitempty" doc:"An interval, 1s or more, in place of cron."`
	Anchor     codec.Stamp  `json:"anchor,omitzero" doc:"One tick of every; the others are whole intervals before and after it. 1970-01-01T00:00:00Z if absent."`
	From       codec.Stamp  `json:"from,omitzero" doc:"No tick before this time."`
	Until      codec.Stamp  `json:"until,omitzero" doc:"No tick after this time."`
	Times      int          `json:"times,omitempty" minimum:"1" doc:"The maximum number of notices."`
	Missed     string       `json:"missed,omitempty" enum:"skip,latest,all" doc:"What follows for ticks that passed while all instances were down, or while the recurrence or its route was paused: skip (no notice for ticks older than a minute), latest (one for the last of them; the default), or all (one for each of the last ones, up to missed_most)."`
	MissedMost int          `json:"missed_most,omitempty" minimum:"1" doc:"The maximum of missed=all; 10 if absent."`
	Overlap    string       `json:"overlap,omitempty" enum:"allow,skip,wait" doc:"What follows at a tick while an earlier notice is pending or in flight: allow (both are delivered), skip (no notice), or wait (the later one waits). wait needs a route with ORDER=id, and is the default there, where allow is refused (422). On other routes, allow is the default."`
	Paused     bool         `json:"paused,omitempty" doc:"true: no notice is stored until it is resumed."`
}

// RecurrenceRequest is the body of PUT /v1/recurrences/{key}.
type RecurrenceRequest struct {
	RecurrenceTicks
	Body        json.RawMessage   `json:"body,omitempty" doc:"Any JSON. Delivered byte for byte."`
	BodyText    *string           `json:"body_text,omitempty" doc:"Instead of body: text."`
	BodyBase64  []byte            `json:"body_base64,omitempty" doc:"Instead of body: bytes."`
	ContentType codec.ContentType `json:"content_type,omitempty" maxLength:"256" doc:"By default application/json if the body is JSON."`
	URL         codec.URL         `json:"url,omitempty" maxLength:"2048" doc:"The address to call. Checked as in a schedule call."`
	Audience    codec.Audience    `json:"audience,omitempty" maxLength:"128" doc:"The receiver whose key signs the notices."`
	Headers     codec.Headers     `json:"headers,omitempty" doc:"Headers of the callbacks, at most 32 and 8 KiB."`
	Method      string            `json:"method,omitempty" enum:"POST,PUT,GET"`
	Retry       codec.Steps       `json:"retry,omitzero" doc:"Delays between attempts instead of the route's; none = one attempt."`
	Expires     *codec.Delay      `json:"expires,omitempty" doc:"How long after its tick an attempt of a notice may begin. By default as the route says."`
	Number      int               `json:"number,omitempty" minimum:"1" doc:"The number of its last notice where it comes from: the numbers of its notices go on after it, or after a higher one that is stored."`
	LastTick    codec.Stamp       `json:"last_tick,omitzero" doc:"The tick of that notice. If it is to come, this tick has the notice with the given number here too: one that is restored as well exists once."`
}

// definition returns the definition of a request with a key, without the body.
func (q *RecurrenceRequest) definition(key string) recur.Definition {
	return recur.Definition{Key: key, From: time.Time(q.From), Until: time.Time(q.Until), Times: q.Times, Missed: recur.Missed(q.Missed),
		MissedMost: q.MissedMost, Overlap: recur.Overlap(q.Overlap), Paused: q.Paused, MinNumber: q.Number, MinTick: time.Time(q.LastTick),
		Spec: recur.Spec{Cron: q.Cron, Zone: q.Zone, Every: spanOf(q.Every), Anchor: time.Time(q.Anchor)}}
}

// notice returns the content of a request as that of a schedule call.
func (q *RecurrenceRequest) notice() codec.Request {
	return codec.Request{Body: q.Body, BodyText: q.BodyText, BodyBase64: q.BodyBase64, ContentType: q.ContentType, URL: q.URL,
		Audience: q.Audience, Headers: q.Headers, Method: q.Method, Retry: q.Retry, Expires: codec.Expiry{After: spanOf(q.Expires)}}
}

// Recurrence is a recurring notice as the API shows it.
type Recurrence struct {
	Key   string `json:"key" doc:"The keys of its notices are this with ~ and a number." example:"app1:settle:daily:books"`
	Route string `json:"route" doc:"The name of the route of its notices."`
	RecurrenceTicks
	URL         codec.URL         `json:"url,omitempty" doc:"Without a password."`
	Audience    codec.Audience    `json:"audience,omitempty"`
	Method      string            `json:"method,omitempty" enum:"POST,PUT,GET"`
	ContentType codec.ContentType `json:"content_type,omitempty"`
	Retry       codec.Ladder      `json:"retry,omitzero"`
	Expires     *codec.Delay      `json:"expires,omitempty"`
	Headers     codec.Headers     `json:"headers,omitempty" doc:"Without those in headers_withheld."`
	Withheld    []string          `json:"headers_withheld,omitempty" doc:"Names of headers with secret values, which are not shown."`
	Sealed      bool              `json:"sealed,omitempty" doc:"True if Redis has the body, headers and the url's credentials encrypted. Only clients of the roles operate and admin see them."`
	ForgottenAt codec.Stamp       `json:"forgotten_at,omitzero" doc:"When the audience or id that seals the content was forgotten. Its ticks are missed until it is stored again."`
	Client      string            `json:"client,omitempty" doc:"The client that stored it. Recorded if two or more clients are configured, and shown to clients without a prefix."`
	Number      int               `json:"number" doc:"The number of its last notice; 0 if there was none. It goes on after the recurrence was deleted."`
	Last        string            `json:"last,omitempty" doc:"The key of the last notice for a tick. It may have been finalized and trimmed since."`
	LastTick    codec.Stamp       `json:"last_tick,omitzero" doc:"The tick of that notice."`
	Stored      int               `json:"stored" doc:"Notices for ticks so far. This and the following since the recurrence was created."`
	MissedTicks int               `json:"missed_ticks" doc:"Ticks without a notice because they were missed, or the content was forgotten."`
	Overlapped  int               `json:"overlapped_ticks" doc:"Ticks without a notice because an earlier one was pending or in flight."`
	Occupied    int               `json:"occupied_numbers" doc:"Numbers that were skipped because the key had another notice."`
	Next        []codec.Stamp     `json:"next" doc:"The next ticks, at most five. Empty if none is left. Also shown while it is paused."`
	codec.Payload
}

// RecurrenceAnswer answers PUT /v1/recurrences/{key}.
type RecurrenceAnswer struct {
	Recurrence
	Created bool `json:"created" doc:"false: it replaced an older one, or was the same, or this was a dry run."`
}

// Recurrences is one page of the recurring notices.
type Recurrences struct {
	Items  []Recurrence `json:"items" doc:"By key, without their bodies."`
	Cursor string       `json:"cursor,omitempty" doc:"Pass this to get the next page. Absent on the last page."`
}

// RecurrenceDeleted answers DELETE /v1/recurrences/{key}.
type RecurrenceDeleted struct {
	Key     string `json:"key"`
	Deleted bool   `json:"deleted"`
}

// ShownTicks is how many of the next ticks answers and pages show.
const ShownTicks = 5

// Ticks describes the ticks of a definition in one line, for the audit and the pages.
func Ticks(s recur.Spec) string {
	if s.Cron == "" {
		return "every " + notice.Short(s.Every)
	}
	if s.Zone == "" {
		return s.Cron + " UTC"
	}

	return s.Cron + " " + s.Zone
}

// ticksOf shows the ticks of a definition.
func ticksOf(d *recur.Definition) RecurrenceTicks {
	v := RecurrenceTicks{Cron: d.Spec.Cron, Zone: d.Spec.Zone, Anchor: codec.Stamp(d.Spec.Anchor), From: codec.Stamp(d.From),
		Until: codec.Stamp(d.Until), Times: d.Times, Missed: string(d.Missed), MissedMost: d.MissedMost, Overlap: string(d.Overlap),
		Paused: d.Paused}
	if d.Spec.Every > 0 {
		v.Every = &codec.Delay{Span: d.Spec.Every}
	}

	return v
}

// stamps shows times.
func stamps(list []time.Time) []codec.Stamp {
	out := make([]codec.Stamp, len(list))
	for i, t := range list {
		out[i] = codec.Stamp(t)
	}

	return out
}

// viewRecurrence shows a definition with its state, without its body. now is Redis's time.
func (a *api) viewRecurrence(x *recur.Recurrence, by string, now time.Time) Recurrence {
	n := &notice.Notice{Key: x.Key, Content: x.Content}
	c := contentOf(n, n.InlineJSON())
	v := Recurrence{Key: x.Key, RecurrenceTicks: ticksOf(&x.Definition), URL: c.URL, Audience: c.Audience, Method: c.Method,
		ContentType: c.ContentType, Retry: c.Retry, Expires: c.ExpiresAfter, Headers: c.Headers, Withheld: c.Withheld, Client: by,
		Number: x.Number, LastTick: codec.Stamp(x.LastAt()), Stored: x.Stored, MissedTicks: x.State.Missed,
		Overlapped: x.Overlapped, Occupied: x.Occupied}
	if r := a.routes.Match(x.Key); r != nil {
		v.Route = r.Name
	}

	if x.Last > 0 {
		v.Last = recur.OccurrenceKey(x.Key, x.Last)
	}

	next, err := x.Upcoming(now, ShownTicks)
	if err != nil { // the zone data of this machine lack the zone
		next = nil
	}

	v.Next = stamps(next)
	return v
}
