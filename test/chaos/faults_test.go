//go:build chaos

package chaos

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fault is something that can go wrong. No two of the same "of" go on at a time.
type fault struct {
	of string
	// duplicates: an attempt that is in flight on an instance that the fault hits may be
	// made again. Every other fault must not duplicate.
	duplicates bool
	// overtakes: while the fault lasts, a notice of an ordered route may overtake its predecessor.
	overtakes bool
	// felt is how long after its end the fault may still have that effect.
	felt time.Duration
	// do makes the fault, notes in s when it strikes, and reports whether it was made.
	do func(x *run, s *span) bool
}

// faults returns the faults of this topology, or the one that a flag selects.
func (x *run) faults() map[string]fault {
	list := x.all()
	if only, ok := list[*flagFault]; ok {
		return map[string]fault{*flagFault: only}
	}
	return list
}

func (x *run) all() map[string]fault {
	list := map[string]fault{
		"instance killed":          {of: "instance", duplicates: true, do: (*run).instanceKilled},
		"instance stopped":         {of: "instance", duplicates: true, felt: time.Second, do: (*run).instanceStopped},
		"instance ended in order":  {of: "instance", do: (*run).instanceEnded},
		"connections killed":       {of: "clients", do: everywhere("CLIENT", "KILL", "TYPE", "normal")},
		"subscriptions killed":     {of: "clients", do: everywhere("CLIENT", "KILL", "TYPE", "pubsub")},
		"notify flags taken away":  {of: "flags", do: everywhere("CONFIG", "SET", "notify-keyspace-events", "")},
		"scripts forgotten":        {of: "scripts", do: everywhere("SCRIPT", "FLUSH")},
		"append-only file rewrite": {of: "disk", do: everywhere("BGREWRITEAOF")},
		"memory full":              {of: "memory", do: (*run).memoryFull},
	}
	maps.Copy(list, x.servers.faults)
	if len(x.servers.nodes) > 1 {
		return list
	}
	list["redis stopped"] = fault{of: "redis", duplicates: true, felt: time.Second, do: (*run).redisStopped}
	for name, toxic := range map[string]string{
		"network slow":      `{"name":"t","type":"latency","stream":"downstream","attributes":{"latency":150,"jitter":150}}`,
		"network narrow":    `{"name":"t","type":"bandwidth","stream":"upstream","attributes":{"rate":20}}`,
		"network half open": `{"name":"t","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`,
		"network resets":    `{"name":"t","type":"reset_peer","stream":"downstream","attributes":{"timeout":0}}`,
	} {
		// Latency delays a settle by less than a lease; the others may stop it for longer.
		list[name] = fault{of: "network", duplicates: name != "network slow", felt: 3 * time.Second,
			do: func(x *run, s *span) bool { return x.toxic(s, toxic) }}
	}
	if len(x.clock.env) > 0 {
		list["clock an hour back"] = fault{of: "clock", duplicates: true, felt: time.Second,
			do: func(x *run, s *span) bool { return x.leap(s, -time.Hour) }}
		list["clock an hour ahead"] = fault{of: "clock", duplicates: true, felt: time.Second,
			do: func(x *run, s *span) bool { return x.leap(s, time.Hour) }}
	}
	if x.disk != "" {
		list["disk full"] = fault{of: "redis", duplicates: true, felt: time.Second, do: (*run).diskFull}
	}
	return list
}

func (x *run) any() *instance { return x.instances[x.roll(len(x.instances))] }

func (x *run) again(n *instance) bool {
	if err := n.start(); err != nil {
		x.t.Errorf("%s does not start again: %v", n.name, err)
		return false
	}
	return true
}

// redisStopped stops the server for longer than the rest of a lease at most.
func (x *run) redisStopped(s *span) bool {
	n := x.servers.nodes[0]
	x.ledger.strike(s, "")
	n.signal(syscall.SIGSTOP)
	x.pause(200, 6000)
	n.signal(syscall.SIGCONT)
	return true
}

