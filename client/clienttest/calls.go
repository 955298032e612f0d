package clienttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/client"
)

// call answers one call; the service is locked meanwhile.
type call func(r *http.Request, body []byte) (status int, answer any, p *problem)

func (s *Service) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range map[string]call{
		"POST /v1/notices":               s.schedule,
		"GET /v1/notices":                s.list,
		"GET /v1/notices/{key}":          s.get,
		"DELETE /v1/notices/{key}":       s.cancel,
		"POST /v1/notices/{key}/redrive": s.redrive,
		"POST /v1/notices/{key}/ack":     s.report("ack"),
		"POST /v1/notices/{key}/nack":    s.report("nack", "permanent"),
		"POST /v1/notices/{key}/defer":   s.report("defer", "after"),
		"GET /healthz":                   says(map[string]any{"status": "ok"}),
		"GET /readyz":                    says(map[string]any{"ready": true}),
		"/":                              nothing,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, do) })
	}
	mux.HandleFunc("POST /v1/notices/batch", s.batch)
	return mux
}

func says(v any) call {
	return func(*http.Request, []byte) (int, any, *problem) { return http.StatusOK, v, nil }
}

func nothing(r *http.Request, _ []byte) (int, any, *problem) {
	return 0, nil, failed(http.StatusNotFound, "clienttest serves nothing at %q", r.URL.Path)
}

// begin reads a request and takes the lock, unless the call fails as Fail asked.
func (s *Service) begin(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	body, p := readAll(r)
	s.mu.Lock()
	if p == nil && s.failing > 0 {
		s.failing--
		p = failed(s.status, "clienttest: Fail asked for this")
	}
	if p != nil {
		s.mu.Unlock()
		write(w, p.Status, p)
		return nil, false
	}
	return body, true
}

func (s *Service) answer(w http.ResponseWriter, r *http.Request, do call) {
	body, ok := s.begin(w, r)
	if !ok {
		return
	}
	status, answer, p := do(r, body)
	// The answer is written under the lock: it refers to notices.
	defer s.mu.Unlock()
	if p != nil {
		write(w, p.Status, p)
		return
	}
	write(w, status, answer)
}

func (s *Service) schedule(_ *http.Request, body []byte) (int, any, *problem) {
	n, status, replaced, p := s.keep(body, "body.")
	if p != nil {
		return 0, nil, p
	}
	return status, n.view(true, withDelay(body, map[string]any{"created": status == http.StatusCreated, "replaced": replaced})), nil
}

// withDelay adds the delay in words if it was given without a unit.
func withDelay(request []byte, answer map[string]any) map[string]any {
	var given struct{ Delay json.RawMessage }
	_ = json.Unmarshal(request, &given) // it was read before
	if text := strings.Trim(string(given.Delay), `" `); text != "" {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			d, _ := duration(given.Delay)
			answer["delay"] = spell(d)
		}
	}
	return answer
}

// keep schedules one notice.
func (s *Service) keep(data []byte, at string) (n *notice, status int, replaced bool, p *problem) {
	r, p := s.read(data, at)
	if p != nil {
		return nil, 0, false, p
	}
	old := s.kept[r.key]
	if old != nil && r.onDuplicate != client.Replace {
		if d := r.differs(&old.content); len(d) > 0 && r.onDuplicate != client.Keep {
			p := failed(http.StatusConflict, "a notice with another content is kept under this key; it differs in %s", strings.Join(d, ", "))
			p.State, p.Differs = old.state, d
			return nil, 0, false, p
		}
		return old, http.StatusOK, false, nil
	}
	n = s.fresh(&notice{content: r.content, key: r.key, route: s.routeOf(r.key), state: client.Scheduled, due: r.due, createdAt: s.now})
	s.kept[r.key] = n
	return n, http.StatusCreated, old != nil, nil
}

// fresh gives a notice an id that no other has.
func (s *Service) fresh(n *notice) *notice {
	s.made++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%d", n.key, s.made))
	n.id, n.serial = "msg_"+hex.EncodeToString(sum[:13]), s.made
	return n
}

