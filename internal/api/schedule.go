package api

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// Explain returns the problem that answers a known error of the engine; nil for other errors.
func Explain(err error) *Problem {
	var clock wire.ClockError
	switch {
	case errors.As(err, &clock):
		return problem(http.StatusServiceUnavailable, "Redis's clock says %s, and nothing was written. An operator must correct the clock of "+
			"the machine that Redis runs on; repeat the call afterwards", clock.Says.Format(time.RFC3339)).with("Retry-After", "30")
	case errors.Is(err, wire.ErrKeyUnreadable):
		return problem(http.StatusServiceUnavailable, "the service's own key cannot be read at the moment; repeat the call").with("Retry-After",
			"1")
	case !vault.ForgottenAt(err).IsZero():
		return problem(http.StatusGone, "the audience or id that seals the notice was forgotten on %s: its content is gone, and no notice is "+
			"taken for it until an admin lifts that (notifier forget --lift). Nothing was written", notice.Stamp(vault.ForgottenAt(err)))
	case errors.Is(err, vault.ErrSealed):
		return problem(http.StatusServiceUnavailable, "this instance does not have a service key (NOTIFIER_SEAL_KEYS) that the notice needs; "+
			"nothing was written. Repeat the call").with("Retry-After", "5")
	case errors.Is(err, store.ErrNotFound):
		return problem(http.StatusNotFound, "there is no notice with this key")
	case errors.Is(err, wire.ErrUnconfirmed):
		return problem(http.StatusServiceUnavailable, "the notice is stored, but not confirmed as NOTIFIER_DURABILITY requires; "+
			"repeat the call: nothing is stored twice").as(unconfirmed).with("Retry-After", "1")
	case errors.Is(err, wire.ErrNotSynced):
		return problem(http.StatusServiceUnavailable,
			"Redis answers before its writes are on disk, but NOTIFIER_DURABILITY requires them there; "+
				"nothing was written. Repeat the call").as(unconfirmed).with("Retry-After", "5")
	case errors.Is(err, wire.ErrFull):
		return problem(http.StatusInsufficientStorage, "Redis has reached its maxmemory and takes no new notice; nothing was written").
			with("Retry-After", "30")
	case errors.Is(err, store.ErrLayout):
		return problem(http.StatusServiceUnavailable, "the data in Redis were written with other settings; "+
			"nothing is read or written. /readyz and the log say what differs").with("Retry-After", "5")
	case errors.Is(err, wire.ErrNotBegun):
		return problem(http.StatusServiceUnavailable, "Redis has not answered since this instance started, so the layout of its data is "+
			"unknown; nothing was written. Repeat the call").with("Retry-After", "1")
	case errors.Is(err, wire.ErrMoved):
		return problem(http.StatusServiceUnavailable,
			"notices are being moved to another Redis, and this service does not accept the call at present; "+
				"nothing was changed. Repeat the call, at the other service if an operator has announced it").as(moved).with("Retry-After", "2")
	case errors.Is(err, wire.ErrUnavailable):
		return problem(http.StatusServiceUnavailable, "Redis is unavailable at the moment; repeat the call. "+
			"A repeated schedule call creates no second notice").with("Retry-After", "1")
	case errors.Is(err, wire.ErrLogin), errors.Is(err, wire.ErrRights):
		what := "refuses the service's user or password"
		if errors.Is(err, wire.ErrRights) {
			what = "refuses a right that the service's user needs"
		}

		return problem(http.StatusServiceUnavailable, "Redis %s. The service's log and notifier doctor name the remedy for an "+
			"operator; repeat the call afterwards", what).with("Retry-After", "30")
	case errors.Is(err, fleet.ErrForeign):
		return problem(http.StatusServiceUnavailable,
			"the list of instances cannot be read: another program may use its keys in Redis; "+
				"notifier doctor names them").with("Retry-After", "30")
	case errors.Is(err, store.ErrHandled):
		return problem(http.StatusConflict, "%v", err)
	case errors.Is(err, store.ErrUnrouted):
		return problem(http.StatusUnprocessableEntity, "no route covers the key")
	case errors.Is(err, store.ErrCursor), errors.Is(err, audit.ErrCursor):
		return badCursor()
	case errors.Is(err, notice.ErrInvalid):
		return problem(http.StatusUnprocessableEntity, "%s", strings.TrimPrefix(err.Error(), "invalid: "))
	}

	return nil
}

