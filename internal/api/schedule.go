package api

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// storeProblem is the answer to the engine's known errors, nil for others.
func storeProblem(err error) *Problem {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return problem(http.StatusNotFound, "no such notice is kept")
	case errors.Is(err, store.ErrFull):
		return problem(http.StatusInsufficientStorage, "Redis has reached its maxmemory and takes no new notice; nothing was written").
			with("Retry-After", "30")
	case errors.Is(err, store.ErrUnavailable):
		return problem(http.StatusServiceUnavailable, "Redis cannot be reached at the moment; repeat the call. "+
			"Scheduling again is safe: what is kept already is not scheduled twice").with("Retry-After", "1")
	case errors.Is(err, store.ErrUnrouted):
		return problem(http.StatusUnprocessableEntity, "no route covers the key")
	case errors.Is(err, store.ErrCursor):
		var f faults
		f.add("query.cursor", nil, "is not a cursor of this listing; begin again without one")
		return f.problem()
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
	p := problem(http.StatusConflict, "a notice with another content is kept under this key; it differs in %s. "+
		"Use another key, or on_duplicate keep or replace", strings.Join(r.Differs, ", "))
	p.Differs = r.Differs
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
	req, _, err := a.parseNotice(data, "body.", at.caller, traceparent(r))
	if err != nil {
		return err
	}
	reply, err := a.engine.Schedule(r.Context(), req)
	if err == nil {
		err = reply.Err
	}
	if err != nil {
		return err
	}
	if p := conflict(reply); p != nil {
		return p
	}
	status := scheduled(reply)
	if status == http.StatusCreated {
		w.Header().Set("Location", "/v1/notices/"+req.Key)
	}
	return writeRaw(w, status, "application/json", append(a.appendNotice(nil, reply.Found, flags(reply)), '\n'))
}

func flags(r store.Reply) string {
	return `"created":` + strconv.FormatBool(r.Created) + `,"replaced":` + strconv.FormatBool(r.Replaced)
}

// item is one line of a batch on its way.
type item struct {
	req     store.Request
	problem *Problem
	sent    int  // its place among the requests given to the engine, -1 = none
	json    bool // its body is JSON that may stand in another JSON text
}

// batch serves POST /v1/notices/batch. Nothing is scheduled before all of the
// envelope has been read, so that a request which is refused changes nothing.
func (a *api) batch(w http.ResponseWriter, r *http.Request, at site) error {
	items, lines, err := a.readBatch(w, r, at.caller)
	if err != nil {
		return err
	}
	reqs := make([]store.Request, 0, len(items))
	for i := range items {
		if items[i].sent = -1; items[i].problem == nil {
			items[i].sent = len(reqs)
			reqs = append(reqs, items[i].req)
		}
	}
	var replies []store.Reply
	if len(reqs) > 0 {
		replies = a.engine.ScheduleMany(r.Context(), reqs)
	}
	return a.answerBatch(w, r, items, replies, lines)
}

func (a *api) answerBatch(w http.ResponseWriter, r *http.Request, items []item, replies []store.Reply, lines bool) error {
	tally := map[int]int{}
	out := make([]byte, 0, 512*len(items))
	var last *Problem
	for i := range items {
		it := &items[i]
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
				// What was just created is what was given, and that was parsed.
				it.json = reply.Created && it.json || !reply.Created && reply.Notice != nil && reply.InlineJSON()
			}
		}
		status := scheduled(reply)
		out = append(out, `{"key":`...)
		out = appendString(out, it.req.Key)
		if it.problem != nil {
			status, last = it.problem.Status, it.problem
		}
		out = append(append(out, `,"status":`...), strconv.Itoa(status)...)
		if it.problem != nil {
			out = append(appendJSON(append(out, `,"problem":`...), it.problem), '}')
		} else {
			out = append(append(out, ','), flags(reply)...)
			// Bodies are not echoed: they would double the traffic.
			out = append(a.appendHead(append(out, `,"notice":`...), reply.Found, it.json), '}', '}')
		}
		tally[status]++
		if lines {
			out = append(out, '\n')
		}
	}
	if n := len(items); tally[http.StatusServiceUnavailable] == n || tally[http.StatusInsufficientStorage] == n {
		return last // nothing was written at all: the caller's retry logic should see it
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

// readBatch reads the whole envelope. lines tells whether it was NDJSON.
func (a *api) readBatch(w http.ResponseWriter, r *http.Request, c caller) (items []item, lines bool, err error) {
	if r.ContentLength > a.maxBatch {
		return nil, false, tooLarge("the batch", a.maxBatch)
	}
	trace := traceparent(r)
	in := bufio.NewReader(http.MaxBytesReader(w, r.Body, a.maxBatch))
	first, err := firstByte(in)
	if err != nil {
		return nil, false, batchError(err, a.maxBatch)
	}
	base, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if first == '[' && !isNDJSON(base) {
		items, err = a.readArray(in, c, trace)
	} else {
		lines = true
		items, err = a.readLines(in, c, trace)
	}
	if err != nil {
		return nil, lines, batchError(err, a.maxBatch)
	}
	if len(items) == 0 {
		var f faults
		f.add("body", nil, "holds no notice; want a JSON array or one JSON object a line")
		return nil, lines, f.problem()
	}
	return items, lines, nil
}

func batchError(err error, limit int64) error {
	var tooBig *http.MaxBytesError
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooBig):
		return tooLarge("the batch", limit)
	}
	return problem(http.StatusBadRequest, "the request's body could not be read to its end")
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
	var f faults
	f.add("body", nil, "holds more than %d notices; send them in several batches", maxBatch)
	return f.problem()
}

func (a *api) readArray(in io.Reader, c caller, trace string) ([]item, error) {
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if err := checkJSON(data); err != nil {
		return nil, problem(http.StatusBadRequest, "the request's body is not JSON: %v", err)
	}
	items := []item{}
	for raw := range elements(data) {
		if len(items) == maxBatch {
			return nil, tooMany()
		}
		items = append(items, a.readItem(raw, len(items), c, trace))
	}
	return items, nil
}

func (a *api) readLines(in *bufio.Reader, c caller, trace string) ([]item, error) {
	items := []item{}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if len(items) == maxBatch {
				return nil, tooMany()
			}
			items = append(items, a.readItem(line, len(items), c, trace))
		}
		if err != nil {
			return items, nil
		}
	}
}

func (a *api) readItem(raw []byte, n int, c caller, trace string) item {
	req, inline, err := a.parseNotice(raw, "body["+strconv.Itoa(n)+"].", c, trace)
	it := item{req: req, json: inline}
	if err != nil {
		// The key is repeated so that the caller knows which item is meant; a
		// wrong one only as far as it can be shown.
		it.req.Key = clip(req.Key, 300)
		if !errors.As(err, &it.problem) {
			it.problem = problem(http.StatusBadRequest, "%v", err)
		}
	}
	return it
}
