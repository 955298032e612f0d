package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"notifier/internal/notice"
)

// TestAnswer answers POST /v1/notices/{key}/test.
type TestAnswer struct {
	Key        string  `json:"key" example:"app1:orders:paid:4711"`
	Host       string  `json:"host,omitempty" doc:"The host that was called. Absent if the notice has no valid address." example:"shop.example"`
	Outcome    string  `json:"outcome" doc:"The outcome of a first attempt with this response: delivered (the test was acknowledged), retry, dead or deferred." example:"delivered"`
	Reason     string  `json:"reason,omitempty" doc:"Why the test was not acknowledged, with the words of a notice's reason; blocked if the address is not allowed." example:"status_5xx"`
	Status     int     `json:"status,omitempty" doc:"The HTTP status. Absent without a response." example:"200"`
	DurationMS float64 `json:"duration_ms" doc:"Milliseconds from the start of the call to the end of the response." example:"12.5"`
	Response   string  `json:"response,omitempty" doc:"The first 512 bytes of the response's body; without a response, the error of the call. Masked as on the pages. Only for clients without a prefix."`
	Final      bool    `json:"final" doc:"A notice with this response would become a dead letter without a retry."`
	NextMS     int64   `json:"next_ms,omitempty" doc:"Milliseconds after which a notice with this response would be retried. Absent without a retry."`
}

// sendTest serves POST /v1/notices/{key}/test.
func (a *api) sendTest(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}
	if err := at.check(at.param); err != nil {
		return err
	}

	f, err := a.finder.Find(r.Context(), at.param)
	if gone(err) {
		return absent(at.param)
	}
	if err != nil {
		return err
	}

	f = a.opened(r.Context(), at.caller, &f)
	x, err := a.tests.Send(r.Context(), TestCaller{Name: at.Name, All: at.Prefix == ""}, &f)
	var limit *TestLimitError
	switch {
	case errors.As(err, &limit):
		return problem(http.StatusTooManyRequests, "%v", err).with("Retry-After", strconv.Itoa(int(limit.Seconds()/time.Second)))
	case errors.Is(err, ErrTestTarget), errors.Is(err, ErrTestSealed):
		p := problem(http.StatusConflict, "%v", err)
		p.State = string(f.State)
		return p
	case err != nil:
		return err
	}

	a.operated(r, at, x.Entry(f.Key), nil)
	return writeJSON(w, http.StatusOK, testAnswerOf(f.Key, x))
}

func testAnswerOf(key string, x *TestResult) TestAnswer {
	return TestAnswer{Key: key, Host: x.Host, Outcome: string(x.Outcome), Reason: string(x.Reason), Status: x.Exchange.Status,
		DurationMS: millis(x.Took), Response: notice.Kept(x.Answer), Final: x.Final, NextMS: x.Next.Milliseconds()}
}
