package clienttest

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/client"
)

// recurrence is a recurring notice. Its notices are those of runs only, because the service has no ticks.
type recurrence struct {
	content
	key    string
	route  *routeState
	ticks  map[string]any // the members of the request about its ticks, as the API shows them
	every  time.Duration
	paused bool
	number int
}

// recurrenceTexts are the members that are shown as they were given.
var recurrenceTexts = []string{"cron", "zone", "times", "missed", "missed_most", "overlap"}

var numbered = regexp.MustCompile(`~[0-9]+$`)

// putRecurrence creates or replaces a recurring notice.
func (s *Service) putRecurrence(r *http.Request, body []byte) (int, any, *problem) {
	x, p := s.readRecurrence(r.PathValue("key"), body)
	if p != nil {
		return 0, nil, p
	}

	if r.URL.Query().Get("dry_run") == "true" {
		return http.StatusOK, x.view(s.now, true, map[string]any{"created": false}), nil
	}

	old, status := s.recurring[x.key], http.StatusOK
	if old == nil {
		status = http.StatusCreated
	}

	x.number = max(x.number, s.numbers[x.key])
	s.numbers[x.key], s.recurring[x.key] = x.number, x
	return status, x.view(s.now, true, map[string]any{"created": old == nil}), nil
}

// readRecurrence decodes and checks a request.
func (s *Service) readRecurrence(key string, body []byte) (*recurrence, *problem) {
	m, p := fields(body, "body.", append([]string{"every", "anchor", "from", "until", "paused", "number", "last_tick", "body", "body_text",
		"body_base64", "content_type", "url", "audience", "headers", "method", "retry", "expires"}, recurrenceTexts...)...)
	if p != nil {
		return nil, p
	}

	if !segments.MatchString(key) || numbered.MatchString(key) {
		return nil, wrongField("path.key", "want app:module:type:name, whose name does not end in ~ and digits")
	}

	x := &recurrence{key: key, ticks: map[string]any{}}
	for _, name := range recurrenceTexts {
		if raw := m[name]; raw != nil {
			x.ticks[name] = raw
		}
	}

	if (m["cron"] == nil) == (m["every"] == nil) {
		return nil, wrongField("body.cron", "want either cron or every")
	}

	for name, to := range map[string]any{"paused": &x.paused, "number": &x.number} {
		if raw := m[name]; raw != nil && json.Unmarshal(raw, to) != nil {
			return nil, wrongField("body."+name, "has another type")
		}
	}

	if p := x.readTimes(m); p != nil {
		return nil, p
	}

	for _, name := range append(recurrenceTexts, "every", "anchor", "from", "until", "paused", "number", "last_tick") {
		delete(m, name)
	}

	m["key"], _ = json.Marshal(key)
	rest, _ := json.Marshal(m) // of decoded members
	q, p := s.read(rest, "body.")
	if p != nil && strings.HasPrefix(p.Detail, "body.key") {
		return nil, wrongField("path.key", "no route covers it")
	}

	x.content, x.route = q.content, s.routeOf(key)
	return x, p
}

// readTimes decodes the times and durations of a request.
func (x *recurrence) readTimes(m map[string]json.RawMessage) *problem {
	if raw := m["every"]; raw != nil {
		var err error
		if x.every, err = duration(raw); err != nil || x.every < time.Second {
			return wrongField("body.every", "want an interval of 1s or more")
		}

		x.ticks["every"] = spell(x.every)
	}

	for _, name := range []string{"anchor", "from", "until"} {
		var at time.Time
		if raw := m[name]; raw != nil && json.Unmarshal(raw, &at) != nil {
			return wrongField("body."+name, "want a time such as 2026-11-21T09:30:00Z")
		}

		if !at.IsZero() {
			x.ticks[name] = stamp(at)
		}
	}

	return nil
}

// view returns the recurring notice as the API shows it. The next ticks are those of an interval without an anchor.
func (x *recurrence) view(now time.Time, withBody bool, more map[string]any) map[string]any {
	next := []string{}
	for i := range 5 {
		if x.every > 0 {
			next = append(next, stamp(now.Truncate(x.every).Add(time.Duration(i+1)*x.every)))
		}
	}

	v := map[string]any{"key": x.key, "route": x.route.Name, "number": x.number, "stored": 0, "missed_ticks": 0, "overlapped_ticks": 0,
		"occupied_numbers": 0, "next": next}
	maps.Copy(v, x.ticks)
	n := notice{content: x.content}
	n.addOptional(v)
	delete(v, "ending") // of a notice
	if delete(v, "expires_after"); x.expires.after > 0 {
		v["expires"] = spell(x.expires.after)
	}

	if x.paused {
		v["paused"] = true
	}

	if withBody {
		x.addBody(v)
	}

	maps.Copy(v, more)
	return v
}

// listRecurrences lists the recurring notices under a prefix, by key.
func (s *Service) listRecurrences(r *http.Request, _ []byte) (int, any, *problem) {
	q := r.URL.Query()
	limit, p := limitOf(q)
	if p != nil {
		return 0, nil, p
	}

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
	return http.StatusOK, answer, nil
}

// withRecurrence returns a call on the recurring notice in the path.
func (s *Service) withRecurrence(do func(x *recurrence) (int, any, *problem)) call {
	return func(r *http.Request, _ []byte) (int, any, *problem) {
		x := s.recurring[r.PathValue("key")]
		if x == nil {
			return 0, nil, failed(http.StatusNotFound, "no recurring notice has the key %s", r.PathValue("key"))
		}

		return do(x)
	}
}

func (s *Service) showRecurrence(x *recurrence) (int, any, *problem) {
	return http.StatusOK, x.view(s.now, true, nil), nil
}

func (s *Service) deleteRecurrence(x *recurrence) (int, any, *problem) {
	delete(s.recurring, x.key)
	return http.StatusOK, map[string]any{"key": x.key, "deleted": true}, nil
}

// pauseRecurrence returns a call that pauses or resumes.
func (s *Service) pauseRecurrence(paused bool) func(x *recurrence) (int, any, *problem) {
	return func(x *recurrence) (int, any, *problem) {
		x.paused = paused
		return s.showRecurrence(x)
	}
}

// runRecurrence schedules a notice that is due now. Numbers of other notices are skipped.
func (s *Service) runRecurrence(x *recurrence) (int, any, *problem) {
	key := ""
	for key == "" || s.kept[key] != nil {
		x.number++
		key = x.key + "~" + strconv.Itoa(x.number)
	}

	s.numbers[x.key] = x.number
	n, _, _, p := s.put(request{content: x.content, key: key, due: s.now, onDuplicate: client.Replace})
	if p != nil {
		return 0, nil, p
	}

	n.tick = s.now
	return http.StatusCreated, n.view(true, nil), nil
}
