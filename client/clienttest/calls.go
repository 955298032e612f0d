package clienttest

import (
	"bytes"
	"cmp"
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

// call answers a call of the API. The service is locked while it runs.
type call func(r *http.Request, body []byte) (status int, answer any, p *problem)

func (s *Service) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range map[string]call{
		"POST /v1/notices":                  s.schedule,
		"GET /v1/notices":                   s.list,
		"GET /v1/notices/{key}":             s.get,
		"DELETE /v1/notices/{key}":          s.cancel,
		"POST /v1/notices/{key}/redrive":    s.redrive,
		"POST /v1/notices/{key}/resend":     s.resend,
		"POST /v1/notices/{key}/test":       s.sendTest,
		"POST /v1/routes/{name}/redrive":    s.redriveRoute,
		"POST /v1/routes/{name}/purge":      s.purgeRoute,
		"POST /v1/notices/{key}/ack":        s.report("ack"),
		"POST /v1/notices/{key}/nack":       s.report("nack", "permanent"),
		"POST /v1/notices/{key}/defer":      s.report("defer", "after"),
		"POST /v1/jobs":                     s.startJob,
		"GET /v1/jobs":                      s.listJobs,
		"GET /v1/jobs/{id}":                 s.showJob,
		"PUT /v1/recurrences/{key}":         s.putRecurrence,
		"GET /v1/recurrences":               s.listRecurrences,
		"GET /v1/recurrences/{key}":         s.withRecurrence(s.showRecurrence),
		"DELETE /v1/recurrences/{key}":      s.withRecurrence(s.deleteRecurrence),
		"POST /v1/recurrences/{key}/pause":  s.withRecurrence(s.pauseRecurrence(true)),
		"POST /v1/recurrences/{key}/resume": s.withRecurrence(s.pauseRecurrence(false)),
		"POST /v1/recurrences/{key}/run":    s.withRecurrence(s.runRecurrence),
		"GET /healthz":                      says(map[string]any{"status": "ok"}),
		"GET /readyz":                       says(map[string]any{"ready": true}),
		"/":                                 nothing,
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
	return 0, nil, failed(http.StatusNotFound, "clienttest does not serve %q", r.URL.Path)
}

// begin reads a request and locks the service. It answers the call itself if Fail applies.
func (s *Service) begin(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	body, p := readAll(r)
	s.mu.Lock()
	if p == nil && s.failing > 0 {
		s.failing--
		p = failed(s.status, "clienttest: failed by Fail")
	}

	if p != nil {
		s.mu.Unlock()
		write(w, p.Status, p)
		return nil, false
	}

	return body, true
}

// answer runs a call and writes its answer.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, do call) {
	body, ok := s.begin(w, r)
	if !ok {
		return
	}

	status, answer, p := do(r, body)
	// The answer refers to notices, so it is written under the lock.
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

// withDelay adds the delay with a unit to an answer if the request had it without one.
func withDelay(request []byte, answer map[string]any) map[string]any {
	var given struct{ Delay json.RawMessage }
	_ = json.Unmarshal(request, &given) // the request has been decoded before
	if text := strings.Trim(string(given.Delay), `" `); text != "" {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			d, _ := duration(given.Delay)
			answer["delay"] = spell(d)
		}
	}

	return answer
}

// keep stores a notice. at is the position of the request in the body, for errors.
func (s *Service) keep(data []byte, at string) (n *notice, status int, replaced bool, p *problem) {
	r, p := s.read(data, at)
	if p != nil {
		return nil, 0, false, p
	}

	return s.put(r)
}

