package keys

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The longest a segment and an id may be, in bytes.
const (
	MaxSegment = 64
	MaxID      = 128
	// MaxKey is the longest notice key: three segments, an id, three colons.
	MaxKey = 3*MaxSegment + MaxID + 3
)

// ErrNotKey is what Parse's errors wrap.
var ErrNotKey = errors.New("not a notice key")

// Key is a parsed notice key.
type Key struct {
	App, Module, Type, ID string
}

// String spells the key. Parse is its inverse.
func (k Key) String() string { return k.App + ":" + k.Module + ":" + k.Type + ":" + k.ID }

// Parse reads a notice key. Its error says which segment is wrong and what
// would be right.
func Parse(s string) (Key, error) {
	if len(s) > MaxKey {
		return Key{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrNotKey, len(s), MaxKey)
	}

	parts := strings.Split(s, ":")
	if len(parts) != 4 {
		return Key{}, fmt.Errorf("%w: %q has %s, want 4: app:module:type:id", ErrNotKey, s, segments(len(parts)))
	}

	names := [4]string{"app", "module", "type", "id"}
	for i, p := range parts {
		limit := MaxSegment
		if i == 3 {
			limit = MaxID
		}

		if err := checkSegment(p, limit); err != nil {
			return Key{}, fmt.Errorf("%w: segment %s %w", ErrNotKey, names[i], err)
		}
	}

	return Key{parts[0], parts[1], parts[2], parts[3]}, nil
}

func segments(n int) string {
	if n == 1 {
		return "1 segment"
	}
	return strconv.Itoa(n) + " segments"
}

// Valid reports whether s is a notice key. It does not allocate, because it is called for every key
// that expires in the whole database.
func Valid(s string) bool {
	if len(s) > MaxKey {
		return false
	}

	colons, start := 0, 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == ':' {
			if n := i - start; n == 0 || n > MaxSegment {
				return false
			}
			if colons++; colons > 3 {
				return false
			}

			start = i + 1
			continue
		}

		if !allowed(c) {
			return false
		}
	}

	n := len(s) - start
	return colons == 3 && n > 0 && n <= MaxID
}

func checkSegment(p string, limit int) error {
	if p == "" {
		return errors.New("is empty")
	}
	if len(p) > limit {
		return fmt.Errorf("has %d characters, at most %d are allowed", len(p), limit)
	}

	for i := 0; i < len(p); i++ {
		if !allowed(p[i]) {
			return fmt.Errorf("%q holds a character that is not a letter, digit, '_', '.', '~' or '-'", p)
		}
	}

	return nil
}

func allowed(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '_' || c == '.' || c == '~' || c == '-'
}

// CheckPrefix reads a route's prefix: app, app:module or app:module:type.
func CheckPrefix(s string) error {
	parts := strings.Split(s, ":")
	if len(parts) > 3 {
		return fmt.Errorf("prefix %q has %d segments; want app, app:module or app:module:type", s, len(parts))
	}

	names := [3]string{"app", "module", "type"}
	for i, p := range parts {
		if err := checkSegment(p, MaxSegment); err != nil {
			return fmt.Errorf("prefix %q: segment %s %w", s, names[i], err)
		}
	}

	return nil
}

// Fill fills a prefix up to the three segments before an id.
func Fill(prefix, segment string) string {
	for range 2 - strings.Count(prefix, ":") {
		prefix += ":" + segment
	}
	return prefix
}

// HasPrefix reports whether key is under prefix at the border of a segment: "app1" covers
// "app1:a:b:c" and not "app12:a:b:c". An empty prefix covers all keys.
func HasPrefix(key, prefix string) bool {
	if prefix == "" {
		return true
	}
	return len(key) > len(prefix) && key[len(prefix)] == ':' && key[:len(prefix)] == prefix
}

// Overlap reports whether a key may be under both prefixes. The empty prefix is that of all keys.
func Overlap(a, b string) bool { return a == b || HasPrefix(a, b) || HasPrefix(b, a) }

