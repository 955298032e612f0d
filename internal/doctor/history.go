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
	// entryBytes is the size of a finalized notice with a body of 200 bytes in the outbox, measured in docs/history.md.
	entryBytes = 500
	// relayOverdue is the time without any relay to the history after which a finding says so.
	relayOverdue = 5 * time.Minute
	// relayLate is the age of the oldest outbox entry above which the database is in trouble or the relay is catching up.
	relayLate = 30 * time.Second
)

// history checks the database of NOTIFIER_HISTORY_URL and the outbox.
func (r *run) history(ctx context.Context) {
	const check = "history"
	s := store.New(store.Options{Client: r.conn.Commander, Space: r.space, Cluster: r.conn.Masters != nil})
	left, lost, seen, on := r.outboxState(ctx, s)
	oldest := r.oldest(ctx, s)
	now, err := s.Wire().Now(ctx)
	if r.heard(err) != nil {
		return
	}

	if len(r.cfg.History.URL) == 0 {
		switch {
		case on && now.Sub(seen) > relayOverdue:
			r.add(Finding{Check: check, Severity: Warning,
				Message: fmt.Sprintf("the outbox of the history has not been relayed to a database since %s; waiting: %s",
					notice.Stamp(seen), notice.Count(left, "ending")),
				Remedy: "start an instance with NOTIFIER_HISTORY_URL, or end the history as in docs/history.md (Instances of different " +
					"configurations)"})
		case on:
			r.add(Finding{Check: check, Severity: Info, Message: "other instances write a history; this environment has no NOTIFIER_HISTORY_URL",
				Remedy: "set it for all instances, so that each can write and read the history"})
		}
		return
	}

	f := Finding{Check: check, Severity: OK, Message: "waiting for the database: " + notice.Count(left, "finalized notice")}
	if lost > 0 {
		f.Message += fmt.Sprintf(", %d dropped in total", lost)
	}

	if waits := now.Sub(oldest).Round(time.Second); !oldest.IsZero() && waits > relayLate {
		f.Severity, f.Message = Warning, f.Message+fmt.Sprintf(", and the oldest has waited %s: the database is unavailable or too slow",
			waits)
		f.Remedy = "see the database error in the instances' log: a full disk, rights, a lock; nothing " +
			"is lost until the bound"
	}

	bound := int64(r.cfg.History.Backlog)
	full := fmt.Sprintf("above %d the oldest are not recorded (NOTIFIER_HISTORY_BACKLOG)", bound)
	if who, why := r.unwritten(ctx); why != "" && left > 0 {
		f.Severity, f.Message = Error, f.Message+fmt.Sprintf("; %s cannot write to it: %s", who, why)
		f.Remedy = "repair the database; " + full
	} else if left > bound/2 {
		f.Severity, f.Remedy = Error, full+"; see the instances' log for the database's error"
	}

	r.add(f)
	r.historyDatabase(ctx)
	r.historyMemory(ctx, s)
}

// unwritten returns an instance that cannot write to the history, and its error.
func (r *run) unwritten(ctx context.Context) (who, why string) {
	list, err := fleet.List(ctx, r.heartbeats())
	if err != nil {
		return "", "" // the check of the instances reports that
	}

	for _, x := range list {
		if f, ok := x.ReadFigures(); ok && f.Unwritten != "" && x.State != fleet.Unresponsive {
			return spell(x), f.Unwritten
		}
	}

	return "", ""
}

// outboxState returns the state of the outbox: waiting entries, dropped entries, the time of the last relay, and whether
// any shard has an outbox.
func (r *run) outboxState(ctx context.Context, s *store.Store) (left, lost int64, seen time.Time, on bool) {
	for shard := range r.space.Places() {
		most, err := r.conn.HGet(ctx, r.space.Layout(shard), "history").Result()
		if r.heard(err) != nil && !errors.Is(err, redis.Nil) {
			continue
		}

		on = on || most != "" && most != "0"
		n, _, gone, err := history.Outbox{Wire: s.Wire()}.Backlog(ctx, shard)
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

// oldest returns the time of the oldest waiting entry; zero if none waits.
func (r *run) oldest(ctx context.Context, s *store.Store) (at time.Time) {
	for shard := range r.space.Places() {
		_, text, _, err := history.Outbox{Wire: s.Wire()}.Backlog(ctx, shard)
		if err != nil || text == "" {
			continue
		}

		if e, err := store.ReadEntry(text); err == nil && (at.IsZero() || e.At.Before(at)) {
			at = e.At
		}
	}
	return at
}

// historyDatabase checks the database and leaves nothing in it.
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
			Remedy: "start the database, or correct NOTIFIER_HISTORY_URL; until then finalized notices wait in Redis"})
	case has > history.Newest:
		r.add(Finding{Check: check, Severity: Error,
			Message: fmt.Sprintf("the schema has version %d, this program supports %d and does not use it", has, history.Newest),
			Remedy:  "run the version of the program that created it, or a newer one"})
	case has == 0:
		r.add(Finding{Check: check, Severity: Info,
			Message: "the database answers and has no schema yet; the first instance creates it"})
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
			Message: fmt.Sprintf("SQLite is a file of one machine, and there are %d instances; each machine has a separate file "+
				"with a part of the history",
				len(list)), Remedy: "if they run on several machines, use PostgreSQL for all"})
	}
}

// historyWrites tries a write and rolls it back.
func (r *run) historyWrites(ctx context.Context, d *history.DB) {
	if err := d.Try(ctx); err != nil {
		r.add(Finding{Check: "history", Severity: Error, Message: "the database refuses writes: " + err.Error(),
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
		return // the first instance that writes becomes the owner
	}

	mine := history.Owner{Namespace: r.cfg.Namespace, ID: id}
	if mine == has {
		return
	}

	r.add(Finding{Check: check, Severity: Error,
		Message: fmt.Sprintf("the history belongs to namespace %q with the data identity %s, and this service is namespace %q with %s; it "+
			"writes and reads nothing there",
			has.Namespace, has.ID, mine.Namespace, cmp.Or(id, "none yet")),
		Remedy: "give this service a separate database or schema in NOTIFIER_HISTORY_URL; if its data replaced the other data: notifier " +
			"history claim --from " + has.ID})
}

// historyMemory compares the outbox's bound with Redis's memory.
func (r *run) historyMemory(ctx context.Context, s *store.Store) {
	_, most, err := history.Outbox{Wire: s.Wire()}.Memory(ctx, 0)
	if err != nil || most == 0 {
		return // the checks of the node report that
	}

	if needs := int64(r.cfg.History.Backlog) / int64(r.space.Places()) * entryBytes; needs > most/2 {
		r.add(Finding{Check: "history", Severity: Warning,
			Message: fmt.Sprintf("NOTIFIER_HISTORY_BACKLOG=%d notices take about %d MB with bodies of 200 bytes, and maxmemory is %d MB: "+
				"the oldest are dropped before that, when a fifth of the memory is left", r.cfg.History.Backlog, needs>>20, most>>20),
			Remedy: fmt.Sprintf("give Redis more memory, or set NOTIFIER_HISTORY_BACKLOG=%d", most/2/entryBytes*int64(r.space.Places()))})
	}
}
