package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

var errKill = errors.New("the mover is killed")

// tap is a process's way to Redis: it lets something happen behind one of its commands,
// and kills the process at one.
type tap struct {
	n     int // commands so far
	kill  int // the command at which it is killed; 0 = none
	after bool
	dead  bool
	then  map[int][]func()
}

func (p *tap) clear() { *p = tap{} }

// interrupt has something happen behind the nth command from now.
func (p *tap) interrupt(n int, do func()) {
	if p.then == nil {
		p.then = map[int][]func(){}
	}
	p.then[p.n+n] = append(p.then[p.n+n], do)
}

// pass sends what counts as one command.
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
		if apart(cmd) {
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
		if slices.ContainsFunc(cmds, apart) {
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

// apart reports whether a command is sent by another goroutine than the mover's own, or
// with a connection's greeting: clocks that are read at once, and the hold that keeps
// other movers away.
func apart(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "time", "hello", "client", "auth", "ping", "select":
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
