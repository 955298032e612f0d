package wire

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
)

func TestWhatWaitAnswers(t *testing.T) {
	t.Parallel()
	replicas, fsync := &confirmer{Confirm: Confirm{Durability: notice.Durability{Replicas: 2}}},
		&confirmer{Confirm: Confirm{Durability: notice.Durability{Fsync: true}}}
	for _, c := range []struct {
		c    *confirmer
		val  any
		err  error
		good bool
	}{
		{replicas, int64(2), nil, true},
		{replicas, int64(3), nil, true},
		{replicas, int64(1), nil, false},
		{replicas, "x", nil, false},
		{replicas, nil, Refusal("ERR WAIT cannot be used with replica instances"), false},
		{replicas, nil, errors.New("EOF"), false},
		{replicas, nil, Refusal("ERR unknown command 'wait'"), false},
		{fsync, []any{int64(1), int64(0)}, nil, true},
		{fsync, []any{int64(0), int64(2)}, nil, false},
		{fsync, []any{}, nil, false},
		{fsync, nil, Refusal("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."), false},
		{fsync, nil, Refusal("ERR unknown command 'waitaof', with args beginning with: '1' '0' '1000' "), true},
	} {
		cmd := redis.NewCmd(t.Context())
		cmd.SetVal(c.val)
		cmd.SetErr(c.err)
		if err := c.c.short(cmd); (err == nil) != c.good || err != nil && !errors.Is(err, ErrUnconfirmed) {
			t.Errorf("%s, %v, %v: %v", c.c.Durability, c.val, c.err, err)
		}
	}
}

// Valkey reports two versions, of which the first is the Redis version that it is compatible with.
func TestWhoseWaitAOFIsReliedOn(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]bool{
		"# Server\r\nredis_version:7.0.15\r\n":                                               false,
		"# Server\r\nredis_version:7.2.4\r\n":                                                false,
		"# Server\r\nredis_version:8.0.2\r\n":                                                true,
		"# Server\r\nredis_version:10.1.0\r\n":                                               true,
		"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n":  false,
		"# Server\r\nredis_version:8.4.0\r\nserver_name:valkey\r\nvalkey_version:10.0.0\r\n": false,
		"": false,
	} {
		if got := WaitsForDisk(info); got != want {
			t.Errorf("%q: %v", info, got)
		}
	}
}