// put stores the notice of a checked request.
func (s *Service) put(r request) (n *notice, status int, replaced bool, p *problem) {
	old := s.kept[r.key]
	if old != nil && r.onDuplicate != client.Replace {
		d := r.differs(&old.content)
		if r.dueGiven && !later(r.due, old.createdAt).Equal(later(old.firstDue, old.createdAt)) {
			d = append(d, "due")
		}

		if len(d) > 0 && r.onDuplicate != client.Keep {
			p := failed(http.StatusConflict, "the key has a notice with different content; it differs in %s", strings.Join(d, ", "))
			p.State, p.Differs = old.state, d
			return nil, 0, false, p
		}

		return old, http.StatusOK, false, nil
	}

	if r.expires, p = r.expires.from(later(r.due, s.now)); p != nil {
		return nil, 0, false, p
	}

	n = s.fresh(&notice{content: r.content, key: r.key, route: s.routeOf(r.key), state: client.Scheduled, due: r.due, firstDue: r.due,
		createdAt: s.now})
	s.kept[r.key] = n
	return n, http.StatusCreated, old != nil, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fresh gives a notice a unique id.
func (s *Service) fresh(n *notice) *notice {
	s.made++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%d", n.key, s.made))
	n.id, n.serial = "msg_"+hex.EncodeToString(sum[:13]), s.made
	return n
}

// batch schedules the notices of a JSON array, or of lines of JSON.
func (s *Service) batch(w http.ResponseWriter, r *http.Request) {
	body, ok := s.begin(w, r)
	if !ok {
		return
	}

	defer s.mu.Unlock()

	items, lines := batchItems(body)
	if len(items) == 0 || len(items) > 1000 {
		p := wrongField("body", "holds %d notices; want 1 to 1000", len(items))
		write(w, p.Status, p)
		return
	}

	answers := make([]any, len(items))
	tally := map[int]int{}
	for i, item := range items {
		var status int
		answers[i], status = s.batchItem(item, i)
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
		_ = enc.Encode(a) // fails if the caller has closed the connection
	}
}

// batchItems returns the items of a batch, and whether they were lines of JSON.
func batchItems(body []byte) (items []json.RawMessage, lines bool) {
	if json.Unmarshal(body, &items) == nil && !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return items, false
	}

	items = nil
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			items = append(items, line)
		}
	}

	return items, true
}

// batchItem schedules the i-th item of a batch.
func (s *Service) batchItem(item json.RawMessage, i int) (answer any, status int) {
	n, status, replaced, p := s.keep(item, "body["+strconv.Itoa(i)+"].")
	if p != nil {
		var given struct{ Key string }
		_ = json.Unmarshal(item, &given) // an invalid item may have no key
		return map[string]any{"key": given.Key, "status": p.Status, "problem": p}, p.Status
	}

	return withDelay(item, map[string]any{"key": n.key, "status": status, "created": status == http.StatusCreated,
		"replaced": replaced, "notice": n.view(false, nil)}), status
}

// find returns the notice in the path of a call.
func (s *Service) find(r *http.Request) (*notice, *problem) {
	key := r.PathValue("key")
	if !segments.MatchString(key) {
		return nil, wrongField("path.key", "want app:module:type:id")
	}
	if n := s.kept[key]; n != nil {
		return n, nil
	}

	return nil, failed(http.StatusNotFound, "there is no notice with the key %s", key)
}

func (s *Service) get(r *http.Request, _ []byte) (int, any, *problem) {
	n, p := s.find(r)
	if p != nil {
		return 0, nil, p
	}

	return http.StatusOK, n.view(true, nil), nil
}

// change changes a notice that is in one of the from states.
func (s *Service) change(r *http.Request, verb string, do func(*notice), from ...client.State) (int, map[string]any, *problem) {
	n, p := s.find(r)
	if p != nil {
		return 0, nil, p
	}

	before := n.state
	fits := slices.Contains(from, before)
	if !fits && !(verb == string(client.Cancelled) && before == client.Cancelled) {
		p := failed(http.StatusConflict, "the notice is %s, so it cannot be %s", before, verb)
		p.State = before
		return 0, nil, p
	}

	if fits {
		do(n)
	}

	return http.StatusOK, n.changed(before, fits, fits && before == client.Claimed), nil
}

// changed returns the answer to a call that changes a notice.
func (n *notice) changed(before client.State, changed, inFlight bool) map[string]any {
	return n.view(true, map[string]any{"changed": changed, "before": before, "in_flight": inFlight})
}

