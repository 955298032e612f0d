package api

import (
	"net/http"
	"strings"
)

var (
	listParams = []parameter{paramRoute, paramPrefix, paramState, paramReason, paramSince, paramUntil, paramLimit, paramCursor}

	redriveParams = []parameter{paramDryRun, paramPrefix, paramReason, paramSince, paramUntil, paramCursor}
)

// operations is the table of all calls. What stands in it is served, and is in
// the document; what does not, is neither.
func (a *api) operations() []operation {
	const created, ok, mixed = http.StatusCreated, http.StatusOK, http.StatusMultiStatus
	const badRequest, forbidden, notFound, conflict, unprocessable = http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound,
		http.StatusConflict, http.StatusUnprocessableEntity
	const tooLarge, mediaType, down, full = http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusServiceUnavailable, http.StatusInsufficientStorage
	writes := []int{badRequest, tooLarge, mediaType, unprocessable, down, full}
	changes := []int{badRequest, notFound, conflict, tooLarge, mediaType, unprocessable, down}
	// These take no body, so no content type of one can be wrong.
	plain := []int{badRequest, notFound, conflict, tooLarge, unprocessable, down}
	ops := []operation{
		{method: "POST", path: "/v1/notices/batch", id: "scheduleBatch", summary: "Schedule up to 1,000 notices",
			about: "A JSON array, or NDJSON: one object a line. The answer has one result per item, in order, as an array or as NDJSON " +
				"like the request. 201 if all were created, 200 if all were kept already, 207 if mixed or if any was refused. " +
				"An item that is refused stops no other. Nothing is scheduled before the whole request has been read.",
			body: ScheduleRequest{}, ndjson: true, answer: []BatchResult{}, ok: []int{created, ok, mixed}, fails: writes, serve: a.batch},
		{method: "POST", path: "/v1/notices", id: "schedule", summary: "Schedule a notice",
			about: "201 if it was created. 200 if a notice with the same content is kept under the key: a call may be repeated after a " +
				"timeout. 409 if its content differs, unless on_duplicate says keep or replace. A delivered notice counts as kept " +
				"for the retention. Neither delay nor due means now. A traceparent header is kept and sent with the callback.",
			body: ScheduleRequest{}, answer: ScheduleAnswer{}, ok: []int{created, ok},
			fails: append([]int{forbidden, conflict}, writes...), serve: a.schedule},
		{method: "GET", path: "/v1/notices", id: "list", summary: "List notices",
			about: "A page may be shorter than the limit, even empty, although more follow: go on until there is no cursor.",
			query: listParams, answer: Page{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: a.list},
		{method: "GET", path: "/v1/notices/{key}", id: "get", summary: "Read a notice", answer: Notice{}, ok: []int{ok},
			fails: []int{badRequest, notFound, unprocessable, down}, serve: a.get},
		{method: "PATCH", path: "/v1/notices/{key}", id: "reschedule", summary: "Give a notice another due time",
			body: RescheduleRequest{}, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.reschedule},
		{method: "DELETE", path: "/v1/notices/{key}", id: "cancel", summary: "Cancel a notice",
			about: "in_flight tells whether an attempt was running: it may still reach the receiver, and there is none after it. " +
				"A dead letter may be cancelled too. Cancelling again is answered with 200 and changed=false; a delivered notice with 409.",
			answer: ChangeAnswer{}, ok: []int{ok}, fails: plain, serve: a.cancel},
		{method: "POST", path: "/v1/notices/{key}/fire", id: "fire", summary: "Make a notice due now",
			answer: ChangeAnswer{}, ok: []int{ok}, fails: plain, serve: a.fire},
		{method: "POST", path: "/v1/notices/{key}/redrive", id: "redrive", summary: "Schedule a dead letter again",
			about:  "Its ladder begins anew. Any state but dead is answered with 409.",
			answer: ChangeAnswer{}, ok: []int{ok}, fails: plain, serve: a.redrive},
		{method: "POST", path: "/v1/notices/{key}/ack", id: "ack", summary: "Report a notice from a list or stream as done",
			body: AckRequest{}, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.ack},
		{method: "POST", path: "/v1/notices/{key}/nack", id: "nack", summary: "Report a notice from a list or stream as failed",
			about: "It goes on with its ladder, or dies at once if permanent is true.",
			body:  NackRequest{}, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.nack},
		{method: "POST", path: "/v1/notices/{key}/defer", id: "defer", summary: "Put off a notice from a list or stream",
			about: "It comes again later and uses no attempt.",
			body:  DeferRequest{}, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.putOff},
		{method: "GET", path: "/v1/routes", id: "listRoutes", summary: "List the routes", answer: Routes{}, ok: []int{ok},
			fails: []int{badRequest, unprocessable, down}, serve: a.listRoutes},
		{method: "POST", path: "/v1/routes/{name}/redrive", id: "redriveRoute", summary: "Schedule the dead letters of a route again",
			about: "Works for about five seconds and hands out a cursor if there is more to do; with dry_run=true it only counts.",
			query: redriveParams, answer: Redriven{}, ok: []int{ok}, fails: []int{badRequest, notFound, tooLarge, unprocessable, down},
			serve: a.redriveAll},
		{method: "POST", path: "/v1/routes/{name}/pause", id: "pause", summary: "Pause a route",
			about:  "Everything is kept and nothing is sent until it is resumed. Running attempts end as usual.",
			answer: Route{}, ok: []int{ok}, fails: []int{badRequest, forbidden, notFound, tooLarge, unprocessable, down}, serve: a.pause},
		{method: "POST", path: "/v1/routes/{name}/resume", id: "resume", summary: "Resume a route",
			about:  "What became due meanwhile is spread by the route's rate and concurrency.",
			answer: Route{}, ok: []int{ok}, fails: []int{badRequest, forbidden, notFound, tooLarge, unprocessable, down}, serve: a.resume},
		{method: "GET", path: "/v1/stats", id: "stats", summary: "Numbers of each route", answer: Stats{}, ok: []int{ok},
			fails: []int{badRequest, unprocessable, down}, serve: a.stats},
		{method: "GET", path: "/healthz", id: "healthz", summary: "Does the process run?", open: true, answer: Alive{}, ok: []int{ok},
			serve: a.alive},
		{method: "GET", path: "/readyz", id: "readyz", summary: "Does the process do its work?",
			about: "Ready means that Redis is reached and expired events are subscribed to, or knowingly not (degraded).",
			open:  true, answer: Health{}, ok: []int{ok, down}, serve: a.ready},
		{method: "GET", path: "/metrics", id: "metrics", summary: "Metrics for Prometheus",
			about: "If clients are configured, a token of one without a prefix is needed.", ok: []int{ok},
			fails: []int{forbidden, notFound}, serve: a.serveMetrics},
		{method: "GET", path: "/openapi.json", id: "openapi", summary: "This document", open: true, ok: []int{ok}, serve: a.serveDocument},
	}
	for i := range ops {
		ops[i].segments = strings.Split(ops[i].path[1:], "/")
	}
	return ops
}

// raw tells whether the operation's answer has a type of its own, so that there
// is nothing to negotiate.
func (o *operation) raw() bool { return o.answer == nil }

// everywhere lists the problems that an operation may answer with because of
// what all calls have in common.
func (o *operation) everywhere() []int {
	var s []int
	if !o.open {
		s = append(s, http.StatusUnauthorized)
	}
	if !o.raw() {
		s = append(s, http.StatusNotAcceptable)
	}
	return append(s, http.StatusInternalServerError)
}
