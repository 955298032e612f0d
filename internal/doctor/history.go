package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/store"
)

const (
	// perEnding is what an ending takes in Redis that has a body of 200 bytes:
	// docs/history.md says how it was measured.
	perEnding = 500
	// unseen is how long nobody need bring endings to the history before that is
	// worth a word.
	unseen = 5 * time.Minute
	// behind is how long an ending waits for the database only if there is trouble, or
	// if much is being caught up.
	behind = 30 * time.Second
)

// history examines the database of NOTIFIER_HISTORY_URL, and what waits for it.
func (r *run) history(ctx context.Context) {
	const check = "history"
	s := store.New(store.Options{Client: r.conn.UniversalClient, Space: r.space, Cluster: r.conn.Masters != nil})
	left, lost, seen, on := r.handedOver(ctx, s)
	oldest := r.oldest(ctx, s)
	if len(r.cfg.History.URL) == 0 {
		switch {
		case on && time.Since(seen) > unseen:
			r.add(Finding{Check: check, Severity: Warning,
				Message: fmt.Sprintf("what ends is handed over to a history, and nobody has brought it to a database since %s; waiting: %s",
					notice.Stamp(seen), notice.Count(left, "ending")),
				Remedy: "start an instance with NOTIFIER_HISTORY_URL; or end the history as docs/history.md says (Instances of different " +
					"configurations)"})
		case on:
			r.add(Finding{Check: check, Severity: Info, Message: "others keep a history; this environment has no NOTIFIER_HISTORY_URL",
				Remedy: "give it to all instances, so that each of them can bring endings there and find them"})
		}
		return
	}
	f := Finding{Check: check, Severity: OK, Message: "waiting for the database: " + notice.Count(left, "ending")}
	if lost > 0 {
		f.Message += fmt.Sprintf(", %d were dropped since ever", lost)
	}
	if waits := time.Since(oldest).Round(time.Second); !oldest.IsZero() && waits > behind {
		f.Severity, f.Message = Warning, f.Message+fmt.Sprintf(", and the oldest has waited %s: the database takes no rows, or not fast enough",
			waits)
		f.Remedy = "see what the log of the instances says of it (endings do not get into the history): a full disk, rights, a lock; nothing " +
			"is lost meanwhile"
	}
	if bound := int64(r.cfg.History.Backlog); left > bound/2 {
		f.Severity, f.Remedy = Error, fmt.Sprintf("at %d the oldest get no row: see the log of the instances for what the database says", bound)
	}
	r.add(f)
	r.historyDatabase(ctx)
	r.historyMemory(ctx, s)
}

// handedOver is how the hand-over stands: what waits, what was dropped, when
// somebody last brought something, and whether there is any.
func (r *run) handedOver(ctx context.Context, s *store.Store) (left, lost int64, seen time.Time, on bool) {
	for shard := range r.space.Places() {
		most, err := r.conn.HGet(ctx, r.space.Layout(shard), "history").Result()
		if r.heard(err) != nil && !errors.Is(err, redis.Nil) {
			continue
		}
		on = on || most != "" && most != "0"
		n, _, gone, err := s.Backlog(ctx, shard)
		if err != nil {
			continue
		}
		left, lost = left+n, lost+gone
		if ms, err := strconv.ParseInt(r.conn.HGet(ctx, r.space.History(shard), "seen").Val(), 10, 64); err == nil {
			if at := time.UnixMilli(ms); at.After(seen) {
				seen = at
			}
		}
	}
	return left, lost, seen, on
}

// oldest is when the oldest ending was that waits; zero = none does.
func (r *run) oldest(ctx context.Context, s *store.Store) (at time.Time) {
	for shard := range r.space.Places() {
		_, text, _, err := s.Backlog(ctx, shard)
		if err != nil || text == "" {
			continue
		}
		if e, err := store.ReadEnded(text); err == nil && (at.IsZero() || e.At.Before(at)) {
			at = e.At
		}
	}
	return at
}

