package doctor

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"notifier/internal/config"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// durability is the check of what the settings of durability promise.
const durability = "durability"

// durability says what the settings promise.
func (r *run) durability() {
	r.add(Finding{Check: durability, Severity: OK, Message: r.cfg.Promise()})
}

// durability looks for what keeps a node from bearing what the settings promise.
func (n *node) durability(ctx context.Context) {
	for _, d := range []struct {
		name string
		notice.Durability
	}{{"NOTIFIER_DURABILITY", n.cfg.Durability}, {"NOTIFIER_DURABILITY_SETTLE", n.cfg.DurabilitySettle}} {
		switch {
		case d.Replicas > 0:
			n.replicas(d.name, d.Replicas)
		case d.Fsync:
			n.fsync(ctx, d.name)
		}
	}
	if n.cfg.Durability.Replicas+n.cfg.DurabilitySettle.Replicas > 0 {
		n.priorities(ctx)
	}
	n.minReplicas(ctx)
	if n.cfg.Redis.Mode == config.Cluster {
		n.coverage(ctx)
	}
}

// online is how many replicas receive what is written; ok is false if INFO does not
// say.
func (n *node) online() (count int, ok bool) {
	if _, ok = n.info["connected_slaves"]; !ok {
		return 0, false
	}
	for i := 0; ; i++ {
		text, there := n.info["slave"+strconv.Itoa(i)]
		if !there {
			return count, true
		}
		if strings.Contains(text, "state=online") {
			count++
		}
	}
}

func (n *node) replicas(name string, want int) {
	have, ok := n.online()
	switch {
	case !ok:
		n.add(Finding{Check: durability, Severity: Info, Message: "how many replicas there are cannot be read (INFO is refused)",
			Remedy: fmt.Sprintf("%s needs %d of them", name, want)})
	case have < want:
		n.add(Finding{Check: durability, Severity: Error,
			Message: fmt.Sprintf("connected replicas: %d of the %d that %s waits for; nothing is confirmed until all are connected", have,
				want, name),
			Remedy: "start them, or set a smaller number; calls that change notices are answered with 503 meanwhile, and delivering goes on"})
	case have == want:
		n.add(Finding{Check: durability, Severity: OK, Message: fmt.Sprintf("%s, and %s waits for all: with one gone, nothing is confirmed",
			notice.Count(have, "replica"), name)})
	default:
		n.add(Finding{Check: durability, Severity: OK,
			Message: fmt.Sprintf("%d replicas, of which %s waits for %d: what was confirmed survives a failover "+
				"if at most %d of them are cut off together with the master", have, name, want, want-1)})
	}
}

// priorityTimeout is how long a replica may take to say its priority.
const priorityTimeout = time.Second

// priorities looks at whether the replicas are equal to who promotes one: the one with
// the lowest priority is taken, whether or not it has all that was confirmed. In a
// cluster the one that has received most is.
func (n *node) priorities(ctx context.Context) {
	const name = "replica-priority"
	var said, unread []string
	by := map[string]bool{}
	for i := 0; ; i++ {
		text, there := n.info["slave"+strconv.Itoa(i)]
		if !there {
			break
		}
		fields := map[string]string{}
		for _, f := range strings.Split(text, ",") {
			k, v, _ := strings.Cut(f, "=")
			fields[k] = v
		}
		addr := net.JoinHostPort(fields["ip"], fields["port"])
		c := n.conn.Server(addr)
		if c == nil {
			return
		}
		part, cancel := context.WithTimeout(ctx, priorityTimeout)
		settings, err := c.ConfigGet(part, name).Result()
		cancel()
		_ = c.Close() // nothing is pending
		if err != nil || settings[name] == "" {
			unread = append(unread, addr)
			continue
		}
		by[settings[name]] = true
		said = append(said, addr+" has "+settings[name])
	}
	switch {
	case len(by) > 1:
		n.add(Finding{Check: durability, Severity: Warning,
			Message: fmt.Sprintf("the replicas differ in %s (%s): a failover takes the one with the lowest number above 0, "+
				"although another may have what was confirmed and it may not", name, strings.Join(said, ", ")), Remedy: "the same " + name +
				" on all servers"})
	case by["0"]:
		n.add(Finding{Check: durability, Severity: Error, Message: name + " is 0 on all replicas: none is ever promoted",
			Remedy: name + " 100 in redis.conf"})
	case len(unread) > 0:
		n.add(Finding{Check: durability, Severity: Info, Message: fmt.Sprintf("%s of %s cannot be read", name, strings.Join(unread, ", ")),
			Remedy: "look it up there: it must be the same on all servers"})
	}
}

func (n *node) fsync(ctx context.Context, name string) {
	if err := n.heard(wire.Synced(ctx, n.c)); err != nil {
		n.add(Finding{Check: durability, Severity: Error, Message: name + "=fsync is refused: " + err.Error(),
			Remedy: "appendonly yes and appendfsync always in redis.conf, or a server whose WAITAOF can be relied on (Redis 8)"})
		return
	}
	if aof, ok := n.setting(ctx, "appendonly"); ok && aof != "yes" {
		n.add(Finding{Check: durability, Severity: Error, Message: "appendonly is " + aof + ": nothing is on disk, so that " + name +
			"=fsync confirms nothing",
			Remedy: "appendonly yes in redis.conf; for now CONFIG SET appendonly yes"})
	}
}

// minReplicas looks at whether a master that is cut off goes on taking writes.
func (n *node) minReplicas(ctx context.Context) {
	const name = "min-replicas-to-write"
	have, ok := n.online()
	text, readable := n.setting(ctx, name)
	if !ok || !readable {
		return
	}
	switch want, _ := strconv.Atoi(text); {
	case want > have:
		n.add(Finding{Check: durability, Severity: Error, Message: fmt.Sprintf("connected replicas: %d, and %s is %d: Redis refuses all writes",
			have, name, want),
			Remedy: "start the replicas, or lower it"})
	case want == 0 && have > 0:
		n.add(Finding{Check: durability, Severity: Warning,
			Message: fmt.Sprintf("%s is 0: a master that is cut off from its %s goes on taking writes, "+
				"which are lost when a replica has taken its place", name, notice.Count(have, "replica")),
			Remedy: "min-replicas-to-write 1 and min-replicas-max-lag 10 in redis.conf, on replicas too; with one replica only, its end then " +
				"stops all writes"})
	}
}

// coverage looks at whether one master's end stops all others.
func (n *node) coverage(ctx context.Context) {
	const name = "cluster-require-full-coverage"
	if text, ok := n.setting(ctx, name); ok && text == "yes" {
		n.add(Finding{Check: durability, Severity: Warning,
			Message: name + " is yes: while one master is gone and no replica has taken its place, all masters refuse all calls",
			Remedy:  name + " no in redis.conf; for now CONFIG SET " + name + " no"})
	}
}