func (s *Service) cancel(r *http.Request, _ []byte) (int, any, *problem) {
	return s.change(r, string(client.Cancelled), func(n *notice) {
		n.state, n.settledAt, n.handed = client.Cancelled, s.now, false
	}, client.Scheduled, client.Claimed, client.Dead)
}

// revive schedules a finalized notice again.
func (s *Service) revive(n *notice) {
	n.state, n.reason, n.redriven, n.due, n.settledAt = client.Scheduled, "", n.used, s.now, time.Time{}
	n.ended++
}

// readResend decodes the body of a resend.
func readResend(body []byte) (id string, ending int, x expiry, p *problem) {
	m, p := fields(body, "body.", "id", "ending", "expires")
	if raw := m["expires"]; raw != nil && p == nil {
		x, p = readExpiry(raw, "body.expires")
	}

	switch {
	case p != nil:
	case json.Unmarshal(m["id"], &id) != nil || !webhookID.MatchString(id):
		p = wrongField("body.id", "want the notice's webhook-id")
	case json.Unmarshal(m["ending"], &ending) != nil || ending < 1:
		p = wrongField("body.ending", "want the notice's ending, from 1")
	}

	return id, ending, x, p
}

// resend schedules a delivered or dead notice again.
func (s *Service) resend(r *http.Request, body []byte) (int, any, *problem) {
	id, ending, x, p := readResend(body)
	if p != nil {
		return 0, nil, p
	}

	n, p := s.find(r)
	if p != nil {
		return 0, nil, p
	}

	before := n.state
	switch {
	case n.id != id:
		return 0, nil, failed(http.StatusConflict, "the notice is not resent: the key has another notice")
	case n.resent == ending && n.ending() <= ending+1:
		return http.StatusOK, n.changed(before, false, false), nil
	case before != client.Delivered && before != client.Dead || n.ending() != ending:
		p := failed(http.StatusConflict, "the notice is not resent: it is %s, ending %d", before, n.ending())
		p.State = before
		return 0, nil, p
	}

	if x, p = s.again(n, x); p != nil {
		return 0, nil, p
	}

	s.revive(n)
	n.resend, n.resent, n.expires = n.resend+1, ending, x
	return http.StatusOK, n.changed(before, true, false), nil
}

// ending returns how often the notice has been finalized.
func (n *notice) ending() int {
	ending := n.ended
	if !n.settledAt.IsZero() {
		ending++
	}

	if n.state == client.Cancelled && n.reason != "" { // finalized twice: dead, then cancelled
		ending++
	}

	return ending
}

// report returns the call of a kind of report.
func (s *Service) report(verb string, known ...string) call {
	return func(r *http.Request, body []byte) (int, any, *problem) {
		m, p := fields(body, "body.", append([]string{"attempt", "id", "response"}, known...)...)
		if p != nil {
			return 0, nil, p
		}

		var attempt int
		var id string
		switch {
		case json.Unmarshal(m["attempt"], &attempt) != nil || attempt < 1:
			return 0, nil, wrongField("body.attempt", "want the attempt's number, 1 or more, as the entry gave it")
		case json.Unmarshal(m["id"], &id) != nil || id == "":
			return 0, nil, wrongField("body.id", "want the id of the entry")
		}

		res, p := reported(verb, m)
		if p != nil {
			return 0, nil, p
		}

		return s.settle(r, id, attempt, res)
	}
}

// reported decodes the result of an attempt from a report.
func reported(verb string, m map[string]json.RawMessage) (res result, p *problem) {
	if raw := m["response"]; raw != nil && json.Unmarshal(raw, &res.response) != nil {
		return res, wrongField("body.response", "want a string")
	}

	switch verb {
	case "nack":
		res.reason = "rejected"
		res.final = string(m["permanent"]) == "true"
	case "defer":
		res.reason, res.deferred, res.after = "locked", true, deferral
		if raw := m["after"]; raw != nil {
			d, err := duration(raw)
			if err != nil {
				return res, wrongField("body.after", "%v", err)
			}

			res.after = cmp.Or(d, deferral)
		}
	}

	return res, nil
}

