package worker

import (
	"errors"
	"fmt"
	"time"

	"notifier/internal/dispatch"
	"notifier/internal/engine"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Causes of the end of a handler's context, as context.Cause returns them.
var (
	// ErrTimeout means that the timeout of the handler has passed.
	ErrTimeout = errors.New("the handler's timeout has passed")
	// ErrLeaseLost means that other instances have declared this one dead, because it did not reach Redis. They may
	// handle its notices.
	ErrLeaseLost = dispatch.ErrLeaseLost
	// ErrShutdown means that ShutdownTimeout has passed since the end of Run's context.
	ErrShutdown = dispatch.ErrShutdown
)

// Errors of methods. Compare them with errors.Is.
var (
	// ErrNotFound means that the key has no notice.
	ErrNotFound = store.ErrNotFound
	// ErrUnhandled means that the key belongs to no prefix that a worker has recorded, and to no route of the service.
	ErrUnhandled = store.ErrUnrouted
	// ErrInvalid is wrapped by errors about a Request.
	ErrInvalid = notice.ErrInvalid
	// ErrConflict means that the key has a notice with other content.
	ErrConflict = errors.New("the key has a notice with other content")
	// ErrUnavailable means that Redis did not answer, or that the worker is closed. The call may have been made, and may be
	// repeated.
	ErrUnavailable = wire.ErrUnavailable
	// ErrConfig is wrapped by errors about options and handlers.
	ErrConfig = engine.ErrConfig
)

// verdict is an error of a handler that decides what follows the attempt.
type verdict struct {
	outcome notice.Outcome
	reason  notice.Reason // empty = rejected, or timeout after the handler's timeout
	after   time.Duration
	err     error
}

// Error returns the text of the handler's error.
func (v *verdict) Error() string {
	if v.err == nil {
		return "deferred for " + v.after.String()
	}
	return v.err.Error()
}

// Unwrap returns the handler's error.
func (v *verdict) Unwrap() error { return v.err }

// Defer returns an error with which a handler postpones its notice by d, at most 24 hours, without using an attempt.
func Defer(d time.Duration) error {
	return &verdict{outcome: notice.OutcomeDeferred, reason: notice.ReasonLocked, after: d}
}

// undecoded returns the error of a handler whose notice has a body that does not decode.
func undecoded(err error) error {
	return &verdict{outcome: notice.OutcomeDead, reason: notice.ReasonDecode, err: fmt.Errorf("decode the body: %w", err)}
}

// Dead returns an error with which a handler ends its notice: no other attempt follows. err may be nil.
func Dead(err error) error {
	if err == nil {
		err = errors.New("rejected")
	}
	return &verdict{outcome: notice.OutcomeDead, err: err}
}

// RetryAfter returns an error after which the next attempt follows after d at the earliest, if Retry has another delay. err
// may be nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("rejected")
	}
	return &verdict{outcome: notice.OutcomeRetry, after: d, err: err}
}
