package queue

import (
	"context"
	"net/http"
	"time"

	"notifier/client"
	"notifier/internal/notice"
)

// openTimeout bounds the call that opens an entry, with its repetitions.
const openTimeout = 10 * time.Second

// opened opens a sealed entry through the API. If that fails, ok is false and res is the result to report: dead if the entry will
// never open, or deferred, which uses no attempt.
func (c *Consumer) opened(e *Received) (res notice.Result, ok bool) {
	if e.Sealed == "" {
		return res, true
	}

	limit := openTimeout
	if c.o.Report { // the report must still arrive in time
		limit = min(limit, c.o.Timeout/3)
	}

	ctx, cancel := context.WithTimeout(c.work, limit)
	defer cancel()
	o, err := c.o.API.Open(ctx, e.Key, e.Sealed)
	if err != nil {
		res = notice.Result{Outcome: notice.OutcomeDeferred, Response: "cannot open the sealed entry: " + err.Error()}
		if client.IsStatus(err, http.StatusGone) || client.IsStatus(err, http.StatusUnprocessableEntity) {
			res.Outcome = notice.OutcomeDead
		}

		return res, false
	}

	if e.Body = o.Content(); e.ContentType == "" {
		e.ContentType = o.ContentType
	}

	return res, true
}
