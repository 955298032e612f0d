package pace

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Loop computes the delays between retries of a failing operation, and logs the failures. Each failure in a row doubles
// the delay, from Min up to Max; a random part of up to a quarter is then subtracted. A success resets the delay. A
// Loop is safe for concurrent use, counts the failures of all its users together, and must not be copied.
type Loop struct {
	// Min and Max bound the delay: Min is that of the first failure, and must be
	// positive.
	Min, Max time.Duration

	// Logger receives the messages. Nil, or an empty message, logs nothing.
	Logger             *zap.Logger
	Failure, Recovered string
	// WarnEvery, if positive, is the shortest time between two warnings, whether the operation
	// succeeds in between or not. Zero = a warning at the first of several failures in a row.
	WarnEvery time.Duration
	// Group, if any, limits the messages of several Loops together.
	Group *Loops

	mu       sync.Mutex
	failures int
	warned   bool      // in this row
	last     time.Time // when the last warning was logged
}

// Fail notes a failure, logs it as Report does, and returns the delay before the next try.
func (l *Loop) Fail(err error, fields ...zap.Field) time.Duration {
	l.Report(err, fields...)
	return l.Next()
}

// Next is Fail without the log.
func (l *Loop) Next() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()

	d := doubled(l.Min, l.failures, l.Max)
	l.failures++
	return d - rand.N(d/4+1) // spreads the retries of several processes
}

// Wait notes a failure as Fail does and waits for the delay. It returns false if
// ctx ended first; the failure of an operation that ctx has ended is not noted.
func (l *Loop) Wait(ctx context.Context, err error, fields ...zap.Field) bool {
	if ctx.Err() != nil {
		return false
	}
	return Wait(ctx, l.Fail(err, fields...))
}

// Succeed notes a success, and logs it if a failure before it was logged.
func (l *Loop) Succeed(fields ...zap.Field) {
	l.mu.Lock()
	logged := l.warned
	failed := l.failures > 0 || l.warned
	l.failures, l.warned = 0, false
	l.mu.Unlock()

	if l.Group != nil {
		logged = failed && l.Group.succeed(l)
	}

	if logged && l.Recovered != "" {
		l.Logger.Info(l.Recovered, fields...)
	}
}

// Hurry begins again with Min, as when the operation is likely to succeed now. It
// is no success: the failures that follow are not logged as the first.
func (l *Loop) Hurry() {
	l.mu.Lock()
	l.failures = 0
	l.mu.Unlock()
}

// Failing reports whether the last try failed.
func (l *Loop) Failing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures > 0
}

// Report logs a failure and does not note it. In place of a warning it logs an error if err has a method Severe().
func (l *Loop) Report(err error, fields ...zap.Field) {
	if l.Logger == nil || l.Failure == "" {
		return
	}

	now, level := time.Now(), zap.WarnLevel
	var severe interface{ Severe() }
	if errors.As(err, &severe) {
		level = zap.ErrorLevel
	}

	l.mu.Lock()
	due := l.WarnEvery > 0 && now.Sub(l.last) >= l.WarnEvery || l.WarnEvery == 0 && !l.warned
	if l.Group != nil {
		due = l.Group.fail(l, now, level)
	}

	if due {
		l.warned, l.last = true, now
	} else {
		level = zap.DebugLevel
	}

	l.mu.Unlock()
	l.Logger.Log(level, l.Failure, append(fields, zap.Error(err))...)
}

// doubled returns least doubled n times, and most if that is less.
func doubled(least time.Duration, n int, most time.Duration) time.Duration {
	for ; n > 0; n-- {
		if least > most/2 {
			return most
		}
		least *= 2
	}
	return min(least, most)
}