// historyDatabase checks the database. It leaves nothing there.
func (r *run) historyDatabase(ctx context.Context) {
	const check = "history"
	d, err := history.Open(history.Options{URL: string(r.cfg.History.URL)})
	if err != nil {
		r.add(Finding{Check: check, Severity: Error, Message: err.Error(), Remedy: "correct NOTIFIER_HISTORY_URL"})
		return
	}
	defer func() { _ = d.Close() }() // nothing is pending
	has, err := d.Version(ctx)
	switch {
	case err != nil:
		r.add(Finding{Check: check, Severity: Error, Message: err.Error(),
			Remedy: "start the database, or correct NOTIFIER_HISTORY_URL; until then what ends waits in Redis"})
	case has > history.Newest:
		r.add(Finding{Check: check, Severity: Error,
			Message: fmt.Sprintf("its schema has version %d, this program knows %d: it writes and reads nothing there", has, history.Newest),
			Remedy:  "run the version of the program that wrote it, or one after it"})
	case has == 0:
		r.add(Finding{Check: check, Severity: Info,
			Message: "the database answers and has no schema yet: the first instance that starts makes it"})
	default:
		r.add(Finding{Check: check, Severity: OK, Message: fmt.Sprintf("the database answers, its schema has version %d", has)})
	}
	if err == nil && has <= history.Newest {
		r.historyOwner(ctx, d)
		r.historyWrites(ctx, d)
	}
	if !d.SQLite() {
		return
	}
	list, err := fleet.List(ctx, r.heartbeats())
	if err == nil && len(list) > 1 {
		r.add(Finding{Check: check, Severity: Warning,
			Message: fmt.Sprintf("SQLite is a file of one machine, and there are %d instances: those of other machines each have a file of their "+
				"own, with some of the endings",
				len(list)), Remedy: "if they run on several machines, use PostgreSQL for all"})
	}
}

// historyWrites tries to write, and rolls that back.
func (r *run) historyWrites(ctx context.Context, d *history.DB) {
	if err := d.Try(ctx); err != nil {
		r.add(Finding{Check: "history", Severity: Error, Message: "the database takes no writes: " + err.Error(),
			Remedy: "give the user of NOTIFIER_HISTORY_URL the rights that docs/history.md lists (Rights); for SQLite, a directory that the " +
				"service may write to"})
	}
}

// historyOwner checks that the history belongs to the data in Redis.
func (r *run) historyOwner(ctx context.Context, d *history.DB) {
	const check = "history"
	has, ok, err := d.Owner(ctx)
	if err != nil {
		r.add(Finding{Check: check, Severity: Error, Message: err.Error(), Remedy: "see docs/history.md (Rights)"})
		return
	}
	id, err := r.conn.HGet(ctx, r.space.Meta(), "id").Result()
	if !ok || r.heard(err) != nil && !errors.Is(err, redis.Nil) {
		return // the first instance that writes takes it
	}
	mine := history.Owner{Namespace: r.cfg.Namespace, ID: id}
	if mine == has {
		return
	}
	r.add(Finding{Check: check, Severity: Error,
		Message: fmt.Sprintf("the history belongs to namespace %q with the data identity %s, and this service is namespace %q with %s: it "+
			"writes and reads nothing there",
			has.Namespace, has.ID, mine.Namespace, cmp.Or(id, "none yet")),
		Remedy: "give this service a separate database or schema in NOTIFIER_HISTORY_URL; if its data replaced the other data: notifier " +
			"history claim --from " + has.ID})
}

// historyMemory compares the bound of what waits with the memory there is.
func (r *run) historyMemory(ctx context.Context, s *store.Store) {
	_, most, err := s.Memory(ctx, 0)
	if err != nil || most == 0 {
		return // the checks of the node say so
	}
	if needs := int64(r.cfg.History.Backlog) / int64(r.space.Places()) * perEnding; needs > most/2 {
		r.add(Finding{Check: "history", Severity: Warning,
			Message: fmt.Sprintf("NOTIFIER_HISTORY_BACKLOG=%d endings take about %d MB at bodies of 200 bytes, and maxmemory is %d MB: "+
				"the oldest are dropped before the bound, when a fifth of the memory is left", r.cfg.History.Backlog, needs>>20, most>>20),
			Remedy: fmt.Sprintf("give Redis more memory, or set NOTIFIER_HISTORY_BACKLOG=%d", most/2/perEnding*int64(r.space.Places()))})
	}
}