// conflict is the answer to a duplicate with another content, nil if there is none.
func conflict(r store.Reply) *Problem {
	if len(r.Differs) == 0 {
		return nil
	}

	p := problem(http.StatusConflict, "another notice has this key; it differs in %s. "+
		"Use another key, or on_duplicate keep or replace", strings.Join(r.Differs, ", "))
	p.Differs = r.Differs
	if slices.Equal(r.Differs, []string{"due"}) {
		p.Detail = "the key has this notice, but it was scheduled for " + notice.Stamp(time.UnixMilli(r.DueAtCreation())) +
			". To change its due time use PATCH; on_duplicate keep leaves it as it is, replace makes a new notice"
	}

	if r.State == notice.Settled { // a digest cannot show which fields differ
		p = problem(http.StatusConflict,
			"a different notice with this key was settled recently. Use another key, or on_duplicate keep or replace")
	}

	if r.Notice != nil {
		p.State = string(r.State)
	}

	return p
}

func scheduled(r store.Reply) int {
	if r.Created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// schedule serves POST /v1/notices.
func (a *api) schedule(w http.ResponseWriter, r *http.Request, at site) error {
	data, err := readBody(w, r, a.itemLimit())
	if err != nil {
		return err
	}

	var it item
	err = a.parseNotice(&it, data, "body.", at.caller, traceOf(r))
	at.call.key = it.req.Key
	if err != nil {
		return err
	}

	it.req.Client = a.clientNumber(r.Context(), at.caller)
	reply, err := a.scheduler.Schedule(r.Context(), it.req)
	if err == nil {
		err = reply.Err
	}

	if err != nil {
		return err
	}

	at.call.traced(reply.Notice)
	if p := conflict(reply); p != nil {
		return p
	}

	at.sealed = true // the caller has the content
	status := scheduled(reply)
	if status == http.StatusCreated {
		w.Header().Set("Location", "/v1/notices/"+it.req.Key)
	}

	if reply.State == notice.Settled {
		return answerObject(w, status, &SettledAnswer{settledOf(reply.Notice), reply.Created, reply.Replaced, ReadAs{it.readAs}})
	}

	return answerObject(w, status, &ScheduleAnswer{a.wholeFor(r.Context(), at, &reply.Found), reply.Created, reply.Replaced,
		ReadAs{it.readAs}})
}

// item is one line of a batch on its way.
type item struct {
	req     store.Request
	letter  store.Letter // of a notice that is put back, beside the key and content in req
	problem *Problem
	sent    int    // its place among the requests given to the engine, -1 = none
	json    bool   // its body is JSON that may stand in another JSON text
	readAs  string // the duration of a delay without a unit
}

// batch serves POST /v1/notices/batch. Nothing is scheduled before all of the
// envelope has been read, so that a request which is refused changes nothing.
func (a *api) batch(w http.ResponseWriter, r *http.Request, at site) error {
	items, lines, err := a.readBatch(w, r, at.caller, a.parseNotice)
	if err != nil {
		return err
	}

	at.call.batch(items)
	reqs := make([]store.Request, 0, len(items))
	for i := range items {
		if items[i].sent = -1; items[i].problem == nil {
			items[i].sent = len(reqs)
			reqs = append(reqs, items[i].req)
		}
	}

	var replies []store.Reply
	if len(reqs) > 0 {
		number := a.clientNumber(r.Context(), at.caller)
		for i := range reqs {
			reqs[i].Client = number
		}

		replies = a.scheduler.ScheduleMany(r.Context(), reqs)
	}

	return a.answerBatch(w, r, at.caller, batched{items, replies, lines})
}

// batched is a batch and the replies to those of its items that were sent. lines: it was NDJSON.
type batched struct {
	items   []*item
	replies []store.Reply
	lines   bool
}

func (a *api) answerBatch(w http.ResponseWriter, r *http.Request, c caller, b batched) error {
	items, replies, lines := b.items, b.replies, b.lines
	tally := map[int]int{}
	out := make([]byte, 0, 512*len(items))
	var last *Problem
	for i := range items {
		it := items[i]
		if i > 0 && !lines {
			out = append(out, ',', '\n')
		}

		var reply store.Reply
		if it.sent >= 0 {
			reply = replies[it.sent]
			if reply.Err != nil {
				it.problem = a.failure(r.Context(), reply.Err)
			} else {
				it.problem = conflict(reply)
				// A created notice has the body of the request, which was parsed. For an older one Redis's reply decides.
				it.json = reply.Created && it.json || !reply.Created && reply.Notice != nil && reply.InlineJSON()
			}
		}

		result := BatchResult{Key: it.req.Key, Status: scheduled(reply), Problem: it.problem}
		if it.problem != nil {
			result.Status, last = it.problem.Status, it.problem
		} else {
			result.Created, result.Replaced, result.ReadAs = &reply.Created, &reply.Replaced, ReadAs{it.readAs}
			result.Notice = a.kept(r.Context(), c, &reply.Found, it.json)
		}

		out = codec.Append(out, &result)
		tally[result.Status]++
		if lines {
			out = append(out, '\n')
		}
	}

	if n := len(items); tally[http.StatusServiceUnavailable] == n || tally[http.StatusInsufficientStorage] == n {
		return last // all are to be repeated: the caller's retry logic should see it
	}

	if tally[http.StatusServiceUnavailable] > 0 {
		w.Header().Set("Retry-After", "1")
	}

	status := http.StatusMultiStatus
	for _, all := range []int{http.StatusCreated, http.StatusOK} {
		if tally[all] == len(items) {
			status = all
		}
	}

	if lines {
		return writeRaw(w, status, ndjsonType, out)
	}

	return writeRaw(w, status, "application/json", append(append([]byte{'['}, out...), ']', '\n'))
}

// parser reads one item of a batch; prefix names its place. A *Problem as the error is its answer.
type parser func(it *item, raw []byte, prefix string, c caller, from traceContext) error

// readBatch reads the whole envelope. lines reports whether it was NDJSON.
func (a *api) readBatch(w http.ResponseWriter, r *http.Request, c caller, parse parser) (items []*item, lines bool, err error) {
	if r.ContentLength > a.maxBatch {
		return nil, false, tooLarge("the batch", a.maxBatch)
	}

	from := traceOf(r)
	read := func(raw []byte, n int) *item {
		it := &item{}
		it.failed(parse(it, raw, "body["+strconv.Itoa(n)+"].", c, from))
		return it
	}
	in := bufio.NewReader(http.MaxBytesReader(w, r.Body, a.maxBatch))
	first, err := firstByte(in)
	if err != nil {
		return nil, false, bodyError(err, "the batch", a.maxBatch)
	}

	base, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if first == '[' && !isNDJSON(base) {
		items, err = readArray(in, read)
	} else {
		lines = true
		items, err = readLines(in, read)
	}

	if err != nil {
		return nil, lines, bodyError(err, "the batch", a.maxBatch)
	}

	a.meter.Charge(c.Name, len(items), time.Now())
	if len(items) == 0 {
		var f codec.Faults
		f.Add("body", nil, "holds no notice; want a JSON array or one JSON object a line")
		return nil, lines, refusal(f)
	}

	return items, lines, nil
}

func firstByte(in *bufio.Reader) (byte, error) {
	for {
		c, err := in.ReadByte()
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c, in.UnreadByte()
		}
	}
}

