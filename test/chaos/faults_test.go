//go:build chaos

package chaos

import (
	"context"
	"errors"
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
	do func(x *run) bool
}

// faults are those that this topology can have and that are asked for.
func (x *run) faults() map[string]fault {
	list := x.all()
	if only, ok := list[*flagFault]; ok {
		return map[string]fault{*flagFault: only}
	}
	return list
}

func (x *run) all() map[string]fault {
	list := map[string]fault{
		"instance killed":          {"instance", (*run).instanceKilled},
		"instance stopped":         {"instance", (*run).instanceStopped},
		"instance ended in order":  {"instance", (*run).instanceEnded},
		"connections killed":       {"clients", func(x *run) bool { return x.everywhere("CLIENT", "KILL", "TYPE", "normal") }},
		"subscriptions killed":     {"clients", func(x *run) bool { return x.everywhere("CLIENT", "KILL", "TYPE", "pubsub") }},
		"notify flags taken away":  {"flags", func(x *run) bool { return x.everywhere("CONFIG", "SET", "notify-keyspace-events", "") }},
		"scripts forgotten":        {"scripts", func(x *run) bool { return x.everywhere("SCRIPT", "FLUSH") }},
		"append-only file rewrite": {"disk", func(x *run) bool { return x.everywhere("BGREWRITEAOF") }},
		"memory full":              {"memory", (*run).memoryFull},
	}
	for name, do := range x.servers.away {
		list[name] = fault{"redis", do}
	}
	if len(x.servers.nodes) > 1 {
		return list
	}
	list["redis stopped"] = fault{"redis", func(x *run) bool {
		n := x.servers.nodes[0]
		n.signal(syscall.SIGSTOP)
		x.pause(200, 6000)
		n.signal(syscall.SIGCONT)
		return true
	}}
	for name, toxic := range map[string]string{
		"network slow":      `{"name":"t","type":"latency","stream":"downstream","attributes":{"latency":150,"jitter":150}}`,
		"network narrow":    `{"name":"t","type":"bandwidth","stream":"upstream","attributes":{"rate":20}}`,
		"network half open": `{"name":"t","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`,
		"network resets":    `{"name":"t","type":"reset_peer","stream":"downstream","attributes":{"timeout":0}}`,
	} {
		list[name] = fault{"network", func(x *run) bool { return x.toxic(toxic) }}
	}
	if len(x.clock.env) > 0 {
		list["clock an hour back"] = fault{"clock", func(x *run) bool { return x.leap(-time.Hour) }}
		list["clock an hour ahead"] = fault{"clock", func(x *run) bool { return x.leap(time.Hour) }}
	}
	if x.disk != "" {
		list["disk full"] = fault{"redis", (*run).diskFull}
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

func (x *run) instanceKilled() bool {
	n := x.any()
	n.kill()
	x.pause(100, 4000)
	return x.again(n)
}

func (x *run) instanceStopped() bool {
	n := x.any()
	n.signal(syscall.SIGSTOP)
	x.pause(200, 12000)
	n.signal(syscall.SIGCONT)
	return true
}

func (x *run) instanceEnded() bool {
	n := x.any()
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
func (x *run) everywhere(args ...string) bool {
	sent := false
	for _, n := range x.servers.nodes {
		if n.runs() {
			_, err := n.cli(args...)
			sent = sent || err == nil
		}
	}
	return sent
}

// memoryFull lets each server refuse what grows, for a time.
func (x *run) memoryFull() bool {
	for _, n := range x.servers.nodes {
		if used, err := strconv.Atoi(n.field("memory", "used_memory")); err == nil {
			_, _ = n.cli("CONFIG", "SET", "maxmemory", strconv.Itoa(used*9/10))
		}
	}
	x.pause(500, 4000)
	defer func() { // a server that was away meanwhile has no limit any more
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
func (x *run) toxic(text string) bool {
	p := x.any().proxy
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
func (x *run) leap(offset time.Duration) bool {
	x.ahead.Store(true)
	defer x.ahead.Store(false)
	time.Sleep(5 * time.Second) // sleep: calls under way end
	if err := x.clock.set(x.ledger, offset); err != nil {
		x.t.Error(err)
		return false
	}
	x.pause(1000, 6000)
	if err := x.clock.set(x.ledger, 0); err != nil {
		x.t.Error(err)
		return false
	}
	return true
}

// diskFull fills the file system under the append-only file. Redis ends when it
// cannot write what it has acknowledged, and is started when there is room.
func (x *run) diskFull() bool {
	n, name := x.servers.nodes[0], filepath.Join(x.disk, "filler")
	f, err := os.Create(name)
	if err != nil {
		return false
	}
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