// Space names every Redis key of one namespace. Its methods take a place where the parameter is
// called shard: see places.go.
type Space struct {
	Namespace string
	Shards    int
	// Tags are the shards' hash tags; none = each shard's number.
	Tags []string
	// Former are the tags of shards that others have replaced, and Replaced how many of
	// them there were at a time, both in their order.
	Former   []string
	Replaced []int

	live *live
}

// Tag is the hash tag of a shard.
func (s Space) Tag(shard int) string {
	l := s.at()
	return l.tag(shard)
}

// ParseTags reads the tags of n shards, comma-separated; the empty text is none.
func ParseTags(text string, n int) ([]string, error) {
	if text == "" {
		return nil, nil
	}

	tags := strings.Split(text, ",")
	if len(tags) != n {
		return nil, fmt.Errorf("%d tags for %d shards", len(tags), n)
	}

	seen := make(map[string]bool, n)
	for _, t := range tags {
		if err := checkSegment(t, MaxSegment); err != nil {
			return nil, fmt.Errorf("a tag %w", err)
		}
		if seen[t] {
			return nil, fmt.Errorf("the tag %s twice", t)
		}

		seen[t] = true
	}

	return tags, nil
}

// Shard returns the number of the current shard that stores new notices with a key. It is a hash of the order key, so
// notices with the same order key are in the same shard.
func (s Space) Shard(key string) int {
	l := s.at()
	// The first numbers are those of old shards, which reshards have replaced.
	return len(l.former) + spread(key, l.shards)
}

func spread(key string, n int) int {
	if n <= 1 {
		return 0
	}
	return int(folded(key) % uint32(n))
}

// folded is FNV-1a of a key's order key with its halves folded together. It does not allocate.
func folded(key string) uint32 {
	start, id := orderParts(key)
	h := uint32(2166136261)
	for i := 0; i < len(start); i++ {
		h = (h ^ uint32(start[i])) * 16777619
	}

	for i := 0; i < len(id); i++ {
		h = (h ^ uint32(id[i])) * 16777619
	}

	return h ^ h>>16 ^ h>>8
}

// Partition identifies the notices of one route in one shard. A shard is a set of Redis keys with the same hash tag, so
// that in a cluster one script can use all of them. In each partition, a zset has the pending notices, another the dead
// letters, and a third the delivered and cancelled ones. A hash has all their records (see [Space.States]).
type Partition struct {
	Prefix string // of the route
	Shard  int
}

// Under is the partition of the same shard and another prefix.
func (p Partition) Under(prefix string) Partition { return Partition{prefix, p.Shard} }

// Wake is the partition as messages on the wake channel name it.
func (p Partition) Wake() string { return strconv.Itoa(p.Shard) + " " + p.Prefix }

// Partition returns the partition of a route's notice.
func (s Space) Partition(prefix, key string) Partition { return Partition{prefix, s.Shard(key)} }

// Base begins the name of each key of a shard.
func (s Space) Base(shard int) string { return s.Namespace + ":{" + s.Tag(shard) + "}:" }

func (s Space) tagged(shard int, kind, rest string) string { return s.Base(shard) + kind + ":" + rest }

// Shadow is the zset of notice keys by next attention.
func (s Space) Shadow(p Partition) string { return s.tagged(p.Shard, "shadow", p.Prefix) }

// Records is the hash of records by notice key.
func (s Space) Records(p Partition) string { return s.tagged(p.Shard, "records", p.Prefix) }

// Dead is the zset of dead letters by time of death.
func (s Space) Dead(p Partition) string { return s.tagged(p.Shard, "dead", p.Prefix) }

// Settled is the zset of delivered and cancelled notices by time.
func (s Space) Settled(p Partition) string { return s.tagged(p.Shard, "settled", p.Prefix) }