// batch schedules each item of an array, or of one object a line.
func (s *Service) batch(w http.ResponseWriter, r *http.Request) {
	body, ok := s.begin(w, r)
	if !ok {
		return
	}
	defer s.mu.Unlock()
	var items []json.RawMessage
	lines := json.Unmarshal(body, &items) != nil || bytes.HasPrefix(bytes.TrimSpace(body), []byte("{"))
	if lines {
		items = nil
		for line := range bytes.Lines(body) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				items = append(items, line)
			}
		}
	}
	if len(items) == 0 || len(items) > 1000 {
		p := wrongField("body", "holds %d notices; want 1 to 1000", len(items))
		write(w, p.Status, p)
		return
	}
	answers := make([]any, len(items))
	tally := map[int]int{}
	for i, item := range items {
		n, status, replaced, p := s.keep(item, "body["+strconv.Itoa(i)+"].")
		if p != nil {
			var given struct{ Key string }
			_ = json.Unmarshal(item, &given) // a wrong item may have no key
			status, answers[i] = p.Status, map[string]any{"key": given.Key, "status": p.Status, "problem": p}
		} else {
			answers[i] = withDelay(item, map[string]any{"key": n.key, "status": status, "created": status == http.StatusCreated,
				"replaced": replaced, "notice": n.view(false, nil)})
		}
		tally[status]++
	}
	status := http.StatusMultiStatus
	for _, all := range []int{http.StatusCreated, http.StatusOK} {
		if tally[all] == len(items) {
			status = all
		}
	}
	if !lines {
		write(w, status, answers)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	for _, a := range answers {
		_ = enc.Encode(a) // the caller has gone
	}
}

// find is the notice that a call names.
func (s *Service) find(r *http.Request) (*notice, *problem) {
	key := r.PathValue("key")
	if !segments.MatchString(key) {
		return nil, wrongField("path.key", "want app:module:type:id")
	}
	if n := s.kept[key]; n != nil {
		return n, nil
	}
	return nil, failed(http.StatusNotFound, "no notice is kept under %s", key)
}

func (s *Service) get(r *http.Request, _ []byte) (int, any, *problem) {
	n, p := s.find(r)
	if p != nil {
		return 0, nil, p
	}
	return http.StatusOK, n.view(true, nil), nil
}

// change changes a notice that is in one of the states.
func (s *Service) change(r *http.Request, verb string, do func(*notice), from ...string) (int, map[string]any, *problem) {
	n, p := s.find(r)
	if p != nil {
		return 0, nil, p
	}
	before := n.state
	fits := slices.Contains(from, before)
	if !fits && !(verb == client.Cancelled && before == client.Cancelled) {
		p := failed(http.StatusConflict, "the notice is %s, so it cannot be %s", before, verb)
		p.State = before
		return 0, nil, p
	}
	if fits {
		do(n)
	}
	return http.StatusOK, n.changed(before, fits, fits && before == client.Claimed), nil
}

func (n *notice) changed(before string, changed, inFlight bool) map[string]any {
	return n.view(true, map[string]any{"changed": changed, "before": before, "in_flight": inFlight})
}

func (s *Service) cancel(r *http.Request, _ []byte) (int, any, *problem) {
	return s.change(r, client.Cancelled, func(n *notice) {
		n.state, n.settledAt, n.handed = client.Cancelled, s.now, false
	}, client.Scheduled, client.Claimed, client.Dead)
}

func (s *Service) redrive(r *http.Request, _ []byte) (int, any, *problem) {
	return s.change(r, "redriven", s.revive, client.Dead)
}

func (s *Service) revive(n *notice) {
	n.state, n.reason, n.redriven, n.due, n.settledAt = client.Scheduled, "", n.used, s.now, time.Time{}
	n.ended++
}

// report serves the reports of consumers.
func (s *Service) report(verb string, known ...string) call {
	return func(r *http.Request, body []byte) (int, any, *problem) {
		m, p := fields(body, "body.", append([]string{"attempt", "id", "response"}, known...)...)
		if p != nil {
			return 0, nil, p
		}
		var attempt int
		var id string
		res := result{}
		switch {
		case json.Unmarshal(m["attempt"], &attempt) != nil || attempt < 1:
			return 0, nil, wrongField("body.attempt", "want the attempt's number, 1 or more, as the entry gave it")
		case json.Unmarshal(m["id"], &id) != nil || id == "":
			return 0, nil, wrongField("body.id", "want the id of the entry")
		}
		if raw := m["response"]; raw != nil && json.Unmarshal(raw, &res.response) != nil {
			return 0, nil, wrongField("body.response", "want a string")
		}
		switch verb {
		case "nack":
			res.reason = "rejected"
			res.final = string(m["permanent"]) == "true"
		case "defer":
			res.reason, res.deferred, res.after = "locked", true, putOff
			if raw := m["after"]; raw != nil {
				d, err := duration(raw)
				if err != nil {
					return 0, nil, wrongField("body.after", "%v", err)
				}
				if d > 0 {
					res.after = d
				}
			}
		}
		return s.take(r, id, attempt, res)
	}
}

