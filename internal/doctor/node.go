package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
	"notifier/internal/wire"
)

// node runs the checks of one server.
func (r *run) node(ctx context.Context, name string, c redis.Cmdable) {
	n := &node{run: r, name: name, c: c}
	n.readInfo(ctx)
	n.version()
	n.role()
	n.notify(ctx)
	n.memory(ctx)
	n.persistence(ctx)
	n.replay(ctx)
	n.durability(ctx)
	n.buffers(ctx)
	n.replies(ctx)
	n.hz(ctx)
	n.clock(ctx)
}

type node struct {
	*run
	name string
	c    redis.Cmdable
	info map[string]string
}

func (n *node) add(f Finding) {
	f.Node = n.name
	n.run.add(f)
}

func (n *node) readInfo(ctx context.Context) {
	n.info = map[string]string{}
	text, err := n.c.Info(ctx).Result()
	if n.heard(err) != nil {
		n.add(Finding{Check: "version", Severity: Info, Message: "INFO is refused, so version, memory and persistence are unknown: " +
			err.Error()})
		return
	}

	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			n.info[k] = v
		}
	}
}

// setting reads one CONFIG value; ok is false if CONFIG is refused.
func (n *node) setting(ctx context.Context, name string) (value string, ok bool) {
	m, err := n.c.ConfigGet(ctx, name).Result()
	value, ok = m[name]
	return value, n.heard(err) == nil && ok
}

// do sends a command that redis.Cmdable lacks.
func (n *node) do(ctx context.Context, args ...any) (cmd *redis.Cmd) {
	_, _ = n.c.Pipelined(ctx, func(p redis.Pipeliner) error { // cmd has the error
		cmd = p.Do(ctx, args...)
		return nil
	})
	return cmd
}

// fix sets one CONFIG value if Options.Fix is set, and marks the finding.
func (n *node) fix(ctx context.Context, f *Finding, name, value string) {
	if !n.Fix {
		return
	}

	if err := n.c.ConfigSet(ctx, name, value).Err(); err != nil {
		f.Message += "; it could not be set: " + err.Error()
		return
	}

	f.Fixed = true
	f.Message += fmt.Sprintf("; set to %q until the next restart", value)
}

// unknown adds a finding for a setting that cannot be read because CONFIG is refused.
func (n *node) unknown(check, name string) {
	n.add(Finding{Check: check, Severity: Info, Message: name + " cannot be read (CONFIG is refused)",
		Remedy: "check it where the server is configured"})
}