// States are the keys of a partition between which a notice moves with its state, and its
// record: shadow, records, dead and settled. Most scripts begin with them.
func (s Space) States(p Partition) []string {
	return []string{s.Shadow(p), s.Records(p), s.Dead(p), s.Settled(p)}
}

// Tombstones is the zset of a shard's buckets of tombstones by the time they end.
func (s Space) Tombstones(shard int) string { return s.Base(shard) + "tombstones" }

// Bucket is one bucket of tombstones: a hash by [Digest].
func (s Space) Bucket(shard int, end string) string { return s.Tombstones(shard) + ":" + end }

// Seals is the hash of the wrapped keys that seal the notices of a shard: see package vault.
func (s Space) Seals(shard int) string { return s.Base(shard) + "seals" }

// WithRecords returns the hashes and lists of a shard that have records of notices, definitions of recurring ones, or entries with parts
// of records.
func (s Space) WithRecords(shard int, prefixes []string) (hashes, lists []string) {
	for _, p := range prefixes {
		at := Partition{p, shard}
		hashes = append(hashes, s.Recurring(at), s.Records(at)) // in this order, because definitions store records
	}

	// A notice that leaves for one of these while others are read is found there.
	return append(hashes, s.Moving(shard)), []string{s.Ended(shard), s.Deaths(shard)}
}

// SealsCleaned exists while no instance needs to look for unused keys of sealed notices.
func (s Space) SealsCleaned() string { return s.Base(0) + "sealscleaned" }

// Trimmed is the hash of how far NOTIFIER_RETAIN has trimmed each prefix of a shard.
func (s Space) Trimmed(shard int) string { return s.Base(shard) + "trimmed" }

// ClaimPrefix is the name of a claim before the notice key.
func (s Space) ClaimPrefix(shard int) string { return s.tagged(shard, "claim", "") }

// Claim is the claim of one notice.
func (s Space) Claim(key string) string { return s.ClaimPrefix(s.Shard(key)) + key }

// Meta is the hash with layout version and shard count.
func (s Space) Meta() string { return s.Namespace + ":meta" }

// Routes is the set of prefixes that any configuration ever had.
func (s Space) Routes() string { return s.Namespace + ":routes" }

// Paused is the set of paused prefixes.
func (s Space) Paused() string { return s.Namespace + ":paused" }

// Key is the service's own key: see package wire.
func (s Space) Key() string { return s.Namespace + ":key" }

// Clients is the hash of the numbers that stand for clients in records, by name.
func (s Space) Clients() string { return s.Namespace + ":clients" }

// Health is the hash of the health of a route's receivers: see package receivers.
func (s Space) Health(prefix string) string { return s.Namespace + ":{health}:" + prefix }

// HealthDay is the hash of what these receivers answered within a day. It has the slot of Health.
func (s Space) HealthDay(prefix string) string { return s.Namespace + ":{health}day:" + prefix }

// HealthDown is the hash of the outages of which the route's hook is told. It has the slot of Health.
func (s Space) HealthDown(prefix string) string { return s.Namespace + ":{health}down:" + prefix }

// HealthRules is the hash of the health of receivers as PAUSE_AFTER judges it. It has the slot of Health.
func (s Space) HealthRules(prefix string) string { return s.Namespace + ":{health}rules:" + prefix }

// HealthCauses is the hash of the causes of which a hook's team is told. It has the slot of Health.
func (s Space) HealthCauses(hook string) string { return s.Namespace + ":{health}causes:" + hook }

// The keys of the audit share the tag {audit}, so that in a cluster one node has all of
// them.

// FormerClients takes the place of the client's name in the audit's streams of clients
// that left the configuration. No client can have this name.
const FormerClients = "-"

// Audit is the stream of the audit entries of a client and class: see package audit.
func (s Space) Audit(client, class string) string { return s.audit(client + ":" + class) }