// take settles the attempt that a report speaks of; the same report again
// changes nothing.
func (s *Service) take(r *http.Request, id string, number int, res result) (int, any, *problem) {
	n, p := s.find(r)
	if p != nil {
		return 0, nil, p
	}
	before := n.state
	kind := targetKind(n.route.Target)
	undoes := before == client.Delivered && res.reason != "" && !n.route.Report && (kind == "list" || kind == "stream")
	switch {
	case n.id != id:
		p := failed(http.StatusConflict, "the report is on notice %s, and the key holds another one, %s", id, n.id)
		p.State = before
		return 0, nil, p
	case n.used == number && (n.handed || undoes):
		if undoes { // a push that counted as the delivery ends once more
			n.ended++
		}
		n.handed, n.settledAt = true, time.Time{}
		s.end(n, res)
		return http.StatusOK, n.changed(before, true, false), nil
	case n.repeats(number, res):
		return http.StatusOK, n.changed(before, false, false), nil
	}
	p = failed(http.StatusConflict, "the notice is %s, so it cannot be reported on as attempt %d", before, number)
	p.State = before
	return 0, nil, p
}

// repeats reports whether the same report was made before.
func (n *notice) repeats(number int, res result) bool {
	for _, a := range n.attempts {
		if a.N == number && !(n.handed && a.N == n.used) {
			return a.Reason == res.reason && (!res.final || n.state == client.Dead && a.N == n.used)
		}
	}
	return res.deferred && n.used+1 == number && n.locked > 0
}

func noRoute(name string) *problem {
	return failed(http.StatusNotFound, "no route is named %q; GET /v1/routes lists them", name)
}

// matching are the notices that a query asks for, by key, from behind its cursor.
func (s *Service) matching(q url.Values, limit int) (page []*notice, cursor string, p *problem) {
	after, err := base64.RawURLEncoding.DecodeString(q.Get("cursor"))
	if err != nil {
		p := wrongField("query.cursor", "is not a cursor of this listing; begin again without one")
		fresh := failed(http.StatusBadRequest, "%s", p.Detail)
		fresh.Errors = p.Errors
		return nil, "", fresh
	}
	if name := q.Get("route"); name != "" && s.routeNamed(name) == nil {
		return nil, "", noRoute(name)
	}
	bounds := map[string]time.Time{}
	for _, name := range []string{"since", "until"} {
		t, err := time.Parse(time.RFC3339Nano, q.Get(name))
		if err != nil && q.Get(name) != "" {
			return nil, "", wrongField("query."+name, "want a time such as 2026-11-21T09:30:00Z")
		}
		bounds[name] = t
	}
	for _, key := range slices.Sorted(maps.Keys(s.kept)) {
		n, at := s.kept[key], s.kept[key].due
		if !n.settledAt.IsZero() {
			at = n.settledAt
		}
		fits := func(name, value string) bool { return q.Get(name) == "" || q.Get(name) == value }
		if key <= string(after) || !fits("route", n.route.Name) || !fits("state", n.state) || !fits("reason", n.reason) ||
			!under(key, q.Get("prefix")) || at.Before(bounds["since"]) || !bounds["until"].IsZero() && !at.Before(bounds["until"]) {
			continue
		}
		if len(page) == limit {
			return page, base64.RawURLEncoding.EncodeToString([]byte(page[limit-1].key)), nil
		}
		page = append(page, n)
	}
	return page, "", nil
}

func (s *Service) list(r *http.Request, _ []byte) (int, any, *problem) {
	q, limit := r.URL.Query(), 100
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if limit = n; err != nil || n < 1 || n > 1000 {
			return 0, nil, wrongField("query.limit", "want a number from 1 to 1000")
		}
	}
	if state := q.Get("state"); state != "" && !slices.Contains([]string{client.Scheduled, client.Claimed, client.Delivered, client.Cancelled,
		client.Dead}, state) {
		return 0, nil, wrongField("query.state", "want scheduled, claimed, delivered, cancelled or dead")
	}
	page, cursor, p := s.matching(q, limit)
	if p != nil {
		return 0, nil, p
	}
	items := make([]any, len(page))
	for i, n := range page {
		items[i] = n.view(true, nil)
	}
	answer := map[string]any{"items": items}
	if cursor != "" {
		answer["cursor"] = cursor
	}
	return http.StatusOK, answer, nil
}