func (n *node) version() {
	text, product := n.info["redis_version"], "Redis"
	if v := n.info["valkey_version"]; v != "" {
		n.add(Finding{Check: "version", Severity: OK, Message: "Valkey " + v})
		return
	}

	if text == "" {
		return
	}

	major, rest, _ := strings.Cut(text, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	f := Finding{Check: "version", Severity: OK, Message: product + " " + text}
	switch {
	case a < 6 || a == 6 && b < 2:
		f.Severity, f.Remedy = Error, "6.2 or newer is needed (SET with PXAT); 7.0 or newer is recommended"
	case a < 7:
		f.Severity, f.Remedy = Warning, "7.0 or newer is recommended; older versions refuse settles too when memory is full"
	}

	n.add(f)
}

// role checks that the server is no replica.
func (n *node) role() {
	if n.info["role"] == "slave" {
		n.add(Finding{Check: "role", Severity: Error, Message: fmt.Sprintf("Redis is a replica of %s:%s, which refuses writes or loses them: "+
			"nothing is delivered", n.info["master_host"], n.info["master_port"]),
			Remedy: "give the master's address in NOTIFIER_REDIS_URL, or promote this server: REPLICAOF NO ONE"})
	}
}

// notify checks the flags for expired events.
func (n *node) notify(ctx context.Context) {
	const name = "notify-keyspace-events"
	flags, ok := n.setting(ctx, name)
	if !ok {
		n.unknown("notify flags", name)
		return
	}

	need := "Ex"
	for _, rt := range n.cfg.Routes {
		if rt.Adopt {
			need = "KEg$x"
		}
	}

	missing := ""
	for _, f := range need {
		if !strings.ContainsRune(flags, f) && !(strings.ContainsRune(flags, 'A') && strings.ContainsRune("g$lshzxetd", f)) {
			missing += string(f)
		}
	}

	if missing == "" {
		n.add(Finding{Check: "notify flags", Severity: OK, Message: fmt.Sprintf("%s is %q", name, flags)})
		return
	}

	f := Finding{Check: "notify flags", Severity: Warning,
		Message: fmt.Sprintf("%s is %q and lacks %q: no expired events, so notices are late by the grace", name, flags, missing),
		Remedy:  fmt.Sprintf("%s %s in redis.conf, on replicas too; for now CONFIG SET %s %s", name, flags+missing, name, flags+missing)}
	if n.cfg.ConfigureRedis {
		f.Severity = Info
		f.Message += "; the service adds them when it starts, but they are lost when Redis restarts"
	}

	n.fix(ctx, &f, name, flags+missing)
	n.add(f)
}

func (n *node) memory(ctx context.Context) {
	limitText, policy := n.settingOrInfo(ctx, "maxmemory", "maxmemory"), n.settingOrInfo(ctx, "maxmemory-policy", "maxmemory_policy")
	if limitText == "" && policy == "" {
		n.unknown("memory", "maxmemory")
		return
	}

	limit, _ := strconv.ParseInt(limitText, 10, 64)
	used, _ := strconv.ParseInt(n.info["used_memory"], 10, 64)
	if policy != "" && policy != "noeviction" {
		n.evicts(ctx, policy, limit)
	}

	switch {
	case limit == 0:
		n.add(Finding{Check: "memory", Severity: Warning, Message: fmt.Sprintf("maxmemory is not set; %s are used", size(used)),
			Remedy: "set maxmemory well below the machine's memory, so that a full Redis refuses new notices instead of being killed by the kernel"})
	case used >= limit:
		n.add(Finding{Check: "memory", Severity: Error, Message: fmt.Sprintf("%s of %s are used: new notices are refused",
			size(used), size(limit)),
			Remedy: wire.RemedyFull})
	case used > limit/100*95:
		n.add(Finding{Check: "memory", Severity: Error, Message: fmt.Sprintf("%s of %s are used: new notices will soon be refused",
			size(used), size(limit)),
			Remedy: wire.RemedyFull})
	case used > limit/100*80:
		n.add(Finding{Check: "memory", Severity: Warning, Message: fmt.Sprintf("%s of %s are used", size(used), size(limit)),
			Remedy: wire.RemedyFull})
	case policy == "noeviction":
		n.add(Finding{Check: "memory", Severity: OK, Message: fmt.Sprintf("%s of %s are used, policy noeviction", size(used), size(limit))})
	}
}

func size(b int64) string {
	if b < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(b)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(b)/(1<<30))
}

func (n *node) persistence(ctx context.Context) {
	aof, ok := n.setting(ctx, "appendonly")
	save, okSave := n.setting(ctx, "save")
	fsync, okSync := n.setting(ctx, "appendfsync")
	if ok && okSave && okSync {
		n.persists(aof, save, fsync)
	} else {
		n.unknown("persistence", "appendonly")
	}

	n.lastWrites(save)
}

// persists reports how durable Redis's data is by its settings.
func (n *node) persists(aof, save, fsync string) {
	const remedy = "appendonly yes and appendfsync always in redis.conf; for now CONFIG SET appendonly yes"
	switch {
	case aof != "yes" && save == "":
		n.add(Finding{Check: "persistence", Severity: Error,
			Message: "neither append-only file nor snapshots: a restart of Redis loses every notice", Remedy: remedy})
	case aof != "yes":
		n.add(Finding{Check: "persistence", Severity: Warning,
			Message: fmt.Sprintf("snapshots only (save %s): a crash loses the notices accepted since the last snapshot", save), Remedy: remedy})
	case fsync == "always":
		n.add(Finding{Check: "persistence", Severity: OK, Message: "append-only file, synced before each answer"})
	case fsync == "everysec":
		n.add(Finding{Check: "persistence", Severity: Info,
			Message: "append-only file, synced every second: a crash of the machine loses up to one second",
			Remedy:  "appendfsync always, if no accepted notice may be lost"})
	default:
		n.add(Finding{Check: "persistence", Severity: Warning,
			Message: "append-only file, synced by the kernel: a crash of the machine loses up to half a minute",
			Remedy:  "appendfsync always (or everysec)"})
	}
}

// settingOrInfo returns a setting, or the value in INFO if CONFIG is refused.
func (n *node) settingOrInfo(ctx context.Context, name, field string) string {
	if value, ok := n.setting(ctx, name); ok {
		return value
	}
	return n.info[field]
}