// AuditRepeats is the hash of the calls that are counted in an entry of that stream: by
// the entry's id their number, and by a digest of a call the entry that counts it.
func (s Space) AuditRepeats(client, class string) string {
	return s.audit(client + ":" + class + ":repeats")
}

// AuditIncoming is a stream whose entries are being merged into that of a client and
// class; no two processes use the same mark.
func (s Space) AuditIncoming(client, class, mark string) string {
	return s.audit(client + ":" + class + ":incoming:" + mark)
}

// AuditClients is the zset of clients that may have entries, by the time an instance last
// had each in its configuration.
func (s Space) AuditClients() string { return s.audit("clients") }

// AuditLast is the id of the newest entry of all streams of the audit.
func (s Space) AuditLast() string { return s.audit("last") }

// AuditSettings is the hash of the digests of the routes' settings, and of their last changes.
func (s Space) AuditSettings() string { return s.audit("settings") }

func (s Space) audit(rest string) string { return s.Namespace + ":{audit}:" + rest }

// The keys of the pages' sessions and links share the tag {pages}, so that in a cluster
// one node has both.

// ClientSessions is the zset of a client's sessions by the time they end.
func (s Space) ClientSessions(client string) string { return s.pages("sessions:client:" + client) }

// LinkSessions is the zset of a link's sessions by the time they end.
func (s Space) LinkSessions(link string) string { return s.pages("sessions:link:" + link) }

// Link exists until a link ends. Its value is empty once the link has been revoked.
func (s Space) Link(id string) string { return s.pages("link:" + id) }

// ClientLinks is the zset of a client's links by the time they end, without revoked ones.
func (s Space) ClientLinks(client string) string { return s.pages("links:client:" + client) }

// LinkResends is the list of the times of the last resends by a link's visitors.
func (s Space) LinkResends(link string) string { return s.pages("resends:link:" + link) }

func (s Space) pages(rest string) string { return s.Namespace + ":{pages}:" + rest }

// Moving is the hash of notices that are on their way from a former shard to another:
// see package move.
func (s Space) Moving(shard int) string { return s.Base(shard) + "moving" }

// Elsewhere is the hash of notices of a shard that are on the other side of a migration,
// each with its score in the shadow as it left: see package move.
func (s Space) Elsewhere(shard int) string { return s.Base(shard) + "elsewhere" }

// Crossed is the set of notices of a shard that a migration has moved to the other side,
// within the last hour.
func (s Space) Crossed(shard int) string { return s.Base(shard) + "crossed" }

// Resharding is the lock of a running reshard or migration.
func (s Space) Resharding() string { return s.Namespace + ":resharding" }

// Layout is a shard's copy of Meta, and the state of all that scripts compare.
func (s Space) Layout(shard int) string { return s.Base(shard) + "layout" }

// ShardRoutes is a shard's copy of Routes.
func (s Space) ShardRoutes(shard int) string { return s.Base(shard) + "routes" }

// Confirmed is the key that is written before the confirmation of a shard's writes: see package
// store.
func (s Space) Confirmed(shard int) string { return s.Base(shard) + "confirmed" }

// Serving is the zset of which instance has a route for which prefix, by the time
// it last said so.
func (s Space) Serving() string { return s.Base(0) + "serving" }

// Handled is the hash of when a worker last reported that it handles a recorded prefix.
func (s Space) Handled() string { return s.Base(0) + "handled" }

// Ended is the outbox: the list of finalized notices that the history has not confirmed.
func (s Space) Ended(shard int) string { return s.Base(shard) + "ended" }

// Deaths is the outbox of hooks: the list of dead letters whose hook's notice is not scheduled yet.
func (s Space) Deaths(shard int) string { return s.Base(shard) + "deaths" }

// History is the hash with the instance of the last relay to the history, its time, and the number
// of entries dropped by the bound.
func (s Space) History(shard int) string { return s.Base(shard) + "history" }

