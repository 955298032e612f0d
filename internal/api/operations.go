package api

import (
	"net/http"
	"strings"

	"notifier/internal/auth"
	"notifier/internal/codec"
)

var (
	listParams = []parameter{paramRoute, paramPrefix, paramState, paramWaits, paramReason, paramStatus, paramCalled, paramSince, paramUntil,
		paramLimit, paramCursor}

	purgeParams   = []parameter{paramDryRun, paramPrefix, paramReason, paramStatus, paramCalled, paramSince, paramUntil, paramCursor}
	redriveParams = append([]parameter{paramRate}, purgeParams...)
)

const aboutMissing = "If a node of a Redis cluster does not answer, the answer lacks the notices of that node, and missing names the " +
	"node."

const aboutReports = "attempt and id are those of the entry, and the report concerns that attempt of that notice only. A repeated " +
	"report is answered with 200 and changed=false. 409 if another notice has the key, the attempt is over, or the " +
	"report differs from an earlier one."

// operations is the table of all calls: the router and the document have exactly these.
func (a *api) operations() []operation {
	redirects, others := a.redirectCalls(), a.otherJobCalls()
	const created, ok, mixed = http.StatusCreated, http.StatusOK, http.StatusMultiStatus
	const badRequest, forbidden, notFound, conflict, unprocessable = http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound,
		http.StatusConflict, http.StatusUnprocessableEntity
	const tooMany = http.StatusTooManyRequests
	const tooLarge, mediaType, down, full = http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusServiceUnavailable, http.StatusInsufficientStorage
	bodied := []int{badRequest, tooLarge, mediaType, unprocessable, down}
	writes := []int{badRequest, tooLarge, mediaType, unprocessable, down, full}
	changes := []int{badRequest, notFound, conflict, tooLarge, mediaType, unprocessable, down}
	// Calls without a body, for which no content type is invalid.
	plain := []int{badRequest, notFound, conflict, tooLarge, unprocessable, down}
	ops := []operation{
		{auth.Produce, call{method: "POST", path: "/v1/notices/batch", id: "scheduleBatch", summary: "Schedule up to 1,000 notices",
			about: "A JSON array, or NDJSON with one object a line. The answer has one result for each item, in the same order and " +
				"in the form of the request. 201 if all were created, 200 if all existed already, 207 if the results differ or an " +
				"item was refused. A refused item does not affect the others. Nothing is scheduled before the whole request has " +
				"been read.",
			body: ScheduleRequest{}, example: exampleSchedule, ndjson: true, answer: []BatchResult{}, ok: []int{created, ok, mixed}, fails: writes,
			serve: a.batch}},
		{auth.Produce, call{method: "POST", path: "/v1/notices", id: "schedule", summary: "Schedule a notice",
			about: "201 if the notice was created. 200 if the key has a notice with the same content, so a call may be repeated " +
				"after a timeout. If that notice is dead or cancelled, as state says, it is not sent again. 409 if the content " +
				"differs, unless on_duplicate is keep or replace. The content is url, audience, method, content_type, body, " +
				"headers, retry and an expires that is a time. A due is compared with the due time that the notice got when it " +
				"was created: later changes and retries do not count, and a due before the creation means the time of the " +
				"creation. A delay is not " +
				"compared. Nor is a due, if the state is settled or the notice was restored or replayed. A delivered notice " +
				"counts as existing for the retention. If NOTIFIER_RETAIN has removed it earlier, a repeated call is still " +
				"recognised for NOTIFIER_REPEAT_WINDOW after the notice was settled, and answered with its key, its id and the " +
				"state settled. Without delay and due, the notice is due now. A valid traceparent header, with a tracestate of " +
				"at most 256 bytes, is stored and sent with the callback. Where traces are exported, the callback belongs to the " +
				"same trace.",
			body: ScheduleRequest{}, example: exampleSchedule, answer: ScheduleAnswer{}, repeated: SettledAnswer{}, ok: []int{created, ok},
			fails: append([]int{forbidden, conflict, http.StatusGone}, writes...), serve: a.schedule}},
		{auth.Operate, call{method: "POST", path: "/v1/notices/restore", id: "restore", summary: "Restore up to 1,000 notices",
			about: "A JSON array, or NDJSON, of pending or dead notices from GET /v1/notices, or dead ones from GET /v1/history or " +
				"the pages' download. Each notice keeps its attempts and its webhook-id. Pending and claimed notices are " +
				"scheduled for their due time, with the remaining attempts. Dead letters are dead letters again, with reason and " +
				"time of death: nothing is sent before a redrive, and the history gets no second entry. The answer has the form " +
				"of /v1/notices/batch. 201: restored. 200: the key already has this dead letter, this pending notice in any later " +
				"state, or a notice with the same content. 409: the key has another notice. A dead letter that " +
				"was cancelled since, as by a purge, is a dead letter again. 422: the notice is delivered, or its " +
				"body, a header or the url's password was " +
				"not stored.",
			body: RestoreRequest{}, example: exampleRestore, ndjson: true, answer: []BatchResult{}, ok: []int{created, ok, mixed}, fails: writes,
			serve: a.restore}},
		{auth.Read, call{method: "GET", path: "/v1/notices", id: "list", summary: "List notices",
			about: "A page may have fewer notices than the limit, even none, although more follow: continue until there is no " +
				"cursor. Notices under a prefix without a configured route are listed too, with the prefix as their route. " + aboutMissing,
			query: listParams, answer: Page{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: a.list}},
		{auth.Read, call{method: "GET", path: "/v1/notices/{key}", id: "get", summary: "Read a notice",
			about:  "A notice that Redis no longer stores is read from the history, if there is one: its last entry.",
			answer: codec.Notice{}, ok: []int{ok},
			fails: []int{badRequest, notFound, unprocessable, down}, serve: a.get}},
		{auth.Produce, call{method: "PATCH", path: "/v1/notices/{key}", id: "reschedule", summary: "Change a notice's due time, url or headers",
			about: "url and headers need the role operate, and a route with the target notice. They apply to scheduled notices and, without delay " +
				"and due, to dead letters. The notice keeps its webhook-id and its attempts. scheduled_url shows the url of the schedule call, with " +
				"which a repeated schedule call is still compared. To another host, the notice's Authorization, Cookie and Proxy-* headers are " +
				"dropped, unless headers or keep_headers is given. 409 while an attempt is running: repeat the call.",
			body: RescheduleRequest{}, example: exampleReschedule, answer: RescheduleAnswer{}, ok: []int{ok},
			fails: append([]int{http.StatusGone}, changes...), serve: a.reschedule}},
		{auth.Produce, call{method: "DELETE", path: "/v1/notices/{key}", id: "cancel", summary: "Cancel a notice",
			about: "in_flight is true if an attempt was running: it may still reach the receiver, and no further attempt follows. " +
				"Dead letters may be cancelled too. A repeated cancel is answered with 200 and changed=false; 409 for a delivered " +
				"notice.",
			answer: ChangeAnswer{}, ok: []int{ok}, fails: plain, serve: a.cancel}},
		{auth.Produce, call{method: "POST", path: "/v1/notices/{key}/fire", id: "fire", summary: "Make a notice due now",
			answer: ChangeAnswer{}, ok: []int{ok}, fails: plain, serve: a.fire}},
		{auth.Operate, call{method: "POST", path: "/v1/notices/{key}/redrive", id: "redrive", summary: "Redrive a dead letter",
			about: "Schedules the notice for now, with its ladder from the start. 409 for every state but dead. Use resend for a " +
				"delivered notice, and a replay for all notices of a window.",
			query: []parameter{paramExpires}, answer: ChangeAnswer{}, ok: []int{ok}, fails: plain, serve: a.redrive}},
		{auth.Operate, call{method: "POST", path: "/v1/notices/{key}/resend", id: "resend", summary: "Resend a delivered or dead notice",
			about: "Sends the notice once more, with the same webhook-id, its attempts counted on and its ladder from the start. " +
				"Callbacks carry the header notifier-resend. id and ending are those of an answer that showed the notice. A " +
				"repeated call is answered with 200 and changed=false. A notice that Redis no longer stores is sent from the " +
				"history. 409 if the key has another notice, the notice was finalized again since, it is neither delivered nor " +
				"dead, or the history did not store all of it. Use redrive for all dead letters of a route, and a replay for all " +
				"notices of a window.",
			body: ResendRequest{}, example: exampleResend, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.resend}},
		{auth.Operate, call{method: "POST", path: "/v1/notices/{key}/test", id: "sendTest", summary: "Send a test to a notice's receiver",
			about: "Makes one signed callback with a test body to the address of the notice, at once and without the route's limits, and " +
				"answers with the result. It takes at most the route's timeout and 50 seconds. The notice does not change. A receiver " +
				"that does not answer is a 200 with the reason. Clients with a prefix get no response text. 404 if Redis has no notice " +
				"under the key. 409 if its route does not deliver over HTTP. 429 if the client sends more than three tests of a route at " +
				"once or six a minute, or more than the route's RATE.",
			answer: TestAnswer{}, ok: []int{ok}, fails: plain, serve: a.sendTest}},
		{auth.Produce, call{method: "POST", path: "/v1/notices/{key}/ack", id: "ack", summary: "Report that a consumer has processed a notice",
			about: aboutReports,
			body:  AckRequest{}, example: exampleAck, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.ack}},
		{auth.Produce, call{method: "POST", path: "/v1/notices/{key}/nack", id: "nack",
			summary: "Report that a consumer has failed",
			about:   "The notice continues with its ladder, or dies at once if permanent is true. " + aboutReports,
			body:    NackRequest{}, example: exampleNack, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.nack}},
		{auth.Produce, call{method: "POST", path: "/v1/notices/{key}/defer", id: "defer", summary: "Postpone a notice from a list or stream",
			about: "The notice is pushed again later and uses no attempt. " + aboutReports,
			body:  DeferRequest{}, example: exampleDefer, answer: ChangeAnswer{}, ok: []int{ok}, fails: changes, serve: a.putOff}},
		{auth.Read, call{method: "GET", path: "/v1/recurrences", id: "recurrences", summary: "List the recurring notices",
			about: "By key, with their next ticks, and without their bodies.",
			query: recurrenceParams, answer: Recurrences{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down},
			serve: a.recurrences}},
		{auth.Read, call{method: "GET", path: "/v1/recurrences/{key}", id: "showRecurrence", summary: "Read a recurring notice",
			answer: Recurrence{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: a.showRecurrence}},
		{auth.Produce, call{method: "PUT", path: "/v1/recurrences/{key}", id: "putRecurrence", summary: "Create or replace a recurring notice",
			about: "The name, which is the last segment of the key, has at most 118 characters and does not end in ~ and digits: the keys of " +
				"its notices are the key with ~ and a number. They are normal notices, stored seconds before their tick. The answer has the " +
				"next five ticks; with dry_run=true they are shown and nothing is stored. 201 if there was none. 200 if it replaces one, or is " +
				"the same: a notice that has not begun is then replaced too, and the numbers go on. A call may be repeated.",
			query: recurrencePutParams, body: RecurrenceRequest{}, example: exampleRecurrence, answer: RecurrenceAnswer{},
			ok: []int{created, ok}, fails: append([]int{forbidden, notFound, conflict}, writes...), serve: a.putRecurrence}},
		{auth.Produce, call{method: "DELETE", path: "/v1/recurrences/{key}", id: "deleteRecurrence", summary: "Delete a recurring notice",
			about: "A notice that has not begun is withdrawn; others stay. The number is kept, so that a new recurrence of this key goes on " +
				"with it. 404 if there is none, also for a repeated call.",
			answer: RecurrenceDeleted{}, ok: []int{ok}, fails: plain, serve: a.deleteRecurrence}},
		{auth.Produce, call{method: "POST", path: "/v1/recurrences/{key}/pause", id: "pauseRecurrence", summary: "Pause a recurring notice",
			about:  "A notice that has not begun is withdrawn. A repeated call changes nothing.",
			answer: Recurrence{}, ok: []int{ok}, fails: plain, serve: a.pauseRecurrence}},
		{auth.Produce, call{method: "POST", path: "/v1/recurrences/{key}/resume", id: "resumeRecurrence", summary: "Resume a recurring notice",
			about:  "missed decides on the ticks of the pause. A repeated call changes nothing.",
			answer: Recurrence{}, ok: []int{ok}, fails: plain, serve: a.resumeRecurrence}},
		{auth.Produce, call{method: "POST", path: "/v1/recurrences/{key}/run", id: "runRecurrence", summary: "Run a recurring notice now",
			about: "Stores a notice that is due now, also while the recurrence is paused. Its ticks do not change. Each call stores one. The " +
				"answer is the notice.",
			answer: codec.Notice{}, ok: []int{created}, fails: plain, serve: a.runRecurrence}},
		{auth.Read, call{method: "GET", path: "/v1/routes", id: "listRoutes", summary: "List the routes",
			about:  "Also the prefixes that are recorded for workers, if they lie wholly within the caller's prefix.",
			answer: Routes{}, ok: []int{ok}, fails: []int{badRequest, unprocessable, down}, serve: a.listRoutes}},
		{auth.Operate, call{method: "POST", path: "/v1/routes/{name}/redrive", id: "redriveRoute",
			summary: "Redrive the dead letters of a route",
			about: "Works for about five seconds and returns a cursor if more dead letters are left. Calls with that cursor continue " +
				"the same change: it takes each dead letter that was there at its first call once, and none that dies later. With " +
				"dry_run=true it only counts. The name may be a prefix without a configured route: its dead letters then wait " +
				"until a route covers them. " + aboutMissing,
			query: redriveParams, answer: Redriven{}, ok: []int{ok}, fails: []int{badRequest, notFound, tooLarge, unprocessable, down},
			serve: a.redriveAll}},
		{auth.Operate, call{method: "POST", path: "/v1/routes/{name}/purge", id: "purgeRoute", summary: "Cancel the dead letters of a route",
			about: "Like redriveRoute, but the dead letters are cancelled. They stay readable for the retention. " + aboutMissing,
			query: purgeParams, answer: Purged{}, ok: []int{ok}, fails: []int{badRequest, notFound, tooLarge, unprocessable, down},
			serve: a.purgeAll}},
		{auth.Operate, call{method: "POST", path: "/v1/routes/{name}/pause", id: "pause", summary: "Pause a route",
			about:  "Notices are kept and not sent until the route is resumed. Running attempts complete.",
			answer: Route{}, ok: []int{ok}, fails: []int{badRequest, forbidden, notFound, tooLarge, unprocessable, down}, serve: a.pause}},
		{auth.Operate, call{method: "POST", path: "/v1/routes/{name}/resume", id: "resume", summary: "Resume a route",
			about:  "The route's rate and concurrency limit how fast overdue notices are sent.",
			answer: Route{}, ok: []int{ok}, fails: []int{badRequest, forbidden, notFound, tooLarge, unprocessable, down}, serve: a.resume}},
		{auth.Operate, call{method: "POST", path: "/v1/routes/{name}/release", id: "release", summary: "Release a prefix from workers",
			about: "The name is a prefix that GET /v1/routes lists as recorded. Its notices then belong to the route that matches their " +
				"keys, also those that are pending. 409 while a running worker handles the prefix. 404 if it is not recorded, also for a " +
				"repeated call. A worker that starts later records the prefix again.",
			answer: Released{}, ok: []int{ok}, fails: []int{badRequest, forbidden, notFound, conflict, tooLarge, unprocessable, down},
			serve: a.release}},
		{auth.Read, call{method: "GET", path: "/v1/receivers", id: "listReceivers", summary: "List the receivers",
			about: "Receivers with failures within 48 hours, paused and limited ones, and those called now, those that fail longest first. " +
				"A client with a prefix sees its own pauses and limits, and the figures of routes that lie wholly inside its prefix.",
			query: receiverParams, answer: ReceiverList{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down},
			serve: a.receivers}},
		{auth.Operate, call{method: "POST", path: "/v1/receivers/pause", id: "pauseReceiver", summary: "Pause a receiver",
			about: "Within a second no instance starts a call to it. Its notices are held when they are due, without an attempt, and keep " +
				"their due time. Running attempts complete. A repeated call replaces until and over. 409 if the client has made its share " +
				"of the 10,000 paused receivers and limits, which are divided equally among the clients.",
			body: PauseReceiverRequest{}, example: examplePauseReceiver, answer: ReceiverAnswer{}, ok: []int{ok},
			fails: append([]int{forbidden, conflict}, bodied...), serve: a.pauseReceiver}},
		{auth.Operate, call{method: "POST", path: "/v1/receivers/resume", id: "resumeReceiver", summary: "Resume a receiver",
			about: "Names the receiver as it was paused, with the same prefix. A repeated call is answered with changed=false.",
			body:  ResumeReceiverRequest{}, example: exampleResumeReceiver, answer: ReceiverAnswer{}, ok: []int{ok},
			fails: append([]int{forbidden}, bodied...), serve: a.resumeReceiver}},
		{auth.Operate, call{method: "PUT", path: "/v1/receivers/limits", id: "limitReceiver", summary: "Limit the calls to a receiver",
			about: "The lower of these limits and the route's hold, on each route. Without rate and concurrency, the limits are removed. 409 " +
				"if the client has made its share of the 10,000 paused receivers and limits.",
			body: LimitReceiverRequest{}, example: exampleLimitReceiver, answer: ReceiverAnswer{}, ok: []int{ok},
			fails: append([]int{forbidden, conflict}, bodied...), serve: a.limitReceiver}},
		{auth.Admin, call{method: "GET", path: "/v1/routes/{name}/secret", id: "receiverSecret", summary: "Read the keys of one receiver",
			about: "On a route that signs for each host or audience, each receiver verifies with a separate key, derived from the " +
				"route's secrets. The answer must not be stored (no-store). Only for the role admin without a " +
				"prefix: the holder of a key can forge callbacks to that receiver. 409 under SIGN_PER=route: that secret is in the configuration.",
			query: secretParams, answer: ReceiverSecret{}, ok: []int{ok},
			fails: []int{badRequest, forbidden, notFound, conflict, unprocessable}, serve: a.secret}},
		{auth.Read, call{method: "GET", path: "/v1/stats", id: "stats", summary: "Read the numbers of each route", about: aboutMissing,
			answer: Stats{}, ok: []int{ok},
			fails: []int{badRequest, unprocessable, down}, serve: a.stats}},
		{auth.Read, call{method: "GET", path: "/v1/dead", id: "dead", summary: "Count the dead letters by cause",
			about: "The dead letters of each route by reason and HTTP status, the largest group first. All are counted, without reading " +
				"one. The count may be some seconds old: counted says when it was made. A route is counted if it lies wholly within " +
				"the caller's prefix. " + aboutMissing,
			query: deadParams, answer: Dead{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: a.dead}},
		{auth.Read, call{method: "GET", path: "/v1/problems", id: "problems", summary: "List the problems",
			about: "What is late, failing or refused at present, worst first, in the words of the page Now: dead letters of the last hour by " +
				"cause, failing receivers (many of one route with the same answer are one problem), paused routes and receivers, and " +
				"without a prefix those of the service. The figures are those of the dashboard, at most 30 s old. unread=true: some were not " +
				"read yet, so an empty list does not mean that all is well.",
			query: problemParams, answer: Problems{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable}, serve: a.problems}},
		{auth.Read, call{method: "GET", path: "/v1/instances", id: "instances", summary: "List the instances",
			about: "The instances of this Redis and namespace, latest heartbeat first. routes_differ names the routes whose " +
				"configuration differs from that of the answering instance. Only for clients without a prefix. Instances that " +
				"have left or are dead are not listed.",
			answer: Instances{}, ok: []int{ok}, fails: []int{badRequest, forbidden, unprocessable, down}, serve: a.instances}},
		{auth.Read, call{method: "GET", path: "/v1/audit", id: "audit", summary: "List the changes of operators",
			about: "Calls by which operators changed something, by the API or the pages, newest first; not schedules and reports of " +
				"consumers. Also calls and pages that showed the content of sealed notices, once a minute for each notice or listing. " +
				"Admins without a prefix see all entries, other clients their own. For each client, the last 2,000 " +
				"entries of rare actions (sign-in, secret, purge, erase, forget, pause, resume, release, replay, restore, links) and the last " +
				"2,000 of all other actions are stored. The same call within a minute is one entry. A page may have fewer entries " +
				"than the limit, even none, although more follow: continue until there is no cursor.",
			query: auditParams, answer: Audit{}, ok: []int{ok}, fails: []int{badRequest, unprocessable, down}, serve: a.audit}},
		{auth.Read, call{method: "GET", path: "/v1/search", id: "search", summary: "Search Redis and the history",
			about: "Notices and history entries that match one line of words. A notice that both have is in the section of Redis only. " +
				"total is exact if an index gives it within a second and it is at most 100,000. 422 for words that cannot be read, for " +
				"text without a time, and for text without a history.",
			query: searchParams, answer: SearchAnswer{}, ok: []int{ok}, fails: []int{badRequest, unprocessable, down}, serve: a.search}},
		{auth.Read, call{method: "GET", path: "/v1/search.csv", id: "searchFile", summary: "Download a search as CSV",
			about: "At most 100,000 rows, streamed; the last row says if there are more. Bodies, addresses and answers are masked as on the " +
				"pages. A cell that a spreadsheet would take for a formula begins with an apostrophe. If the search fails after the " +
				"first rows, the connection is aborted.",
			query: searchBox, ok: []int{ok}, fails: []int{badRequest, unprocessable, down}, serve: a.searchFile}},
		{auth.Read, call{method: "GET", path: "/v1/history", id: "history", summary: "Search the history",
			about: "Delivered, dead, cancelled and replaced notices from the database of NOTIFIER_HISTORY_URL; 404 if there is none. " +
				"An entry appears within seconds after the notice was finalized. 422 if the search takes more than ten seconds. " +
				"429 if the client already runs two searches for text, or all clients together four.",
			query: historyParams, answer: Endings{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: a.history}},
		{auth.Read, call{method: "GET", path: "/v1/reports/{month}", id: "monthReport", summary: "Report a month",
			about: "The month is 2026-11, or this for the present one. Notices that were finalized in it, deliveries at the first " +
				"attempt and within a minute, an hour and a day, and the median and the 99th percentile of the latency, for each " +
				"receiver, route or type. Counted from the history, without the entries that the retention has deleted or that " +
				"were erased. 404 without a history; 422 if it takes more than 30 seconds; 429 as for a search for text.",
			query: reportParams, answer: ReportAnswer{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down},
			serve: a.monthReport}},
		{auth.Read, call{method: "GET", path: "/v1/reports/{month}/csv", id: "reportFile", summary: "Download the report of a month as CSV",
			about: "A line for each of at most 100,000 receivers, routes or types, then the total. Lines after the total say whether the " +
				"numbers are complete.",
			query: reportBox, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: a.reportFile}},
		{auth.Admin, call{method: "DELETE", path: "/v1/history", id: "erase", summary: "Erase the finalized notices of a key or a host",
			about: "Erases entries in the database and in the outbox, and settled notices and dead letters in Redis. Pending notices " +
				"stay, and notices finalized later are stored again. May be repeated after an error. Only clients without a " +
				"prefix may erase a host. The audit shows a digest in place of the key or host.",
			query: eraseParams, answer: Erased{}, ok: []int{ok}, fails: []int{badRequest, forbidden, notFound, tooLarge, unprocessable, down},
			serve: a.erase}},
		{auth.Admin, call{method: "DELETE", path: "/v1/subjects/{subject}", id: "forgetSubject", summary: "Forget an audience or id",
			about: "On routes with SEAL for each audience or id. Deletes the keys that seal its notices, so that nobody can read their " +
				"bodies, headers, credentials and answers any more, starts a job that cancels its pending notices, and takes no new ones: " +
				"they get 410. The answer comes after 4 seconds, when no instance may use the keys any more, and missing names " +
				"instances that may. Attempts in flight end normally. May be repeated after an error. Only clients without a prefix may " +
				"forget an audience.",
			answer: ForgottenSubject{}, ok: []int{ok}, fails: []int{badRequest, forbidden, conflict, tooLarge, unprocessable, down},
			serve: a.forgetSubject}},
		{auth.Admin, call{method: "POST", path: "/v1/subjects/{subject}/lift", id: "liftSubject", summary: "Lift a forgotten audience or id",
			about:  "New notices are taken again and sealed with new keys. The content of the old ones stays gone. May be repeated.",
			answer: LiftedSubject{}, ok: []int{ok}, fails: []int{badRequest, forbidden, tooLarge, unprocessable, down},
			serve: a.liftSubject}},
		{auth.Produce, call{method: "POST", path: "/v1/open", id: "open", summary: "Open the sealed text of a list's or stream's entry",
			about: "On routes with SEAL, the entries of a list or stream have a sealed text in place of the body. The key must be that of the " +
				"entry. The role produce opens only texts of keys whose route has a list or stream as its target; operate and admin open all, and " +
				"their calls are in the audit. 410: the text's audience or id was forgotten. 422: it was changed, or is of another notice. 503: " +
				"this instance lacks the service key.",
			body: OpenRequest{}, example: exampleOpen, answer: OpenAnswer{}, ok: []int{ok},
			fails: append([]int{forbidden, http.StatusGone}, bodied...), serve: a.open}},
		{auth.Operate, call{method: "POST", path: "/v1/replays", id: "replay", summary: "Start a replay",
			about: "Schedules each delivered or dead notice of a window again under its own key, at a rate, exactly once in a " +
				"replay. It keeps its webhook-id, by which receivers recognise it, and has the header notifier-replay. Its " +
				"present route decides where it is sent. A key with a pending notice is skipped and counted. 422 if no notice " +
				"matches, or none can be sent because bodies were hashed or dropped. With dry_run nothing is sent, and the answer " +
				"is 200. With an id the call may be repeated: 200 and the existing replay, or 409 if the other parameters differ. " +
				"A client with a prefix replays its own keys only.",
			body: ReplayRequest{}, example: exampleReplay, answer: Replay{}, ok: []int{created, ok},
			fails: []int{badRequest, forbidden, notFound, conflict, tooLarge, mediaType, unprocessable, down}, serve: a.makeReplay}},
		{auth.Read, call{method: "GET", path: "/v1/replays", id: "replays", summary: "List the replays",
			about: "With their progress. Replays without a change for 30 days are not listed.", answer: Replays{}, ok: []int{ok},
			fails: []int{badRequest, notFound, unprocessable, down}, serve: a.replays}},
		{auth.Read, call{method: "GET", path: "/v1/replays/{id}", id: "showReplay", summary: "Read a replay with its progress",
			answer: Replay{}, ok: []int{ok},
			fails: []int{badRequest, notFound, conflict, unprocessable, down}, serve: a.showReplay}},
		{auth.Operate, call{method: "DELETE", path: "/v1/replays/{id}", id: "stopReplay", summary: "Stop a replay",
			about: "A stopped replay can be resumed. Notices that are already scheduled, up to a second of the rate, are still sent. " +
				"409 if it is over.",
			answer: Replay{}, ok: []int{ok}, fails: plain, serve: a.stopReplay}},
		{auth.Operate, call{method: "POST", path: "/v1/replays/{id}/resume", id: "resumeReplay", summary: "Resume a stopped replay",
			about: "Continues where it was stopped. 409 if it is over.", answer: Replay{}, ok: []int{ok}, fails: plain, serve: a.resumeReplay}},
		{auth.Operate, call{method: "POST", path: "/v1/redirects", id: "redirect", summary: "Start a redirect",
			about: "Changes the address of all pending notices of a receiver that has moved, also of those that wait for a retry. Only notices " +
				"that were scheduled before are changed. Each is checked as in a schedule call, and keeps its webhook-id and its attempts. Notices " +
				"in flight are changed before their next attempt. Redirects are made one after the other. 422 if to is the same as from, or no route " +
				"takes it. 409 if the client has its share of 100 redirects that are not over, which are divided equally among the clients. With " +
				"dry_run nothing is changed, and the answer is 200. A client with a prefix redirects its own keys only.",
			body: RedirectRequest{}, example: exampleRedirect, answer: Redirect{}, ok: []int{created, ok},
			fails: []int{badRequest, forbidden, conflict, tooLarge, mediaType, unprocessable, down}, serve: a.makeRedirect}},
		{auth.Read, call{method: "GET", path: "/v1/redirects", id: "redirects", summary: "List the redirects",
			about: "With their progress. For 30 days after they end; each client has its share of the last 100.", answer: Redirects{}, ok: []int{ok},
			fails: []int{badRequest, unprocessable, down}, serve: redirects.list}},
		{auth.Read, call{method: "GET", path: "/v1/redirects/{id}", id: "showRedirect", summary: "Read a redirect with its progress",
			answer: Redirect{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: redirects.show}},
		{auth.Operate, call{method: "DELETE", path: "/v1/redirects/{id}", id: "stopRedirect", summary: "Stop a redirect",
			about:  "A stopped redirect can be resumed. Changed notices keep the new address. 409 if it is over.",
			answer: Redirect{}, ok: []int{ok}, fails: plain, serve: redirects.stop}},
		{auth.Operate, call{method: "POST", path: "/v1/redirects/{id}/resume", id: "resumeRedirect", summary: "Resume a stopped redirect",
			about: "Continues where it was stopped. 409 if it is over.", answer: Redirect{}, ok: []int{ok}, fails: plain, serve: redirects.resume}},
		{auth.Operate, call{method: "POST", path: "/v1/jobs", id: "makeJob", summary: "Start a bulk change",
			about: "Cancels all pending notices that match, or redrives or purges dead letters, at a rate of changes a second. Only notices " +
				"that were scheduled, or dead letters that died, before are changed. A notice with an attempt in flight is not cancelled, and " +
				"counted in claimed. 409 if the client has its share of 100 jobs that are not over, which are divided equally among the " +
				"clients. With dry_run nothing is changed, and the answer is 200. A client with a prefix changes its own keys only.",
			body: JobRequest{}, example: exampleJob, answer: Job{}, ok: []int{created, ok},
			fails: []int{badRequest, forbidden, conflict, tooLarge, mediaType, unprocessable, down}, serve: a.makeJob}},
		{auth.Read, call{method: "GET", path: "/v1/jobs", id: "jobs", summary: "List the bulk changes",
			about: "With their progress. For 30 days after they end; each client has its share of the last 100.", answer: Jobs{}, ok: []int{ok},
			fails: []int{badRequest, unprocessable, down}, serve: others.list}},
		{auth.Read, call{method: "GET", path: "/v1/jobs/{id}", id: "showJob", summary: "Read a bulk change with its progress",
			answer: Job{}, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: others.show}},
		{auth.Operate, call{method: "DELETE", path: "/v1/jobs/{id}", id: "stopJob", summary: "Stop a bulk change",
			about:  "A stopped job can be resumed. Notices that it has changed stay changed. 409 if it is over.",
			answer: Job{}, ok: []int{ok}, fails: plain, serve: others.stop}},
		{auth.Operate, call{method: "POST", path: "/v1/jobs/{id}/resume", id: "resumeJob", summary: "Resume a stopped bulk change",
			about: "Continues where it was stopped. 409 if it is over.", answer: Job{}, ok: []int{ok}, fails: plain, serve: others.resume}},
		{auth.Operate, call{method: "POST", path: "/v1/portal-links", id: "portalLink", summary: "Create a link to the pages for one merchant",
			about: "Its visitors see, and cannot change, the notices under the prefix, or only those for the host or audience. With " +
				"resend, visitors may resend notices of the host. The link can be opened any number of times until it expires. It " +
				"never shows more than the client that creates it may see, and ends with that client's token. 409 if the client has its " +
				"share of 100,000 links that have neither expired nor been revoked, which are divided equally among the clients.",
			body: PortalLinkRequest{}, example: examplePortalLink, answer: PortalLink{}, ok: []int{created},
			fails: append([]int{forbidden, conflict}, writes...), serve: a.portalLink}},
		{auth.Operate, call{method: "DELETE", path: "/v1/portal-links/{id}", id: "revokePortalLink", summary: "Revoke a link",
			about:  "Also for visitors who have opened it. 404 if it has expired already, or shows more than the client may see.",
			answer: PortalRevoked{}, ok: []int{ok}, fails: []int{badRequest, notFound, tooLarge, unprocessable, down}, serve: a.revokeLink}},
		{auth.Operate, call{method: "GET", path: "/v1/tap", id: "tap", summary: "Stream copies of attempts",
			about: "Server-sent events until either side ends the stream: open (prefix, key, masked), ready (instances of all have begun to copy, " +
				"within 2 seconds), copy, dropped (copies that were left out), interrupted (copies may be missing), end (reason). A copy is " +
				"sent after its attempt, and never changes it. It has the request's method, url, headers and body without the route's headers, " +
				"the values of secret headers and the url's password, and outcome, reason and status of the attempt. It is signed by the scheme " +
				"standard with the stream's own key, if the route signs so; not_signed says why not. Bodies are cut at 64 KiB. Where the pages " +
				"mask bodies, copies are masked and not signed. All instances together send at most 200 copies and 1 MiB in any second, divided " +
				"equally among the clients with streams. 429 if the client has 4 streams, or its share of 32 if that is less.",
			query: tapParams, ok: []int{ok}, fails: []int{badRequest, notFound, unprocessable, down}, serve: a.tap}},
		{auth.Public, call{method: "GET", path: "/healthz", id: "healthz", summary: "Check that the process runs", answer: Alive{},
			ok: []int{ok}, serve: a.alive}},
		{auth.Public, call{method: "GET", path: "/readyz", id: "readyz", summary: "Check that the process is ready",
			about:  "Ready means that Redis is reachable and expired events are subscribed to, or that it works without them (degraded).",
			answer: Health{}, ok: []int{ok, down}, serve: a.ready}},
		{auth.Read, call{method: "GET", path: "/metrics", id: "metrics", summary: "Metrics for Prometheus",
			about: "Only for clients without a prefix.", ok: []int{ok},
			fails: []int{forbidden, notFound}, serve: a.serveMetrics}},
		{auth.Public, call{method: "GET", path: KeySetPath, id: "keySet", summary: "Read the public keys of callbacks",
			about: "A JSON Web Key Set (RFC 7517) with the asymmetric keys of all routes, those for later signatures included; no " +
				"token is needed. The answer may be cached for 5 minutes. 429 if one address makes more than 5 calls a second.",
			ok: []int{ok}, fails: []int{tooMany}, serve: a.keySet}},
		{auth.Public, call{method: "GET", path: "/openapi.json", id: "openapi", summary: "This document", ok: []int{ok},
			serve: a.serveDocument}},
		{auth.Public, call{method: "GET", path: docsPath, id: "docs", hidden: true, serve: a.serveDocs}},
		{auth.Public, call{method: "GET", path: docsStylePath, id: "docsStyle", hidden: true, serve: a.serveDocsStyle}},
	}
	for i := range ops {
		ops[i].segments = strings.Split(ops[i].path[1:], "/")
	}

	return ops
}

// raw reports whether the operation's answer has a fixed content type, so that Accept is not negotiated.
func (o *operation) raw() bool { return o.answer == nil }

// everywhere lists the statuses of problems that do not depend on the operation.
func (o *operation) everywhere() []int {
	var s []int
	if o.role != auth.Public {
		s = append(s, http.StatusUnauthorized, http.StatusTooManyRequests)
	}

	if o.role > auth.Read { // which every client has
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