func tooMany() *Problem {
	var f codec.Faults
	f.Add("body", nil, "holds more than %d notices; send them in several batches", maxBatch)
	return refusal(f)
}

func readArray(in io.Reader, read func(raw []byte, n int) *item) ([]*item, error) {
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if err := codec.CheckJSON(data); err != nil {
		return nil, problem(http.StatusBadRequest, "the request's body is not JSON: %v", err)
	}

	items := []*item{}
	for raw := range codec.Elements(data) {
		if len(items) == maxBatch {
			return nil, tooMany()
		}
		items = append(items, read(raw, len(items)))
	}

	return items, nil
}

func readLines(in *bufio.Reader, read func(raw []byte, n int) *item) ([]*item, error) {
	items := []*item{}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}

		if line = bytes.TrimSpace(line); len(line) > 0 {
			if len(items) == maxBatch {
				return nil, tooMany()
			}
			items = append(items, read(line, len(items)))
		}

		if err != nil {
			return items, nil
		}
	}
}

// failed makes the problem of an item from an error of its parser, if any.
func (it *item) failed(err error) {
	if err == nil {
		return
	}

	// The key is repeated so that the caller knows which item is meant; a
	// wrong one only as far as it can be shown.
	it.req.Key = codec.Clip(it.req.Key, 300)
	if !errors.As(err, &it.problem) {
		it.problem = problem(http.StatusBadRequest, "%v", err)
	}
}