// evicts reports a policy that evicts notices, and fixes it if that is wanted.
func (n *node) evicts(ctx context.Context, policy string, limit int64) {
	f := Finding{Check: "memory", Severity: Error, Message: fmt.Sprintf("maxmemory-policy is %s: a full Redis evicts notices", policy),
		Remedy: "maxmemory-policy noeviction in redis.conf; for now CONFIG SET maxmemory-policy noeviction"}
	if limit == 0 {
		f.Severity = Warning
		f.Message = fmt.Sprintf("maxmemory-policy is %s: Redis would evict notices once maxmemory is set", policy)
	}

	if evicted := n.info["evicted_keys"]; evicted != "" && evicted != "0" {
		f.Severity = Error
		f.Message += fmt.Sprintf("; it has evicted %s keys since its start", evicted)
	}

	n.fix(ctx, &f, "maxmemory-policy", "noeviction")
	n.add(f)
}

// lastWrites reports the last writes of files that failed. save is the setting of snapshots.
func (n *node) lastWrites(save string) {
	for field, what := range map[string]string{"aof_last_write_status": "the append-only file", "aof_last_bgrewrite_status": "its rewrite",
		"rdb_last_bgsave_status": "the snapshot"} {
		if v := n.info[field]; v != "" && v != "ok" && !(field == "rdb_last_bgsave_status" && save == "") {
			n.add(Finding{Check: "persistence", Severity: Error, Message: fmt.Sprintf("the last write of %s failed (%s: %s)", what, field, v),
				Remedy: "look into Redis's log; the disk may be full"})
		}
	}
}

// buffers checks the bound of a subscriber's output buffer.
func (n *node) buffers(ctx context.Context) {
	const name, want, least = "client-output-buffer-limit", "pubsub 67108864 16777216 60", 32 << 20
	text, ok := n.setting(ctx, name)
	if !ok {
		n.unknown("output buffer", name)
		return
	}

	fields := strings.Fields(text)
	for i := 0; i+3 < len(fields); i += 4 {
		if fields[i] != "pubsub" {
			continue
		}

		hard, _ := strconv.ParseInt(fields[i+1], 10, 64)
		if hard == 0 || hard >= least {
			n.add(Finding{Check: "output buffer", Severity: OK, Message: "pubsub " + strings.Join(fields[i+1:i+4], " ")})
			return
		}

		f := Finding{Check: "output buffer", Severity: Warning,
			Message: fmt.Sprintf("subscribers are disconnected with %s unread: a burst of events ends the subscription", size(hard)),
			Remedy:  name + ` "pubsub 64mb 16mb 60" in redis.conf`}
		n.fix(ctx, &f, name, want)
		n.add(f)
	}
}

func (n *node) hz(ctx context.Context) {
	text, ok := n.setting(ctx, "hz")
	hz, _ := strconv.Atoi(text)
	switch {
	case !ok:
		n.unknown("hz", "hz")
	case hz < 10:
		n.add(Finding{Check: "hz", Severity: Warning,
			Message: fmt.Sprintf("hz is %d: Redis handles timed-out clients and untouched expired keys late", hz),
			Remedy:  "hz 10, the default"})
	case hz > 100:
		n.add(Finding{Check: "hz", Severity: Info, Message: fmt.Sprintf("hz is %d, which uses CPU without making notices more punctual",
			hz), Remedy: "hz 10, the default; the service touches due keys itself"})
	default:
		n.add(Finding{Check: "hz", Severity: OK, Message: "hz is " + text})
	}
}

// clock compares Redis's clock, which decides when notices are due, with the local clock.
func (n *node) clock(ctx context.Context) {
	before := n.Now()
	theirs, err := n.c.Time(ctx).Result()
	after := n.Now()
	if n.heard(err) != nil {
		n.add(Finding{Check: "clock", Severity: Error, Message: "TIME is refused: " + err.Error(), Remedy: "allow TIME; all times come from it"})
		return
	}

	off := theirs.Sub(before.Add(after.Sub(before) / 2))
	f := Finding{Check: "clock", Severity: OK, Message: fmt.Sprintf("Redis's clock is %s off this machine's", off.Round(time.Millisecond))}
	switch slip := off.Abs() - after.Sub(before)/2; {
	case slip > time.Minute:
		f.Severity = Error
	case slip > 500*time.Millisecond:
		f.Severity = Warning
	}

	switch {
	case theirs.Before(notice.Earliest()):
		f.Severity = Error
		f.Message = fmt.Sprintf("Redis's clock says %s: notices can neither be scheduled nor adopted", theirs.UTC().Format(time.RFC3339))
		f.Remedy = "set the clock of the machine that Redis runs on; timers and leases that end before the corrected time then expire at once"
	case f.Severity != OK:
		f.Message += ": due times use Redis's clock, and receivers refuse signatures that are minutes off"
		f.Remedy = "synchronise both clocks (NTP)"
	}

	n.add(f)
}
