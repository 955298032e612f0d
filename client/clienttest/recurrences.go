package clienttest

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"notifier/client"
)

// recurrence is a recurring notice. Its notices are those of runs only, because the service has no ticks.
type recurrence struct {
	content
	shown client.Recurrence // its key, route, ticks and counts
	route *routeState
	every time.Duration
}

var numbered = regexp.MustCompile(`~[0-9]+$`)

// putRecurrence creates or replaces a recurring notice.
func (s *Service) putRecurrence(r *http.Request, body []byte) (int, any) {
	x := s.readRecurrence(r.PathValue("key"), body)

	if r.URL.Query().Get("dry_run") == "true" {
		return http.StatusOK, x.view(s.now, true, map[string]any{"created": false})
	}

	key := x.shown.Key
	old, status := s.recurring[key], http.StatusOK
	if old == nil {
		status = http.StatusCreated
	}

	x.shown.Number = max(x.shown.Number, s.numbers[key])
	s.numbers[key], s.recurring[key] = x.shown.Number, x
	return status, x.view(s.now, true, map[string]any{"created": old == nil})
}

// readRecurrence decodes and checks a request.
func (s *Service) readRecurrence(key string, body []byte) *recurrence {
	x := &recurrence{shown: client.Recurrence{Key: key}}
	r := &x.shown
	own := map[string]any{"cron": &r.Cron, "zone": &r.Zone, "times": &r.Times, "missed": &r.Missed, "missed_most": &r.MissedMost,
		"overlap": &r.Overlap, "anchor": &r.Anchor, "from": &r.From, "until": &r.Until, "paused": &r.Paused, "number": &r.Number,
		"every": new(any), "last_tick": new(any)}
	m := fields(body, "body.", append(slices.Sorted(maps.Keys(own)), "body", "body_text", "body_base64", "content_type", "url", "audience",
		"headers", "method", "retry", "expires")...)

	switch {
	case !segments.MatchString(key) || numbered.MatchString(key):
		panic(wrongField("path.key", "want app:module:type:name, whose name does not end in ~ and digits"))
	case (m["cron"] == nil) == (m["every"] == nil):
		panic(wrongField("body.cron", "want either cron or every"))
	}

	for _, name := range slices.Sorted(maps.Keys(own)) {
		if raw := m[name]; raw != nil && json.Unmarshal(raw, own[name]) != nil {
			panic(wrongField("body."+name, "has another type"))
		}
	}

	if raw := m["every"]; raw != nil {
		var err error
		if x.every, err = duration(raw); err != nil || x.every < time.Second {
			panic(wrongField("body.every", "want an interval of 1s or more"))
		}

		r.Every = spell(x.every)
	}

	s.checkUntil(r)
	maps.DeleteFunc(m, func(name string, _ json.RawMessage) bool { return own[name] != nil })
	m["key"], _ = json.Marshal(key)
	rest, _ := json.Marshal(m) // of decoded members
	x.content, x.route = s.read(rest, "body.", "path.key").content, s.routeOf(key)
	r.Route = x.route.Name
	return x
}

// checkUntil refuses an end that has passed, unless the recurring notice has it already or comes from another service.
func (s *Service) checkUntil(r *client.Recurrence) {
	old := s.recurring[r.Key]
	if r.Until.Before(s.now) && !r.Until.IsZero() && r.Number == 0 && (old == nil || !old.shown.Until.Equal(r.Until)) {
		panic(wrongField("body.until", "has passed; want a later time, or leave it out"))
	}
}

// view returns the recurring notice as the API shows it. The next ticks are those of an interval without an anchor.
func (x *recurrence) view(now time.Time, withBody bool, more map[string]any) map[string]any {
	shown := x.shown
	shown.URL, shown.Audience, shown.Method, shown.ContentType, shown.Retry = x.url, x.audience, x.method, x.contentType, spelt(x.steps)
	shown.Headers, shown.Withheld = x.shownHeaders()
	if withBody {
		shown.Body, shown.BodyBase64 = x.shownBody()
	}

	switch {
	case x.expires.after > 0:
		shown.Expires = spell(x.expires.after)
	case !x.expires.at.IsZero():
		shown.Expires = stamp(x.expires.at)
	}

	v := present(shown, "number", "stored", "missed_ticks", "overlapped_ticks", "occupied_numbers")
	next := []string{}
	for i := range 5 {
		if x.every > 0 {
			next = append(next, stamp(now.Truncate(x.every).Add(time.Duration(i+1)*x.every)))
		}
	}

	v["next"] = next
	maps.Copy(v, more)
	return v
}

// listRecurrences lists the recurring notices under a prefix, by key.
func (s *Service) listRecurrences(r *http.Request, _ []byte) (int, any) {
	q := r.URL.Query()
	limit := limitOf(q)
	items, answer := []any{}, map[string]any{}
	last := ""
	for _, key := range slices.Sorted(maps.Keys(s.recurring)) {
		if !under(key, q.Get("prefix")) || key <= q.Get("cursor") {
			continue
		}

		if len(items) == limit {
			answer["cursor"] = last
			break
		}

		items, last = append(items, s.recurring[key].view(s.now, false, nil)), key
	}

	answer["items"] = items
	return http.StatusOK, answer
}

// withRecurrence returns a call on the recurring notice in the path.
func (s *Service) withRecurrence(do func(x *recurrence) (int, any)) call {
	return func(r *http.Request, _ []byte) (int, any) {
		x := s.recurring[r.PathValue("key")]
		if x == nil {
			panic(failed(http.StatusNotFound, "no recurring notice has the key %s", r.PathValue("key")))
		}

		return do(x)
	}
}

func (s *Service) showRecurrence(x *recurrence) (int, any) {
	return http.StatusOK, x.view(s.now, true, nil)
}

func (s *Service) deleteRecurrence(x *recurrence) (int, any) {
	delete(s.recurring, x.shown.Key)
	return http.StatusOK, map[string]any{"key": x.shown.Key, "deleted": true}
}

// pauseRecurrence returns a call that pauses or resumes.
func (s *Service) pauseRecurrence(paused bool) func(x *recurrence) (int, any) {
	return func(x *recurrence) (int, any) {
		x.shown.Paused = paused
		return s.showRecurrence(x)
	}
}

// runRecurrence schedules a notice that is due now. Numbers of other notices are skipped.
func (s *Service) runRecurrence(x *recurrence) (int, any) {
	key := ""
	for key == "" || s.kept[key] != nil {
		x.shown.Number++
		key = x.shown.Key + "~" + strconv.Itoa(x.shown.Number)
	}

	s.numbers[x.shown.Key] = x.shown.Number
	n, _, _ := s.put(request{content: x.content, key: key, due: s.now, onDuplicate: client.Replace})

	n.tick = s.now
	return http.StatusCreated, n.view(true, nil)
}