// Replay is the hash of a replay's progress in a shard, and of the results of its items: see
// package jobs.
func (s Space) Replay(shard int, mark string) string { return s.Base(shard) + "replay:" + mark }

// Job is the hash of a job's count of changed notices in a shard: see package jobs. amend.lua names it, too.
func (s Space) Job(shard int, id string) string { return s.Base(shard) + "job:" + id }

// Redirecting is the hash of the rules of running redirects in a shard, by id. Claims return it.
func (s Space) Redirecting(shard int) string { return s.Base(shard) + "redirecting" }

// Jobs is the hash of the jobs with their progress, by id.
func (s Space) Jobs() string { return s.Namespace + ":{jobs}" }

// JobLeases is the hash of the leases of the drivers, by id of their job. It has the slot of Jobs.
func (s Space) JobLeases() string { return s.Namespace + ":{jobs}leases" }

// EventProbe is a key that expires so that its event can be observed; tag, if not
// empty, is the hash tag that decides the slot.
func (s Space) EventProbe(tag, id string) string {
	if tag == "" {
		return s.Namespace + ":probe:" + id
	}
	return s.Namespace + ":probe:{" + tag + "}:" + id
}

// Pushed is the marker of a push into a list or stream, in the same slot.
func (s Space) Pushed(target, mark string) string {
	return s.Namespace + ":pushed:{" + slotTag(target) + "}:" + mark
}

// ShardPaused is a shard's copy of Paused.
func (s Space) ShardPaused(shard int) string { return s.Base(shard) + "paused" }

// Receivers is the hash of paused receivers and of limits of receivers: see package receivers.
func (s Space) Receivers() string { return s.Namespace + ":receivers" }

// ShardReceivers is a shard's copy of Receivers.
func (s Space) ShardReceivers(shard int) string { return s.Base(shard) + "receivers" }

// Held is the zset, with score 0, of notices that are held because their receiver is paused:
// "<pause> <key>".
func (s Space) Held(p Partition) string { return s.tagged(p.Shard, "held", p.Prefix) }

// Holds is the hash of these notices by key: "<score> <pause>", with the score that the hold wrote.
func (s Space) Holds(p Partition) string { return s.tagged(p.Shard, "holds", p.Prefix) }

// Expiring is the zset of notices that expire, by when the service looks at each: lua/lib/expiring.lua of package store.
func (s Space) Expiring(p Partition) string { return s.tagged(p.Shard, "expiring", p.Prefix) }

// Recurring is the hash of the definitions of recurring notices, each with its state, by key. The state of a deleted definition stays.
func (s Space) Recurring(p Partition) string { return s.tagged(p.Shard, "recurring", p.Prefix) }

// Definitions is the zset, with score 0, of the keys in Recurring that have a definition.
func (s Space) Definitions(p Partition) string { return s.tagged(p.Shard, "definitions", p.Prefix) }

// Ticks is the zset of the definitions that have a next tick and are not paused, by when to store its occurrence.
func (s Space) Ticks(p Partition) string { return s.tagged(p.Shard, "ticks", p.Prefix) }

// Ordered is the set of ordered prefixes, each with a second member with a final ! if its dead letters
// hold back their successors.
func (s Space) Ordered() string { return s.Namespace + ":ordered" }

// ShardOrdered is a shard's copy of Ordered.
func (s Space) ShardOrdered(shard int) string { return s.Base(shard) + "ordered" }

// Order is the hash of the heads of a partition's sequences, by order key: see package store.
func (s Space) Order(p Partition) string { return s.tagged(p.Shard, "order", p.Prefix) }

// Successors is the zset of the notices that are not the head of their sequence.
func (s Space) Successors(p Partition) string { return s.tagged(p.Shard, "successors", p.Prefix) }

// Positions is the hash of the successors' positions by notice key.
func (s Space) Positions(p Partition) string { return s.tagged(p.Shard, "positions", p.Prefix) }

