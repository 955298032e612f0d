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

// durability names the check of the configured durability.
const durability = "durability"

// durability reports the configured durability.
func (r *run) durability() {
	r.add(Finding{Check: durability, Severity: OK, Message: r.cfg.Promise()})
}

// durability reports server settings that contradict the configured durability.
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

// online returns the number of connected replicas; ok is false if INFO does not contain it.
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
		n.add(Finding{Check: durability, Severity: Info, Message: "the number of replicas cannot be read (INFO is refused)",
			Remedy: fmt.Sprintf("%s needs %d of them", name, want)})
	case have < want:
		n.add(Finding{Check: durability, Severity: Error,
			Message: fmt.Sprintf("connected replicas: %d of the %d that %s waits for; nothing is confirmed until all are connected", have,
				want, name),
			Remedy: "start them, or set a smaller number; until then calls that change notices get 503, and deliveries continue"})
	case have == want:
		n.add(Finding{Check: durability, Severity: OK, Message: fmt.Sprintf("%s, and %s waits for all; without one of them nothing is confirmed",
			notice.Count(have, "replica"), name)})
	default:
		n.add(Finding{Check: durability, Severity: OK,
			Message: fmt.Sprintf("%d replicas, of which %s waits for %d: confirmed writes survive a failover "+
				"if at most %d of them are partitioned together with the master", have, name, want, want-1)})
	}
}

// priorityTimeout bounds the read of a replica's priority.
const priorityTimeout = time.Second

// priorities checks that all replicas have the same priority. Sentinel promotes the replica with the lowest priority,
// even if another one has more of the confirmed writes. A cluster promotes the replica that received most.
func (n *node) priorities(ctx context.Context) {
	const name = "replica-priority"
	var found, unread []string
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
		found = append(found, addr+" has "+settings[name])
	}

	switch {
	case len(by) > 1:
		n.add(Finding{Check: durability, Severity: Warning,
			Message: fmt.Sprintf("the replicas differ in %s (%s): a failover promotes the lowest number above 0, "+
				"although only another one may have the confirmed writes", name, strings.Join(found, ", ")), Remedy: "set the same " + name +
				" on all servers"})
	case by["0"]:
		n.add(Finding{Check: durability, Severity: Error, Message: name + " is 0 on all replicas, so none is ever promoted",
			Remedy: name + " 100 in redis.conf"})
	case len(unread) > 0:
		n.add(Finding{Check: durability, Severity: Info, Message: fmt.Sprintf("%s of %s cannot be read", name, strings.Join(unread, ", ")),
			Remedy: "check it there; it must be the same on all servers"})
	}
}

func (n *node) fsync(ctx context.Context, name string) {
	if err := n.heard(wire.Synced(ctx, n.c)); err != nil {
		n.add(Finding{Check: durability, Severity: Error, Message: name + "=fsync is refused: " + err.Error(),
			Remedy: "appendonly yes and appendfsync always in redis.conf, or a server with a reliable WAITAOF (Redis 8)"})
		return
	}
	if aof, ok := n.setting(ctx, "appendonly"); ok && aof != "yes" {
		n.add(Finding{Check: durability, Severity: Error, Message: "appendonly is " + aof + ", so nothing is on disk and " + name +
			"=fsync confirms nothing",
			Remedy: "appendonly yes in redis.conf; for now CONFIG SET appendonly yes"})
	}
}

// minReplicas checks that a partitioned master stops taking writes.
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
			Remedy: "start the replicas, or lower the number"})
	case want == 0 && have > 0:
		n.add(Finding{Check: durability, Severity: Warning,
			Message: fmt.Sprintf("%s is 0: a master partitioned from its %s keeps taking writes, "+
				"which are lost once a replica is promoted", name, notice.Count(have, "replica")),
			Remedy: "min-replicas-to-write 1 and min-replicas-max-lag 10 in redis.conf, on replicas too; with only one replica, its failure then " +
				"stops all writes"})
	}
}

// coverage checks that the failure of one master does not stop the others.
func (n *node) coverage(ctx context.Context) {
	const name = "cluster-require-full-coverage"
	if text, ok := n.setting(ctx, name); ok && text == "yes" {
		n.add(Finding{Check: durability, Severity: Warning,
			Message: name + " is yes: while one master is down and no replica is promoted, all masters refuse all calls",
			Remedy:  name + " no in redis.conf; for now CONFIG SET " + name + " no"})
	}
}
