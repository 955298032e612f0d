package clienttest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/client"
)

// call answers a call of the API, or panics with a problem. The service is locked while it runs.
type call func(r *http.Request, body []byte) (status int, answer any)

func (s *Service) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range map[string]call{
		"POST /v1/notices":                  s.schedule,
		"POST /v1/notices/batch":            s.batch,
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
		"POST /v1/open":                     s.open,
		"GET /healthz":                      says(map[string]any{"status": "ok"}),
		"GET /readyz":                       says(map[string]any{"ready": true}),
		"/":                                 nothing,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, do) })
	}

	return mux
}

func says(v any) call {
	return func(*http.Request, []byte) (int, any) { return http.StatusOK, v }
}

func nothing(r *http.Request, _ []byte) (int, any) {
	panic(failed(http.StatusNotFound, "clienttest does not serve %q", r.URL.Path))
}

// answer runs a call and writes its answer under the lock, because the answer refers to notices.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, do call) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 32<<20))
	s.mu.Lock()
	defer s.mu.Unlock()
	status, answer := answered(func() (int, any) {
		if err != nil {
			panic(failed(http.StatusBadRequest, "the body of the request is incomplete"))
		}

		if s.failing > 0 {
			s.failing--
			panic(failed(s.status, "clienttest: failed by Fail"))
		}

		return do(r, body)
	})
	write(w, status, answer)
}

// answered returns the answer of do, or the problem with which it panics.
func answered(do func() (int, any)) (status int, answer any) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *problem:
			status, answer = p.Status, p
		default:
			panic(p)
		}
	}()
	return do()
}

