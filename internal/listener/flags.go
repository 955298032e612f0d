package listener

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/wire"
)

var errNotMaster = errors.New("no longer a master")

// look is a request for a node's role and notify flags. A nil field was not requested.
type look struct {
	role  *redis.Cmd
	flags *redis.MapStringStringCmd
}

func (k *look) askRole(ctx context.Context, pipe redis.Pipeliner) { k.role = pipe.Do(ctx, "ROLE") }

func (k *look) askFlags(ctx context.Context, pipe redis.Pipeliner) {
	k.flags = pipe.ConfigGet(ctx, flagsParameter)
}

const flagsParameter = "notify-keyspace-events"

// check reads a node's role and notify flags. It adds missing flags if that is configured and
// allowed.
func (l *Listener) check(ctx context.Context, f *flow) error {
	var k look
	_, _ = f.c.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has its own error
		k.askRole(ctx, pipe)
		k.askFlags(ctx, pipe)
		return nil
	})
	_, err := l.judge(ctx, f, k)
	return err
}

// judge evaluates the replies of a look. It adds missing flags if that is configured and allowed,
// and reports whether it has: events were missed until then.
func (l *Listener) judge(ctx context.Context, f *flow, k look) (added bool, err error) {
	if err := k.notMaster(wire.Addr(f.c)); err != nil {
		return false, err
	}
	if k.flags == nil {
		return false, nil
	}

	have, err := k.flags.Result()
	if err != nil {
		if !refused(err) {
			return false, fmt.Errorf("notify flags: %w", err)
		}

		l.lacks(f, l.needs, "CONFIG is refused, and the event of a probe key did not arrive", err)
		f.noConfig.Store(true)
		return false, nil
	}

	f.noConfig.Store(false)
	flags := have[flagsParameter]
	missing := Missing(flags, l.needs)
	switch {
	case missing == "":
		l.lacks(f, "", "", nil)
		return false, nil
	case !l.o.Configure:
		l.lacks(f, missing, "notify-keyspace-events lacks "+missing+" and NOTIFIER_CONFIGURE_REDIS is false", nil)
		return false, nil
	}

	return l.addFlags(ctx, f, flags, missing)
}

// notMaster returns an error if the node is not a master, or did not answer.
func (k *look) notMaster(addr string) error {
	if k.role == nil {
		return nil
	}

	role, err := k.role.Slice()
	if err == nil && len(role) > 0 && role[0] != "master" {
		return fmt.Errorf("%w: %s is a %v", errNotMaster, addr, role[0])
	}
	if err != nil && !refused(err) {
		return fmt.Errorf("role: %w", err)
	}

	return nil
}

// addFlags adds missing notify flags to those of a node, and reports whether the node accepts them.
func (l *Listener) addFlags(ctx context.Context, f *flow, flags, missing string) (added bool, err error) {
	if err := f.c.ConfigSet(ctx, flagsParameter, flags+missing).Err(); err != nil {
		if !refused(err) {
			return false, fmt.Errorf("set notify flags: %w", err)
		}

		l.lacks(f, missing, "notify-keyspace-events lacks "+missing+" and cannot be set", err)
		return false, nil
	}

	l.o.Logger.Info("added flags to notify-keyspace-events",
		zap.String("redis", wire.Addr(f.c)), zap.String("were", flags), zap.String("added", missing))
	l.lacks(f, "", "", nil)
	return true, nil
}

// lacks records which flags a node lacks or may lack. Expired events are observed in any case. The
// events for adoption are not, so without their flags plain timers are searched for instead.
func (l *Listener) lacks(f *flow, missing, why string, err error) {
	if !strings.ContainsAny(missing, "Ex") {
		l.suspects(f, "", nil)
	} else {
		l.suspects(f, why, err)
	}

	l.mu.Lock()
	changed := f.blind != (missing != "")
	f.blind = missing != ""
	l.mu.Unlock()
	if !changed || len(l.patterns) == 0 {
		return
	}

	if f.blind {
		l.o.Logger.Warn("keyspace events may not be sent, searching for plain timers every second", zap.String("redis", wire.Addr(f.c)),
			zap.String("why", why), zap.String("remedy", "set notify-keyspace-events to "+l.needs+" in redis.conf"), zap.Error(err))
	}

	l.reportAdopting()
}

// refused reports whether err is a reply of Redis and not a failure to reach it.
func refused(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return false
	}

	return !redis.IsLoadingError(err) && !redis.IsMasterDownError(err) && !redis.IsClusterDownError(err)
}

// Missing returns the needed notify flags that are not set. The flag A includes g$lshzxetd.
func Missing(set, needed string) string {
	if strings.Contains(set, "A") {
		set += "g$lshzxetd"
	}

	var missing strings.Builder
	for _, f := range needed {
		if !strings.ContainsRune(set, f) {
			missing.WriteRune(f)
		}
	}

	return missing.String()
}

// grant returns the command that gives a client's user the right to channels.
func grant(c redis.Cmdable, channels []string) string {
	user := wire.User(c)
	if user == "" {
		user = "default"
	}

	return "ACL SETUSER " + user + " &" + strings.Join(channels, " &") +
		", and the same in the file of users (`notifier doctor --acl` prints it)"
}
