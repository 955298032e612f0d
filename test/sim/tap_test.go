package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

var errKill = errors.New("the mover is killed")

// tap counts the commands of a process. It runs functions after some commands, and kills
// the process before or after one.
type tap struct {
	n     int // commands so far
	kill  int // the command at which the process is killed; 0 = none
	after bool
	dead  bool
	then  map[int][]func()
}

func (p *tap) clear() { *p = tap{} }

// interrupt runs do after the nth command from now.
func (p *tap) interrupt(n int, do func()) {
	if p.then == nil {
		p.then = map[int][]func(){}
	}
	p.then[p.n+n] = append(p.then[p.n+n], do)
}

// pass sends a command or a pipeline, which counts as one command.
func (p *tap) pass(send func() error) error {
	if p.dead {
		return errKill
	}
	p.n++
	n := p.n
	if n == p.kill && !p.after {
		p.dead = true
		return errKill
	}
	err := send()
	if n == p.kill {
		p.dead = true
		return errKill
	}
	for _, do := range p.then[n] {
		do()
	}
	return err
}

func (p *tap) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if uncounted(cmd) {
			return next(ctx, cmd)
		}
		err := p.pass(func() error { return next(ctx, cmd) })
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

func (p *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, uncounted) {
			return next(ctx, cmds)
		}
		err := p.pass(func() error { return next(ctx, cmds) })
		if errors.Is(err, errKill) {
			for _, c := range cmds {
				c.SetErr(err)
			}
		}
		return err
	}
}

// uncounted reports whether a command has no fixed place in the order of the mover's
// commands. Such commands are sent when a connection opens, or by another goroutine: reads
// of the clocks, and the renewal of the lock that excludes other movers, which counts subscribers.
func uncounted(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "time", "hello", "client", "auth", "ping", "select", "pubsub":
		return true
	}
	for _, a := range cmd.Args() {
		if fmt.Sprint(a) == space.Resharding() {
			return true
		}
		if s, ok := a.(*string); ok && *s == space.Resharding() {
			return true
		}
	}
	return false
}

// said writes a migration's steps to the log of its world.
type said struct{ *ferry }

func (s said) Say(text string) { s.say("  %s", text) }
func (said) Moved(int, int64)  {}