func (s *Service) schedule(_ *http.Request, body []byte) (int, any) {
	n, status, replaced := s.put(s.read(body, "body.", "body.key"))
	return status, n.view(!n.route.Sealed, withDelay(body, map[string]any{"created": status == http.StatusCreated, "replaced": replaced}))
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

// put stores the notice of a checked request.
func (s *Service) put(r request) (n *notice, status int, replaced bool) {
	old := s.kept[r.key]
	if old != nil && r.onDuplicate != client.Replace {
		d := r.differs(&old.content)
		if old.route.Sealed {
			d = r.sealedDiffers(&old.content)
		}

		if r.dueGiven && !later(r.due, old.createdAt).Equal(later(old.firstDue, old.createdAt)) {
			d = append(d, "due")
		}

		if len(d) > 0 && r.onDuplicate != client.Keep {
			p := conflict(old.state, "the key has a notice with different content; it differs in %s", strings.Join(d, ", "))
			p.Differs = d
			panic(p)
		}

		return old, http.StatusOK, false
	}

	r.expires = r.expires.from(later(r.due, s.now))
	n = s.fresh(&notice{content: r.content, key: r.key, route: s.routeOf(r.key), state: client.Scheduled, due: r.due, firstDue: r.due,
		createdAt: s.now})
	s.kept[r.key] = n
	return n, http.StatusCreated, old != nil
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
func (s *Service) batch(_ *http.Request, body []byte) (int, any) {
	items, inLines := batchItems(body)
	if len(items) == 0 || len(items) > 1000 {
		panic(wrongField("body", "holds %d notices; want 1 to 1000", len(items)))
	}

	answers := make(lines, len(items))
	tally := map[int]int{}
	for i, item := range items {
		var status int
		status, answers[i] = s.batchItem(item, i)
		tally[status]++
	}

	status := http.StatusMultiStatus
	for _, all := range []int{http.StatusCreated, http.StatusOK} {
		if tally[all] == len(items) {
			status = all
		}
	}

	if inLines {
		return status, answers
	}

	return status, []any(answers)
}

// batchItems returns the items of a batch, and whether they were lines of JSON.
func batchItems(body []byte) (items []json.RawMessage, inLines bool) {
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
func (s *Service) batchItem(item json.RawMessage, i int) (status int, answer any) {
	at := "body[" + strconv.Itoa(i) + "]."
	status, answer = answered(func() (int, any) {
		n, status, replaced := s.put(s.read(item, at, at+"key"))
		return status, withDelay(item, map[string]any{"key": n.key, "status": status, "created": status == http.StatusCreated,
			"replaced": replaced, "notice": n.view(false, n.typeOf())})
	})
	if p, ok := answer.(*problem); ok {
		var given struct{ Key string }
		_ = json.Unmarshal(item, &given) // an invalid item may have no key
		answer = map[string]any{"key": given.Key, "status": status, "problem": p}
	}

	return status, answer
}

// find returns the notice in the path of a call.
func (s *Service) find(r *http.Request) *notice {
	key := r.PathValue("key")
	if !segments.MatchString(key) {
		panic(wrongField("path.key", "want app:module:type:id"))
	}

	if n := s.kept[key]; n != nil {
		return n
	}

	panic(failed(http.StatusNotFound, "there is no notice with the key %s", key))
}

func (s *Service) get(r *http.Request, _ []byte) (int, any) {
	return http.StatusOK, s.find(r).view(true, nil)
}

// change changes a notice that is in one of the from states.
func (s *Service) change(r *http.Request, verb string, do func(*notice), from ...client.State) (int, map[string]any) {
	n := s.find(r)

	before := n.state
	fits := slices.Contains(from, before)
	if !fits && !(verb == string(client.Cancelled) && before == client.Cancelled) {
		panic(conflict(before, "the notice is %s, so it cannot be %s", before, verb))
	}

	if fits {
		do(n)
	}

	return http.StatusOK, n.changed(true, before, fits, fits && before == client.Claimed)
}

// changed returns the answer to a call that changes a notice.
func (n *notice) changed(withBody bool, before client.State, changed, inFlight bool) map[string]any {
	return n.view(withBody, map[string]any{"changed": changed, "before": before, "in_flight": inFlight})
}

func (s *Service) cancel(r *http.Request, _ []byte) (int, any) {
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
func readResend(body []byte) (id string, ending int, x expiry) {
	m := fields(body, "body.", "id", "ending", "expires")
	if raw := m["expires"]; raw != nil {
		x = readExpiry(raw, "body.expires")
	}

	switch {
	case json.Unmarshal(m["id"], &id) != nil || !webhookID.MatchString(id):
		panic(wrongField("body.id", "want the notice's webhook-id"))
	case json.Unmarshal(m["ending"], &ending) != nil || ending < 1:
		panic(wrongField("body.ending", "want the notice's ending, from 1"))
	}

	return id, ending, x
}

// resend schedules a delivered or dead notice again.
func (s *Service) resend(r *http.Request, body []byte) (int, any) {
	id, ending, x := readResend(body)
	n := s.find(r)

	before := n.state
	switch {
	case n.id != id:
		panic(failed(http.StatusConflict, "the notice is not resent: the key has another notice"))
	case n.resent == ending && n.ending() <= ending+1:
		return http.StatusOK, n.changed(true, before, false, false)
	case before != client.Delivered && before != client.Dead || n.ending() != ending:
		panic(conflict(before, "the notice is not resent: it is %s, ending %d", before, n.ending()))
	}

	x = s.again(n, x)
	s.revive(n)
	n.resend, n.resent, n.expires = n.resend+1, ending, x
	return http.StatusOK, n.changed(true, before, true, false)
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
	return func(r *http.Request, body []byte) (int, any) {
		m := fields(body, "body.", append([]string{"attempt", "id", "response"}, known...)...)
		var attempt int
		var id string
		switch {
		case json.Unmarshal(m["attempt"], &attempt) != nil || attempt < 1:
			panic(wrongField("body.attempt", "want the attempt's number, 1 or more, as the entry gave it"))
		case json.Unmarshal(m["id"], &id) != nil || id == "":
			panic(wrongField("body.id", "want the id of the entry"))
		}

		return s.settle(r, id, attempt, reported(verb, m))
	}
}

// reported decodes the result of an attempt from a report.
func reported(verb string, m map[string]json.RawMessage) (res result) {
	if raw := m["response"]; raw != nil && json.Unmarshal(raw, &res.response) != nil {
		panic(wrongField("body.response", "want a string"))
	}

	switch verb {
	case "nack":
		res.reason = "rejected"
		res.final = string(m["permanent"]) == "true"
	case "defer":
		res.reason, res.deferred, res.after = "locked", true, deferral
		if raw := m["after"]; raw != nil {
			res.after = cmp.Or(durationOf(raw, "body.after"), deferral)
		}
	}

	return res
}

// undoes reports whether a report turns a delivered notice into a failed one. That is possible if the
// push to a list or stream counted as the delivery.
func (n *notice) undoes(res result) bool {
	kind := targetKind(n.route.Target)
	return n.state == client.Delivered && res.reason != "" && !n.route.Report && (kind == "list" || kind == "stream")
}

// settle settles the attempt of a report. A repeated report changes nothing.
func (s *Service) settle(r *http.Request, id string, number int, res result) (int, any) {
	n := s.find(r)

	before, undoes := n.state, n.undoes(res)
	switch {
	case n.id != id:
		panic(conflict(before, "the report is on notice %s, but the key has another notice, %s", id, n.id))
	case n.used == number && (n.handed || undoes):
		if undoes { // the notice is finalized once more
			n.ended++
		}

		n.handed, n.settledAt = true, time.Time{}
		s.end(n, res)
		return http.StatusOK, n.changed(!n.route.Sealed, before, true, false)
	case n.repeats(number, res):
		return http.StatusOK, n.changed(!n.route.Sealed, before, false, false)
	}

	panic(conflict(before, "the notice is %s, so it cannot be reported on as attempt %d", before, number))
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
	panic(failed(http.StatusNotFound, "no route is named %q; GET /v1/routes lists them", name))
}

// matching returns the page of notices that a query selects, in the order of their keys.
func (s *Service) matching(q url.Values, limit int) (page []*notice, cursor string) {
	after, err := base64.RawURLEncoding.DecodeString(q.Get("cursor"))
	if err != nil {
		panic(wrongCursor())
	}

	if name := q.Get("route"); name != "" && s.routeNamed(name) == nil {
		panic(noRoute(name))
	}

	b := &bulk{prefix: q.Get("prefix"), reason: q.Get("reason"), host: strings.ToLower(q.Get("host")),
		since: instant(q, "query.", "since"), until: instant(q, "query.", "until")}
	for _, key := range slices.Sorted(maps.Keys(s.kept)) {
		n := s.kept[key]
		if key <= string(after) || !n.matches(q) || !b.fits(n) {
			continue
		}
		if len(page) == limit {
			return page, base64.RawURLEncoding.EncodeToString([]byte(page[limit-1].key))
		}

		page = append(page, n)
	}

	return page, ""
}

// matches reports whether the route and the state of a query are those of the notice. It never waits for another one: no
// route of the fake has an order.
func (n *notice) matches(q url.Values) bool {
	for name, value := range map[string]string{"route": n.route.Name, "state": string(n.state)} {
		if want := q.Get(name); want != "" && want != value {
			return false
		}
	}

	return q.Get("waiting") != "true"
}

// limitOf returns the page size of a listing, and checks its filters.
func limitOf(q url.Values) (limit int) {
	limit = 100
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if limit = n; err != nil || n < 1 || n > 1000 {
			panic(wrongField("query.limit", "want a number from 1 to 1000"))
		}
	}

	state, states := client.State(q.Get("state")), []client.State{client.Scheduled, client.Claimed, client.Delivered, client.Cancelled,
		client.Dead}
	if state != "" && !slices.Contains(states, state) {
		panic(wrongField("query.state", "want scheduled, claimed, delivered, cancelled or dead"))
	}

	if q.Get("reason") != "" && state != client.Dead {
		panic(wrongField("query.reason", "only dead letters have a reason; add state=dead"))
	}

	return limit
}

func (s *Service) list(r *http.Request, _ []byte) (int, any) {
	q := r.URL.Query()
	page, cursor := s.matching(q, limitOf(q))
	items := make([]any, len(page))
	for i, n := range page {
		items[i] = n.view(true, nil)
	}

	answer := map[string]any{"items": items}
	if cursor != "" {
		answer["cursor"] = cursor
	}

	return http.StatusOK, answer
}