func (x *run) instanceKilled(s *span) bool {
	n := x.any()
	x.ledger.strike(s, n.name)
	n.kill()
	x.pause(100, 4000)
	return x.again(n)
}

func (x *run) instanceStopped(s *span) bool {
	n := x.any()
	x.ledger.strike(s, n.name)
	n.signal(syscall.SIGSTOP)
	x.pause(200, 12000)
	n.signal(syscall.SIGCONT)
	return true
}

func (x *run) instanceEnded(s *span) bool {
	n := x.any()
	x.ledger.strike(s, n.name)
	n.signal(syscall.SIGTERM)
	select {
	case <-n.done:
		if code := n.cmd.ProcessState.ExitCode(); code != 0 {
			x.t.Errorf("%s ended with %d after SIGTERM", n.name, code)
		}
	case <-time.After(45 * time.Second):
		x.t.Errorf("%s did not end within 45 s of SIGTERM", n.name)
		n.kill()
	}
	return x.again(n)
}

// everywhere sends a command to all servers that run.
func everywhere(args ...string) func(*run, *span) bool {
	return func(x *run, s *span) bool {
		sent := false
		x.ledger.strike(s, "")
		for _, n := range x.servers.nodes {
			if n.runs() {
				_, err := n.cli(args...)
				sent = sent || err == nil
			}
		}
		return sent
	}
}

// memoryFull lets each server refuse what grows, for a time.
func (x *run) memoryFull(s *span) bool {
	x.ledger.strike(s, "")
	for _, n := range x.servers.nodes {
		if used, err := strconv.Atoi(n.field("memory", "used_memory")); err == nil {
			_, _ = n.cli("CONFIG", "SET", "maxmemory", strconv.Itoa(used*9/10))
		}
	}
	x.pause(500, 4000)
	defer func() { // a server that restarted during the fault has no limit
		for _, n := range x.servers.nodes {
			for try := 0; n.runs() && try < 20; try++ {
				if out, err := n.cli("CONFIG", "SET", "maxmemory", "0"); err == nil && strings.Contains(out, "OK") {
					break
				}
				time.Sleep(500 * time.Millisecond) // sleep: a stopped server goes on later
			}
		}
	}()
	return true
}

// toxic lets something be wrong with one instance's network.
func (x *run) toxic(s *span, text string) bool {
	n := x.any()
	p := n.proxy
	x.ledger.strike(s, n.name)
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		x.t.Errorf("toxic: %v", err)
		return false
	}
	x.pause(500, 9000)
	p.Toxics.ResetToxics(context.Background())
	return true
}

// leap moves Redis's clock for a time, and back. Ahead of it nothing new is
// scheduled, since it would be due in an hour.
func (x *run) leap(s *span, offset time.Duration) bool {
	x.ahead.Store(true)
	defer x.ahead.Store(false)
	time.Sleep(5 * time.Second) // sleep: calls under way end
	x.ledger.strike(s, "")
	if err := x.clock.set(x.ledger, offset); err != nil {
		x.t.Error(err)
		return false
	}
	x.pause(1000, 6000)
	x.ledger.strike(s, "")
	if err := x.clock.set(x.ledger, 0); err != nil {
		x.t.Error(err)
		return false
	}
	return true
}

// diskFull fills the file system of the append-only file. Redis exits when it cannot write
// acknowledged data. It is restarted once there is room.
func (x *run) diskFull(s *span) bool {
	n, name := x.servers.nodes[0], filepath.Join(x.disk, "filler")
	f, err := os.Create(name)
	if err != nil {
		return false
	}
	x.ledger.strike(s, "")
	block := make([]byte, 1<<20)
	for err == nil {
		if _, err = f.Write(block); err != nil && len(block) > 1 {
			block, err = block[:len(block)/2], nil
		}
	}
	_ = f.Close()
	full := errors.Is(err, syscall.ENOSPC)
	x.pause(500, 3000)
	_ = os.Remove(name)
	if !n.runs() {
		return x.revive(n) && full
	}
	return full
}
