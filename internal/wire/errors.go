package wire

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Wrap adds the operation to err and classifies it: ErrLogin, ErrRights, ErrFull, ErrUnavailable,
// ClockError, or unchanged.
func Wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if k := kind(err); k != nil {
		return fmt.Errorf("%s: %w: %w", op, k, err)
	}

	return fmt.Errorf("%s: %w", op, err)
}

// kind returns the class of an error; nil for a bug or a caller's mistake.
func kind(err error) error {
	if errors.Is(err, ErrUnconfirmed) || errors.Is(err, ErrNotSynced) || errors.Is(err, ErrUnavailable) {
		return nil // which say all
	}

	var answer redis.Error
	if !errors.As(err, &answer) {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		// No node has answered: a name that is not found, a connection or a
		// certificate refused, nothing for too long.
		return ErrUnavailable
	}

	return kindOfAnswer(Cause(answer))
}

// kindOfAnswer returns the error for Redis's answer; nil if it needs none.
func kindOfAnswer(err error) error {
	if at, ok := strings.CutPrefix(err.Error(), "CLOCK "); ok {
		seconds, _ := strconv.ParseInt(at, 10, 64)
		return ClockError{time.Unix(seconds, 0).UTC()}
	}

	switch {
	case redis.IsAuthError(err):
		return ErrLogin
	case redis.IsPermissionError(err), strings.Contains(err.Error(), scriptRefused), strings.Contains(err.Error(), scriptRefusedByValkey):
		return ErrRights
	case redis.IsOOMError(err):
		return ErrFull
	case NotNow(err), Refused(err):
		return ErrUnavailable
	}

	return nil
}

// BadReply returns an ErrReply of an operation.
func BadReply(op, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", op, ErrReply, fmt.Sprintf(format, args...))
}

// NotNow reports whether a later retry can succeed, either by itself or after the server has been
// fixed.
func NotNow(err error) bool {
	for _, is := range []func(error) bool{redis.IsLoadingError, redis.IsReadOnlyError, redis.IsMasterDownError, redis.IsClusterDownError,
		redis.IsTryAgainError, redis.IsNoReplicasError, redis.IsMaxClientsError} {
		if is(err) {
			return true
		}
	}

	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	if moved || ask {
		return true
	}

	// go-redis has no names for these: a disk that cannot be written, a script
	// that does not end, a blocking call that a failover ended.
	for _, code := range []string{"MISCONF ", "BUSY ", "UNBLOCKED "} {
		if strings.HasPrefix(err.Error(), code) {
			return true
		}
	}

	// In a script, a cluster reports these errors without the code that it uses for a command: some
	// keys of a slot have moved to another node, or the cluster is down.
	for _, text := range []string{"attempted to access a non local key", "while the cluster is down"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}

	return false
}

// scriptRefused is what Redis before 7.2 says, without a code, of a command in a
// script that the user has no right to.
const scriptRefused = "The user executing the script can't"

// scriptRefusedByValkey is the same of Valkey.
const scriptRefusedByValkey = "ACL failure in script"

// Refusal is an answer of Redis out of the words of a script around it.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// RedisError makes it an answer for go-redis.
func (Refusal) RedisError() {}

// Cause returns the error of a command inside a script. Redis 6 adds ERR before it.
func Cause(answer redis.Error) error {
	text := answer.Error()
	if strings.HasPrefix(text, "ERR Error running script") {
		if _, inner, ok := strings.Cut(text, ": -"); ok {
			return Refusal(inner)
		}
	}

	return answer
}

// ClockError is returned if Redis's clock shows a time before the earliest time that records can
// hold (notice.Earliest). Nothing was written. It is an ErrUnavailable.
type ClockError struct{ Says time.Time }

func (e ClockError) Error() string {
	return "redis's clock says " + e.Says.UTC().Format(time.RFC3339) + ": set the clock of the machine that Redis runs on"
}

// Is makes it an ErrUnavailable.
func (ClockError) Is(target error) bool { return target == ErrUnavailable }

// Errors that callers distinguish.
var (
	// ErrLogin: Redis asks for a user and a password, or refuses those it was
	// given.
	ErrLogin = errors.New("redis refuses the user or the password of this service; give the right ones in NOTIFIER_REDIS_URL")
	// ErrRights: the Redis user lacks a permission.
	ErrRights = errors.New("redis refuses this service's user a command, a key or a channel; " +
		"`notifier doctor` names it, `notifier doctor --acl` prints all that is needed")
	// ErrUnavailable: Redis cannot be reached, or refuses writes. Nothing was
	// changed, or it is not known whether anything was; calls may be repeated.
	ErrUnavailable = errors.New("redis is not available")
	// ErrNotBegun says that it is not known yet whether Redis holds data of this layout.
	// Nothing was read or written. It is an ErrUnavailable.
	ErrNotBegun = fmt.Errorf("%w: the layout of its data is not known yet", ErrUnavailable)
	// ErrMoved: notices move to another Redis or come from one, and this call is not for
	// this one, or not yet. Nothing was changed. It is an ErrUnavailable.
	ErrMoved = fmt.Errorf("%w: notices are being moved to another one, or from it", ErrUnavailable)
	// ErrReply: the reply has another form than the command or script promises. It is not known whether anything was
	// changed. It is an ErrUnavailable: a proxy or another server may have sent it, and a repeated call may get another.
	ErrReply = fmt.Errorf("%w: it sent an unexpected reply", ErrUnavailable)
	// ErrFull: Redis has reached maxmemory and takes no new notice.
	ErrFull = errors.New("redis is full")
)

// RemedyFull is the remedy of ErrFull.
const RemedyFull = "raise maxmemory, or lower NOTIFIER_RETENTION and NOTIFIER_RETAIN"