// undoes reports whether a report turns a delivered notice into a failed one. That is possible if the
// push to a list or stream counted as the delivery.
func (n *notice) undoes(res result) bool {
	kind := targetKind(n.route.Target)
	return n.state == client.Delivered && res.reason != "" && !n.route.Report && (kind == "list" || kind == "stream")
}

// settle settles the attempt of a report. A repeated report changes nothing.
func (s *Service) settle(r *http.Request, id string, number int, res result) (int, any, *problem) {
	n, p := s.find(r)
	if p != nil {
		return 0, nil, p
	}

	before, undoes := n.state, n.undoes(res)
	switch {
	case n.id != id:
		p := failed(http.StatusConflict, "the report is on notice %s, but the key has another notice, %s", id, n.id)
		p.State = before
		return 0, nil, p
	case n.used == number && (n.handed || undoes):
		if undoes { // the notice is finalized once more
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

// repeats reports whether the same report has been made before.
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

// matching returns the page of notices that a query selects, in the order of their keys.
func (s *Service) matching(q url.Values, limit int) (page []*notice, cursor string, p *problem) {
	after, err := base64.RawURLEncoding.DecodeString(q.Get("cursor"))
	if err != nil {
		p := wrongField("query.cursor", "is not a cursor of this listing; start again without a cursor")
		fresh := failed(http.StatusBadRequest, "%s", p.Detail)
		fresh.Errors = p.Errors
		return nil, "", fresh
	}

	if name := q.Get("route"); name != "" && s.routeNamed(name) == nil {
		return nil, "", noRoute(name)
	}

	since, p := instant(q, "since")
	if p != nil {
		return nil, "", p
	}

	until, p := instant(q, "until")
	if p != nil {
		return nil, "", p
	}

	for _, key := range slices.Sorted(maps.Keys(s.kept)) {
		n := s.kept[key]
		if key <= string(after) || !n.matches(q) || !n.within(since, until) {
			continue
		}
		if len(page) == limit {
			return page, base64.RawURLEncoding.EncodeToString([]byte(page[limit-1].key)), nil
		}

		page = append(page, n)
	}

	return page, "", nil
}

// matches reports whether a query selects the notice, apart from its period.
func (n *notice) matches(q url.Values) bool {
	for name, value := range map[string]string{"route": n.route.Name, "state": string(n.state), "reason": n.reason} {
		if want := q.Get(name); want != "" && want != value {
			return false
		}
	}

	host := strings.ToLower(q.Get("host"))
	if q.Get("waiting") == "true" { // no route of the fake has an order
		return false
	}

	return under(n.key, q.Get("prefix")) && (host == "" || n.host() == host)
}

// within reports whether the notice's time is in a period: the time of its outcome, or its due time.
func (n *notice) within(since, until time.Time) bool {
	at := n.due
	if !n.settledAt.IsZero() {
		at = n.settledAt
	}

	return !at.Before(since) && (until.IsZero() || at.Before(until))
}

// limitOf returns the page size of a listing, and checks its filters.
func limitOf(q url.Values) (limit int, p *problem) {
	limit = 100
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if limit = n; err != nil || n < 1 || n > 1000 {
			return 0, wrongField("query.limit", "want a number from 1 to 1000")
		}
	}

	state, states := client.State(q.Get("state")), []client.State{client.Scheduled, client.Claimed, client.Delivered, client.Cancelled,
		client.Dead}
	if state != "" && !slices.Contains(states, state) {
		return 0, wrongField("query.state", "want scheduled, claimed, delivered, cancelled or dead")
	}
	if q.Get("reason") != "" && state != client.Dead {
		return 0, wrongField("query.reason", "only dead letters have a reason; add state=dead")
	}

	return limit, nil
}

func (s *Service) list(r *http.Request, _ []byte) (int, any, *problem) {
	q := r.URL.Query()
	limit, p := limitOf(q)
	if p != nil {
		return 0, nil, p
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
