package api

import (
	"net/http"
	"strings"

	"notifier/internal/access"
	"notifier/internal/apidocs"
	"notifier/internal/codec"
)

var (
	listParams = []parameter{paramRoute, paramPrefix, paramState, paramReason, paramSince, paramUntil, paramLimit, paramCursor}

	redriveParams = []parameter{paramDryRun, paramPrefix, paramReason, paramSince, paramUntil, paramCursor}
)

const aboutMissing = "In a cluster of which a node does not answer, it is without what lies there, and missing names the node."

const aboutReports = "attempt and id are those of the entry, and the report concerns that attempt of that notice only. Reporting the " +
	"same again is " +
	"answered with 200 and changed=false. 409 if another notice has taken the key, the attempt is over, or something else was reported."

// operations is the table of all calls. What stands in it is served, and is in
// the document; what does not, is neither.
func (a *api) operations() []operation {
	const created, ok, mixed = http.StatusCreated, http.StatusOK, http.StatusMultiStatus
	const badRequest, forbidden, notFound, conflict, unprocessable = http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound,
		http.StatusConflict, http.StatusUnprocessableEntity
	const tooMany = http.StatusTooManyRequests
	const tooLarge, mediaType, down, full = http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusServiceUnavailable, http.StatusInsufficientStorage
	writes := []int{badRequest, tooLarge, mediaType, unprocessable, down, full}
	changes := []int{badRequest, notFound, conflict, tooLarge, mediaType, unprocessable, down}
	// These take no body, so no content type of one can be wrong.
	plain := []int{badRequest, notFound, conflict, tooLarge, unprocessable, down}
	ops := []operation{
		{access.Produce, call{method: "POST", path: "/v1/notices/batch", id: "scheduleBatch", summary: "Schedule up to 1,000 notices",
			about: "A JSON array, or NDJSON: one object a line. The answer has one result per item, in order, as an array or as NDJSON " +
				"like the request. 201 if all were created, 200 if all were kept already, 207 if mixed or if any was refused. " +
				"An item that is refused stops no other. Nothing is scheduled before the whole request has been read.",
			body: ScheduleRequest{}, example: exampleSchedule, ndjson: true, answer: []BatchResult{}, ok: []int{created, ok, mixed}, fails: writes,
			serve: a.batch}},
		{access.Produce, call{method: "POST", path: "/v1/notices", id: "schedule", summary: "Schedule a notice",
			about: "201 if it was created. 200 if a notice with the same content is kept under the key: a call may be repeated after a " +
				"timeout. 409 if its content differs, unless on_duplicate says keep or replace. A delivered notice counts as kept " +
				"for the retention. If NOTIFIER_RETAIN has trimmed it by then, a repeated call is still recognised for " +
				"NOTIFIER_REPEAT_WINDOW after the " +
				"notice was settled, and answered with its key, its id and the state settled. Neither delay nor due means now. A valid " +
				"traceparent header, and a tracestate of at most 256 bytes beside it, are kept and sent with the callback: where traces are " +
				"exported, the callback's belongs to the same trace.",
			body: ScheduleRequest{}, example: exampleSchedule, answer: ScheduleAnswer{}, repeated: SettledAnswer{}, ok: []int{created, ok},
			fails: append([]int{forbidden, conflict}, writes...), serve: a.schedule}},
		{access.Operate, call{method: "POST", path: "/v1/notices/restore", id: "restore", summary: "Put up to 1,000 notices back",
			about: "A JSON array, or NDJSON, of notices as GET /v1/notices shows those that are pending or dead, and GET /v1/history or the " +
				"pages' download those that are dead. " +
				"Each has its attempts and its webhook-id again. What was pending, or claimed, is scheduled for when it was due, with the attempts " +
				"that it had left; a dead " +
				"letter is one again, with reason and time of death: nothing is sent before it is redriven, and the history gets no second row. The " +
				"answer is like that of " +
				"/v1/notices/batch: 201 for what was put back; 200 for what is a dead letter already, and for what was pending if the same notice is " +
				"kept, whatever has " +
				"become of it, or one of the same content; 409 where something else is kept under the key. A dead letter that was cancelled, as a " +
				"purge does, gives way to " +
				"itself. 422 for what cannot be put back as it was: what was delivered, and a notice of which the body, a header or the url's " +
				"password was not kept.",
			body: RestoreRequest{}, example: exampleRestore, ndjson: true, answer: []BatchResult{}, ok: []int{created, ok, mixed}, fails: writes,
			serve: a.restore}},
		{access.Read, call{method: "GET", path: "/v1/notices", id: "list", summary: "List notices",
			about: "A page may be shorter than the limit, even empty, although more follow: go on until there is no cursor. " +
				"What lies under a prefix that no route has any more is listed too, with that prefix as its route. " + aboutMissing,
			query: listParams, answer: Page{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: a.list}},
		{access.Read, call{method: "GET", path: "/v1/notices/{key}", id: "get", summary: "Read a notice",
			about:  "What Redis keeps no longer is answered from the history, if there is one: its last ending.",
			answer: codec.Notice{}, ok: []int{ok},
			fails: []int{badRequest, notFound, unprocessable, down}, serve: a.get}},
		{access.Produce, call{method: "PATCH", path: "/v1/notices/{key}", id: "reschedule", summary: "Give a notice another due time",
			body: RescheduleRequest{}, example: exampleReschedule, answer: RescheduleAnswer{}, ok: []int{ok}, fails: changes, serve: a.reschedule}},
		{access.Produce, call{method: "DELETE", path: "/v1/notices/{key}", id: "cancel", summary: "Cancel a notice",
			about: "in_flight says whether an attempt was running: it may still reach the receiver, and there is none after it. " +
				"A dead letter may be cancelled too. Cancelling again is answered with 200 and changed=false; a delivered notice with 409.",
			answer: ChangeAnswer{}, ok: []int{ok}, fails: plain, serve: a.cancel}},
		{access.Produce, call{method: "POST", path: "/v1/notices/{key}/fire", id: "fire", summary: "Make a notice due now",
			answer: ChangeAnswer{}, ok: []int{ok}, fails: plain, serve: a.fire}},
		{access.Operate, call{method: "POST", path: "/v1/notices/{key}/redrive", id: "redrive", summary: "Schedule a dead letter again",
			about:  "Its ladder begins anew. Any state but dead is answered with 409.",
			answer: ChangeAnswer{}, ok: []int{ok}, fails: plain, serve: a.redrive}},
		{access.Produce, call{method: "POST", path: "/v1/notices/{key}/ack", id: "ack", summary: "Report a notice from a list or stream as done",
			about: aboutReports,
			body:  AckRequest{}, example: exampleAck, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.ack}},
		{access.Produce, call{method: "POST", path: "/v1/notices/{key}/nack", id: "nack",
			summary: "Report a notice from a list or stream as failed",
			about:   "It goes on with its ladder, or dies at once if permanent is true. " + aboutReports,
			body:    NackRequest{}, example: exampleNack, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.nack}},
		{access.Produce, call{method: "POST", path: "/v1/notices/{key}/defer", id: "defer", summary: "Put off a notice from a list or stream",
			about: "It comes again later and uses no attempt. " + aboutReports,
			body:  DeferRequest{}, example: exampleDefer, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.putOff}},
		{access.Read, call{method: "GET", path: "/v1/routes", id: "listRoutes", summary: "List the routes", answer: Routes{}, ok: []int{ok},
			fails: []int{badRequest, unprocessable, down}, serve: a.listRoutes}},
		{access.Operate, call{method: "POST", path: "/v1/routes/{name}/redrive", id: "redriveRoute",
			summary: "Schedule the dead letters of a route again",
			about: "Works for about five seconds and hands out a cursor if there is more to do; with dry_run=true it only counts. " +
				"The name may be a prefix that no route has any more: its dead letters wait then until a route covers them. " + aboutMissing,
			query: redriveParams, answer: Redriven{}, ok: []int{ok}, fails: []int{badRequest, notFound, tooLarge, unprocessable, down},
			serve: a.redriveAll}},
		{access.Operate, call{method: "POST", path: "/v1/routes/{name}/pause", id: "pause", summary: "Pause a route",
			about:  "Everything is kept and nothing is sent until it is resumed. Running attempts end as usual.",
			answer: Route{}, ok: []int{ok}, fails: []int{badRequest, forbidden, notFound, tooLarge, unprocessable, down}, serve: a.pause}},
		{access.Operate, call{method: "POST", path: "/v1/routes/{name}/resume", id: "resume", summary: "Resume a route",
			about:  "What became due meanwhile is spread by the route's rate and concurrency.",
			answer: Route{}, ok: []int{ok}, fails: []int{badRequest, forbidden, notFound, tooLarge, unprocessable, down}, serve: a.resume}},
		{access.Admin, call{method: "GET", path: "/v1/routes/{name}/secret", id: "receiverSecret", summary: "The keys to hand to one receiver",
			about: "On a route that signs for each host or audience, each receiver verifies with a key of its own, derived from the " +
				"route's secrets. The answer may not be stored (no-store). Only for the role admin without a prefix: a producer's token must not " +
				"read other receivers' keys, and who has one can forge callbacks. 409 under SIGN_PER=route: that secret is in the configuration.",
			query: secretParams, answer: ReceiverSecret{}, ok: []int{ok},
			fails: []int{badRequest, forbidden, notFound, conflict, unprocessable}, serve: a.secret}},
		{access.Read, call{method: "GET", path: "/v1/stats", id: "stats", summary: "Numbers of each route", about: aboutMissing, answer: Stats{},
			ok:    []int{ok},
			fails: []int{badRequest, unprocessable, down}, serve: a.stats}},
		{access.Read, call{method: "GET", path: "/v1/instances", id: "instances", summary: "List the instances that run",
			about: "The instances that serve this Redis and namespace, the latest sign of life first, and where their routes are configured " +
				"otherwise than those of the instance that answers. Only for clients without a prefix. One that has left or is gone is listed no more.",
			answer: Instances{}, ok: []int{ok}, fails: []int{badRequest, forbidden, unprocessable, down}, serve: a.instances}},
		{access.Read, call{method: "GET", path: "/v1/audit", id: "audit", summary: "List who changed what",
			about: "The calls by which operators changed something, by the API or the pages, the newest first: not schedules and consumers' " +
				"reports. Admins without a prefix see all entries, other clients their own. Of each client 2,000 entries of rare actions (sign-in, " +
				"secret, purge, erase, " +
				"pause, resume, replay, restore, links) are kept, and 2,000 of all others. Calls that are the same within a minute are one entry. A " +
				"page may be shorter than the limit, " +
				"even empty, although more follow: go on until there is no cursor.",
			query: auditParams, answer: Audit{}, ok: []int{ok}, fails: []int{badRequest, unprocessable, down}, serve: a.audit}},
		{access.Read, call{method: "GET", path: "/v1/history", id: "history", summary: "Find what has ended",
			about: "What was delivered, died, was cancelled or replaced, from the database of NOTIFIER_HISTORY_URL; 404 if there is none. A row " +
				"appears within seconds " +
				"of the ending. 422 if the search takes more than ten seconds. 429 if the client runs two searches for text already, or all " +
				"clients four.",
			query: historyParams, answer: Endings{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: a.history}},
		{access.Admin, call{method: "DELETE", path: "/v1/history", id: "erase", summary: "Erase what has ended of a key or a host",
			about: "In the database, in what is on its way there, and in Redis (settled notices and dead letters). What is pending stays, and " +
				"what ends later is kept " +
				"again. It may be repeated after an error. A host only for clients without a prefix. The audit tells of it by a digest.",
			query: eraseParams, answer: Erased{}, ok: []int{ok}, fails: []int{badRequest, forbidden, notFound, tooLarge, unprocessable, down},
			serve: a.erase}},
		{access.Operate, call{method: "POST", path: "/v1/replays", id: "replay", summary: "Send again what has ended",
			about: "Each notice that was delivered or died within the window is scheduled again under its own key, at a rate, once in a replay " +
				"whatever happens: with its " +
				"webhook-id, by which receivers tell that they have it, and the header notifier-replay. The route of today decides where it goes. " +
				"Where something is " +
				"pending under the key it is skipped, and counted. 422 if nothing fits, or if nothing of it can be sent again because bodies were " +
				"hashed or dropped. " +
				"With dry_run nothing is sent, and the answer is 200. Give an id so that the call may be repeated: 200 and the replay that there is, " +
				"or 409 if that was asked " +
				"for in other words. A client with a prefix replays its own keys only.",
			body: ReplayRequest{}, example: exampleReplay, answer: Replay{}, ok: []int{created, ok},
			fails: []int{badRequest, forbidden, notFound, conflict, tooLarge, mediaType, unprocessable, down}, serve: a.makeReplay}},
		{access.Read, call{method: "GET", path: "/v1/replays", id: "replays", summary: "List the replays",
			about: "With their progress; what was not touched for 30 days is forgotten.", answer: Replays{}, ok: []int{ok},
			fails: []int{badRequest, notFound, unprocessable, down}, serve: a.replays}},
		{access.Read, call{method: "GET", path: "/v1/replays/{id}", id: "showReplay", summary: "Read a replay with its progress",
			answer: Replay{}, ok: []int{ok},
			fails: []int{badRequest, notFound, conflict, unprocessable, down}, serve: a.showReplay}},
		{access.Operate, call{method: "DELETE", path: "/v1/replays/{id}", id: "stopReplay", summary: "Stop a replay",
			about:  "It can be resumed. What is scheduled already, up to a second of it, still goes out. 409 if it is over.",
			answer: Replay{}, ok: []int{ok}, fails: plain, serve: a.stopReplay}},
		{access.Operate, call{method: "POST", path: "/v1/replays/{id}/resume", id: "resumeReplay", summary: "Let a stopped replay go on",
			about: "Where it was stopped. 409 if it is over.", answer: Replay{}, ok: []int{ok}, fails: plain, serve: a.resumeReplay}},
		{access.Operate, call{method: "POST", path: "/v1/portal-links", id: "portalLink", summary: "Make a link to the pages for one merchant",
			about: "Whoever opens it sees, and cannot change, the notices under the prefix, and of them, if given, those that go to the host or " +
				"are for the audience. It may be opened any number of times until it ends. It is no wider than the client that makes it, and " +
				"ends with that client's token.",
			body: PortalLinkRequest{}, example: examplePortalLink, answer: PortalLink{}, ok: []int{created},
			fails: append([]int{forbidden}, writes...), serve: a.portalLink}},
		{access.Operate, call{method: "DELETE", path: "/v1/portal-links/{id}", id: "revokePortalLink", summary: "End a link early",
			about:  "Also for those who have opened it. 404 if it has ended already, or shows more than the client may see.",
			answer: PortalRevoked{}, ok: []int{ok}, fails: []int{badRequest, notFound, tooLarge, unprocessable, down}, serve: a.revokeLink}},
		{access.Public, call{method: "GET", path: "/healthz", id: "healthz", summary: "Whether the process runs", answer: Alive{}, ok: []int{ok},
			serve: a.alive}},
		{access.Public, call{method: "GET", path: "/readyz", id: "readyz", summary: "Whether the process can do its work",
			about:  "Ready means that Redis is reached and expired events are subscribed to, or knowingly not (degraded).",
			answer: Health{}, ok: []int{ok, down}, serve: a.ready}},
		{access.Read, call{method: "GET", path: "/metrics", id: "metrics", summary: "Metrics for Prometheus",
			about: "Only for clients without a prefix.", ok: []int{ok},
			fails: []int{forbidden, notFound}, serve: a.serveMetrics}},
		{access.Public, call{method: "GET", path: KeySetPath, id: "keySet", summary: "The public keys that callbacks are signed with",
			about: "A JSON Web Key Set (RFC 7517) of all routes' asymmetric keys, those that sign and those that will, without a token. The " +
				"answer may be cached for " +
				"5 minutes. 429 if one address makes more than 5 calls a second.",
			ok: []int{ok}, fails: []int{tooMany}, serve: a.keySet}},
		{access.Public, call{method: "GET", path: "/openapi.json", id: "openapi", summary: "This document", ok: []int{ok},
			serve: a.serveDocument}},
		{access.Public, call{method: "GET", path: apidocs.Path, id: "docs", hidden: true, serve: a.serveDocs}},
		{access.Public, call{method: "GET", path: apidocs.StylePath, id: "docsStyle", hidden: true, serve: a.serveDocsStyle}},
	}
	for i := range ops {
		ops[i].segments = strings.Split(ops[i].path[1:], "/")
	}
	return ops
}

// raw reports whether the operation's answer has a type of its own, so that there
// is nothing to negotiate.
func (o *operation) raw() bool { return o.answer == nil }

// everywhere lists the problems that an operation may answer with because of
// what all calls have in common.
func (o *operation) everywhere() []int {
	var s []int
	if o.role != access.Public {
		s = append(s, http.StatusUnauthorized, http.StatusTooManyRequests)
	}
	if o.role > access.Read { // which every client has
		s = append(s, http.StatusForbidden)
	}
	if o.body != nil {
		s = append(s, http.StatusRequestTimeout)
	}
	if !o.raw() {
		s = append(s, http.StatusNotAcceptable)
	}
	return append(s, http.StatusInternalServerError)
}
