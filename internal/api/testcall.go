package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/callback"
	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// maxTestDuration is the maximum duration of a test, also where the route's timeout is longer: the servers of the API and
// of the pages end a response after 90 seconds, and package client waits for 60.
const maxTestDuration = 50 * time.Second

// TestOptions are the parameters of NewTestSender.
type TestOptions struct {
	Routes *route.Table
	// Probe makes one callback, without the limits of the route.
	Probe func(context.Context, *route.Route, *notice.Notice) callback.Exchange
	// Mask are the masking rules of the pages. Nil means none.
	Mask *mask.Rules
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// TestSender sends tests. All its methods may be called at the same time. A nil TestSender sends none.
type TestSender struct {
	o      TestOptions
	limits testLimits
}

// NewTestSender returns a TestSender whose limits are unused.
func NewTestSender(o TestOptions) *TestSender {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &TestSender{o: o}
}

// TestCaller is a client that sends a test.
type TestCaller struct {
	Name string
	// All reports whether the client sees all notices. Others are shown host and status only.
	All bool
}

// ErrTestTarget means that the notice's route makes no HTTP calls, or is no longer configured.
var ErrTestTarget = errors.New("the route does not deliver over HTTP, so no test can be sent")

// ErrTestSealed means that the content of the notice was not opened: a service key is missing, or its audience or id was forgotten.
var ErrTestSealed = errors.New("the notice is sealed and does not open, so no test can be sent")

// TestLimitError means that the client has sent too many tests of the route. Nothing was sent.
type TestLimitError struct {
	// Wait is the time until the client may send the next test.
	Wait time.Duration
}

// Error implements error.
func (e *TestLimitError) Error() string {
	return fmt.Sprintf("too many tests of this route by this client. Nothing was sent. Try again in %s", e.Seconds())
}

// Seconds returns Wait in whole seconds, rounded up.
func (e *TestLimitError) Seconds() time.Duration { return e.Wait.Truncate(time.Second) + time.Second }

// TestResult is a test as its caller may see it.
type TestResult struct {
	// Exchange is the call, masked. It has only the status if Limited is set.
	Exchange callback.Exchange
	// Limited means that the caller may see only the host and the status.
	Limited bool
	// Host was called. It is empty if the notice has no valid address.
	Host string
	// Took is the time from the start of the call to the end of the response.
	Took time.Duration
	// Answer is the beginning of the response's body, or without a response the error of the call.
	Answer string

	Outcome notice.Outcome
	Reason  notice.Reason
	// Final and Next are the step of the service after such a response to the first attempt of a notice: a dead
	// letter, or a retry after that delay.
	Final bool
	Next  time.Duration
}

// Said returns the failure reason, or without one the outcome.
func (r *TestResult) Said() string { return cmp.Or(string(r.Reason), string(r.Outcome)) }

// Entry returns the audit entry of a test of a notice.
func (r *TestResult) Entry(key string) audit.Entry {
	return audit.Entry{Action: audit.SendTest, Key: key, Detail: r.Said()}
}

// Tests reports whether a test of a notice can be sent.
func (s *TestSender) Tests(f *store.Found) bool {
	rt := s.route(f)
	return rt != nil && f.Sealed == "" && (rt.Target.Kind == route.KindFixed || f.URL != "")
}

// route returns the route of a notice if it makes HTTP calls, else nil.
func (s *TestSender) route(f *store.Found) *route.Route {
	if s == nil {
		return nil
	}

	rt := s.o.Routes.Prefix(f.Route)
	if rt == nil || rt.Target.Kind != route.KindFixed && rt.Target.Kind != route.KindNotice {
		return nil
	}

	return rt
}

// Send sends one test to the receiver of a notice. A test that was not acknowledged is a TestResult, not an error. The
// error is ErrTestTarget, ErrTestSealed or a *TestLimitError.
func (s *TestSender) Send(ctx context.Context, c TestCaller, f *store.Found) (*TestResult, error) {
	rt := s.route(f)
	if rt == nil {
		return nil, ErrTestTarget
	}
	if f.Sealed != "" {
		return nil, ErrTestSealed
	}

	now := s.o.Now().UTC()
	if wait, ok := s.limits.admit(c.Name, rt, now); !ok {
		return nil, &TestLimitError{wait}
	}

	x := s.exchange(ctx, rt, f, now)
	out := &TestResult{Host: testHost(rt, f), Took: x.Duration, Outcome: x.Result.Outcome, Reason: x.Result.Reason, Final: x.Final,
		Next: x.Next}

	if !c.All {
		out.Limited, out.Exchange = true, callback.Exchange{Status: x.Status}
		return out, nil
	}

	content := s.o.Mask.Notice(f.Notice)
	out.Answer = content.AnswerText(cmp.Or(x.ResponseBody, x.Result.Response))
	s.hide(&x, f, content)
	out.Exchange = x
	return out, nil
}

// exchange makes the call.
func (s *TestSender) exchange(ctx context.Context, rt *route.Route, f *store.Found, now time.Time) callback.Exchange {
	limit := rt.Timeout
	if limit <= 0 || limit > maxTestDuration {
		limit = maxTestDuration
	}

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	key := keys.Fill(rt.Prefix, "test") + ":test"
	body, typ := rt.TestContent()
	return s.o.Probe(ctx, rt, &notice.Notice{Key: key, Route: rt.Prefix, Made: notice.MadeAt(now), Due: now,
		Content: notice.Content{URL: f.URL, Audience: f.Audience, Method: f.Method, Body: body, ContentType: typ}})
}

// hide applies the masking rules to an exchange. The probe has hidden the service's secrets.
func (s *TestSender) hide(x *callback.Exchange, f *store.Found, content *mask.View) {
	if x.Method == http.MethodGet && !s.o.Mask.None() {
		x.Signed = nil // the signed text is the query of the address, which may be masked
	}

	x.URL, _ = content.Address(x.URL)

	brought := map[string]bool{}
	for _, h := range f.Headers {
		brought[strings.ToLower(h.Name)] = true
	}

	for i, h := range x.RequestHeaders { // the headers of the service itself are shown even if all are masked
		if brought[strings.ToLower(h.Name)] || !s.o.Mask.All() {
			x.RequestHeaders[i].Value, _ = content.Header(h.Name, h.Value)
		}
	}

	for i, h := range x.ResponseHeaders {
		x.ResponseHeaders[i].Value = content.AnswerText(h.Value)
		if _, whole := content.Header(h.Name, h.Value); !whole {
			x.ResponseHeaders[i].Value = mask.Hidden
		}
	}

	x.ResponseBody = content.AnswerText(x.ResponseBody)
	x.Result.Response = content.AnswerText(x.Result.Response)
}

// testHost returns the host that a notice is delivered to; empty without one.
func testHost(rt *route.Route, f *store.Found) string {
	if f.URL == "" && rt.Target.URL != nil {
		return history.HostOf(rt.Target.URL.String())
	}
	return history.HostOf(f.URL)
}