// Marker is the token and key of the notice in flight for which a sequence waits, if that is not the head.
func (s Space) Marker(p Partition, sequence string) string {
	return s.tagged(p.Shard, "sequence", p.Prefix+":"+sequence)
}

// Waiting is the zset of notices that wait for another one of their sequence, by the time their wait
// began.
func (s Space) Waiting(p Partition) string { return s.tagged(p.Shard, "waiting", p.Prefix) }

// Wake is the pub/sub channel for notices that are due before the head of a shard. All databases of a server share the
// channels of pub/sub. A wake of the same namespace in another database only causes a needless look.
func (s Space) Wake() string { return s.Namespace + ":wake" }

// Of the fleet: who lives. Its keys and channels share the tag {fleet}, so that
// in a cluster they lie at one node.

// FleetSigns is the zset of instances by their last sign of life.
func (s Space) FleetSigns() string { return s.fleet("signs") }

// FleetAbout is the hash of the instances' descriptions.
func (s Space) FleetAbout() string { return s.fleet("about") }

// FleetEnded is the zset of instances that left or were counted out, by time.
func (s Space) FleetEnded() string { return s.fleet("ended") }

// FleetMinutes is the stream of what instances have done, minute by minute.
func (s Space) FleetMinutes() string { return s.fleet("minutes") }

// FleetChannels begins the names of the fleet's pub/sub channels. It has the number of the database, because all
// databases of a server share the channels: production and staging may have the same namespace in two databases.
func (s Space) FleetChannels(db int) string { return s.fleet(strconv.Itoa(db) + ":") }

// FleetChannel is the pub/sub channel that all instances hear.
func (s Space) FleetChannel(db int) string { return s.FleetChannels(db) + "all" }

// InstanceChannel is the pub/sub channel of one instance. A subscriber on it proves that the
// instance has a connection.
func (s Space) InstanceChannel(db int, id string) string {
	return s.FleetChannels(db) + "instance:" + id
}

// Taps is the zset of the open taps by the time they end: see package tracing. The heartbeat's
// script reads it.
func (s Space) Taps() string { return s.fleet("taps") }

// TapChannel is the pub/sub channel of the copies of attempts.
func (s Space) TapChannel(db int) string { return s.FleetChannels(db) + "tap" }

// ReceiversVersion is the version of Receivers. The heartbeat's script reads it.
func (s Space) ReceiversVersion() string { return s.fleet("receivers") }

func (s Space) fleet(kind string) string { return s.Namespace + ":{fleet}:" + kind }

// Expired is the channel of expired keys of database db.
func Expired(db int) string { return "__keyevent@" + strconv.Itoa(db) + "__:expired" }

// Keyspace is the pattern of all events on the keys under a route's prefix.
func Keyspace(db int, prefix string) string {
	return "__keyspace@" + strconv.Itoa(db) + "__:" + prefix + ":*"
}

// KeyspaceKey returns the key of a message on a Keyspace channel; ok is false for any other
// channel.
func KeyspaceKey(channel string) (key string, ok bool) {
	rest, found := strings.CutPrefix(channel, "__keyspace@")
	if !found {
		return "", false
	}

	_, key, ok = strings.Cut(rest, "__:")
	return key, ok
}

// wordFor begins a message on the channel of wakes.
const wordFor = "for "

// ForText is a message that the next n events of notices under a prefix are for the
// instance of an id.
func ForText(id string, n int, prefix string) string {
	return wordFor + id + " " + strconv.Itoa(n) + " " + prefix
}

// ParseFor is the inverse of ForText.
func ParseFor(text string) (id string, n int, prefix string, ok bool) {
	rest, ok := strings.CutPrefix(text, wordFor)
	id, rest, some := strings.Cut(rest, " ")
	count, prefix, more := strings.Cut(rest, " ")
	n, err := strconv.Atoi(count)
	return id, n, prefix, ok && some && more && err == nil && n > 0
}
