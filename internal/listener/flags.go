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

// flagState is the result of a check of a node's notify flags.
type flagState int

const (
	flagsRead    flagState = iota
	flagsAdded             // some were missing: events have been missed
	flagsUnknown           // CONFIG is refused: a probe finds out
	flagsRefused           // CONFIG is refused, and a probe would not help
)

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
func (l *Listener) check(ctx context.Context, c *redis.Client) (flagState, error) {
	var k look
	_, _ = c.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has its own error
		k.askRole(ctx, pipe)
		k.askFlags(ctx, pipe)
		return nil
	})
	return l.judge(ctx, c, k)
}

// judge takes the answers to a look, and adds missing flags if that is configured
// and allowed.
func (l *Listener) judge(ctx context.Context, c *redis.Client, k look) (flagState, error) {
	if k.role != nil {
		if role, err := k.role.Slice(); err == nil && len(role) > 0 && role[0] != "master" {
			return flagsRead, fmt.Errorf("%w: %s is a %v", errNotMaster, c.Options().Addr, role[0])
		} else if err != nil && !refused(err) {
			return flagsRead, fmt.Errorf("role: %w", err)
		}
	}
	if k.flags == nil {
		return flagsRead, nil
	}
	have, err := k.flags.Result()
	if err != nil {
		if !refused(err) {
			return flagsRead, fmt.Errorf("notify flags: %w", err)
		}
		if len(l.patterns) == 0 {
			return flagsUnknown, nil
		}
		// A probe sees expired events, not those of adopted keys.
		l.events(c, false, "CONFIG is forbidden, so the notify flags are unknown", err)
		return flagsRefused, nil
	}
	flags := have[flagsParameter]
	missing := Missing(flags, l.needs)
	if missing == "" {
		l.events(c, true, "", nil)
		return flagsRead, nil
	}
	if !l.o.Configure {
		l.events(c, false, "notify-keyspace-events lacks "+missing+" and NOTIFIER_CONFIGURE_REDIS is false", nil)
		return flagsRead, nil
	}
	if err := c.ConfigSet(ctx, flagsParameter, flags+missing).Err(); err != nil {
		if !refused(err) {
			return flagsRead, fmt.Errorf("set notify flags: %w", err)
		}
		l.events(c, false, "notify-keyspace-events lacks "+missing+" and cannot be set", err)
		return flagsRead, nil
	}
	l.o.Logger.Info("added flags to notify-keyspace-events",
		zap.String("redis", c.Options().Addr), zap.String("were", flags), zap.String("added", missing))
	l.events(c, true, "", nil)
	return flagsAdded, nil
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

// events notes whether a node sends events; what it says when it does not is
// said once, until all of them do.
func (l *Listener) events(c *redis.Client, ok bool, why string, err error) {
	// All under the lock, so that of two nodes' findings the last is told last.
	l.mu.Lock()
	defer l.mu.Unlock()
	remedy, addr := "set notify-keyspace-events to "+l.needs+" in redis.conf", c.Options().Addr
	if l.shut[addr] { // flags or not
		ok, remedy = false, grant(c, l.channels)
	}
	l.flags[addr] = ok
	all := true
	for _, f := range l.flags {
		all = all && f
	}
	if !ok && !l.warned {
		l.o.Logger.Warn("no expired events: the sweep alone delivers, up to the grace later",
			zap.String("why", why), zap.String("remedy", remedy), zap.Error(err))
	}
	l.warned = !all
	if l.o.OnEvents != nil {
		l.o.OnEvents(all)
	}
}

// refuse notes that a node refuses the channels, so that nothing waits for
// events. admit notes that it does not, and reports whether it did before.
func (l *Listener) refuse(c *redis.Client, err error) {
	l.mu.Lock()
	l.shut[c.Options().Addr] = true
	l.mu.Unlock()
	l.events(c, false, "the user may not subscribe to the channels", err)
}

func (l *Listener) admit(c *redis.Client) (before bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.shut[c.Options().Addr]
	delete(l.shut, c.Options().Addr)
	return before
}

// grant is what gives a client's user the right to channels.
func grant(c *redis.Client, channels []string) string {
	user := c.Options().Username
	if user == "" {
		user = "default"
	}
	return "ACL SETUSER " + user + " &" + strings.Join(channels, " &") + ", and the same in the file of users (`notifier doctor --acl` prints it)"
}

// forget drops what is known of a node that is no longer followed.
func (l *Listener) forget(c *redis.Client) {
	l.mu.Lock()
	delete(l.flags, c.Options().Addr)
	delete(l.shut, c.Options().Addr)
	delete(l.keyspace, c.Options().Addr)
	l.mu.Unlock()
}
