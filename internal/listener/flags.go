package listener

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

var errNotMaster = errors.New("not a master any more")

// look is a request for a node's role and notify flags; nil = not requested.
type look struct {
	role  *redis.Cmd
	flags *redis.MapStringStringCmd
}

func (k *look) askRole(ctx context.Context, pipe redis.Pipeliner) { k.role = pipe.Do(ctx, "ROLE") }

func (k *look) askFlags(ctx context.Context, pipe redis.Pipeliner) {
	k.flags = pipe.ConfigGet(ctx, flagsParameter)
}

const flagsParameter = "notify-keyspace-events"

// check reads a node's role and its notify flags, and adds missing flags if that
// is configured and allowed.
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

// judge takes the answers to a look, and adds missing flags if that is configured
// and allowed. It reports whether flags were added: until then, events were missed.
func (l *Listener) judge(ctx context.Context, f *flow, k look) (added bool, err error) {
	c := f.c
	if k.role != nil {
		if role, err := k.role.Slice(); err == nil && len(role) > 0 && role[0] != "master" {
			return false, fmt.Errorf("%w: %s is a %v", errNotMaster, c.Options().Addr, role[0])
		} else if err != nil && !refused(err) {
			return false, fmt.Errorf("role: %w", err)
		}
	}
	if k.flags == nil {
		return false, nil
	}
	have, err := k.flags.Result()
	if err != nil {
		if !refused(err) {
			return false, fmt.Errorf("notify flags: %w", err)
		}
		l.lacks(f, l.needs, "CONFIG is refused, and the event of a key that expired did not arrive", err)
		f.noConfig.Store(true)
		return false, nil
	}
	f.noConfig.Store(false)
	flags := have[flagsParameter]
	missing := Missing(flags, l.needs)
	if missing == "" {
		l.lacks(f, "", "", nil)
		return false, nil
	}
	if !l.o.Configure {
		l.lacks(f, missing, "notify-keyspace-events lacks "+missing+" and NOTIFIER_CONFIGURE_REDIS is false", nil)
		return false, nil
	}
	if err := c.ConfigSet(ctx, flagsParameter, flags+missing).Err(); err != nil {
		if !refused(err) {
			return false, fmt.Errorf("set notify flags: %w", err)
		}
		l.lacks(f, missing, "notify-keyspace-events lacks "+missing+" and cannot be set", err)
		return false, nil
	}
	l.o.Logger.Info("added flags to notify-keyspace-events",
		zap.String("redis", c.Options().Addr), zap.String("were", flags), zap.String("added", missing))
	l.lacks(f, "", "", nil)
	return true, nil
}

// lacks notes which flags a node lacks, or may lack. Whether expired events arrive is
// observed; the events that adoption needs are not, so that plain timers are looked for.
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
		l.o.Logger.Warn("keyspace events may not be sent, plain timers are looked for every second", zap.String("redis", f.c.Options().Addr),
			zap.String("why", why), zap.String("remedy", "set notify-keyspace-events to "+l.needs+" in redis.conf"), zap.Error(err))
	}
	l.tellAdopting()
}

// refused reports whether err is an answer of Redis, not a failure to reach it.
func refused(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return false
	}
	return !redis.IsLoadingError(err) && !redis.IsMasterDownError(err) && !redis.IsClusterDownError(err)
}

// Missing is which of the needed notify flags are not among those set; A
// stands for g$lshzxetd.
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

// grant is what gives a client's user the right to channels.
func grant(c *redis.Client, channels []string) string {
	user := c.Options().Username
	if user == "" {
		user = "default"
	}
	return "ACL SETUSER " + user + " &" + strings.Join(channels, " &") +
		", and the same in the file of users (`notifier doctor --acl` prints it)"
}
