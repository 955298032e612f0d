package wire

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestErrorsAreSorted(t *testing.T) {
	t.Parallel()
	// Words that Redis 6.2 and 7.0 gave.
	for text, want := range map[string]error{
		"OOM command not allowed when used memory > 'maxmemory'.":                                                ErrFull,
		"ERR Error running script (call to f_1): @user_script:12: -OOM command not allowed when used memory > …": ErrFull,
		"READONLY You can't write against a read only replica.":                                                  ErrUnavailable,
		"LOADING Redis is loading the dataset in memory":                                                         ErrUnavailable,
		"MISCONF Redis is configured to save RDB snapshots":                                                      ErrUnavailable,
		"BUSY Redis is busy running a script.":                                                                   ErrUnavailable,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                ErrUnavailable,
		"MOVED 3999 127.0.0.1:6381":                                                                              ErrUnavailable,
		"ASK 3999 127.0.0.1:6381":                                                                                ErrUnavailable,
		"CLUSTERDOWN Hash slot not served":                                                                       ErrUnavailable,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                       ErrUnavailable,
		"ERR Script attempted to access a non local key in a cluster node script: 1, on @user_script:9.":         ErrUnavailable,
		"ERR Error running script (call to f_1): @user_script:9: @user_script: 9: Script attempted to access a non local key in a " +
			"cluster node": ErrUnavailable,
		"ERR Script attempted to execute a command while the " +
			"cluster is down script: 1, on @user_script:9.": ErrUnavailable,
		"ERR Script attempted to access keys that do not hash to " +
			"the same slot script: 1, on @user_script:9.": nil,
		"ERR max number of clients reached":                                                                ErrUnavailable,
		"NOAUTH Authentication required.":                                                                  ErrLogin,
		"WRONGPASS invalid username-password pair or user is disabled.":                                    ErrLogin,
		"NOPERM this user has no permissions to run the 'eval' command":                                    ErrRights,
		"ERR The user executing the script can't access at least one of the keys mentioned in the command": ErrRights,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                nil,
		"ERR the word LOADING in an error that is none of these":                                           nil,
	} {
		expectKind(t, text, Refusal(text), want)
	}
	for _, err := range []error{context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, redis.ErrClosed,
		redis.ErrPoolTimeout, &net.OpError{Op: "dial", Err: errors.New("refused")}, x509.UnknownAuthorityError{},
		errors.New("redis: cluster has no nodes"), fmt.Errorf("redis node a:1: %w", ErrAway)} {
		expectKind(t, err.Error(), err, ErrUnavailable)
	}
	expectKind(t, "canceled", context.Canceled, nil)
	expectKind(t, "nil", redis.Nil, nil)
}

// expectKind fails unless err is of one kind and of no other.
func expectKind(t *testing.T, name string, err, want error) {
	t.Helper()
	wrapped := Wrap("x", err)
	for _, k := range []error{ErrFull, ErrUnavailable, ErrLogin, ErrRights} {
		if errors.Is(wrapped, k) != (k == want) { // which of the variables
			t.Errorf("%q is %v", name, wrapped)
		}
	}
	if !errors.Is(wrapped, err) {
		t.Errorf("%q has lost its cause", name)
	}
}
