package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"notifier/client"
)

// settling is how much later than a newer entry an older one may be written, because shards and instances write to the
// history in parallel.
const settling = 2 * time.Minute

// follower prints history entries when they are written, each once.
type follower struct {
	*command
	c       *client.Client
	q       client.HistoryQuery
	since   time.Time
	seen    map[endingID]bool
	columns columns
	failing bool // the service does not answer, and that was reported
}

// endingID identifies a history entry.
type endingID struct {
	id     string
	ending int
	at     time.Time
}

// followHistory prints the entries since the given time, if any, and then new ones until ctx ends.
func (a *command) followHistory(ctx context.Context, q client.HistoryQuery) error {
	o, err := a.apiOptions()
	if err != nil {
		return err
	}

	o.Retries = -1 // the loop retries
	c, err := client.New(o)
	if err != nil {
		return err
	}

	defer c.Close()
	f := &follower{command: a, c: c, q: q, since: q.Since, seen: map[endingID]bool{}}
	for quiet := q.Since.IsZero(); ; {
		fresh, err := f.read(ctx, quiet)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !passing(err):
			return err
		}

		f.report(err)

		if err == nil && !quiet {
			if err := f.say(fresh); err != nil {
				return err
			}
		}

		quiet = quiet && err != nil

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// read returns the new entries. quiet means that no entry was read before.
func (f *follower) read(ctx context.Context, quiet bool) ([]client.Ending, error) {
	if err := f.start(ctx, quiet); err != nil {
		return nil, err
	}
	return f.fresh(ctx)
}

// report prints when the service stops answering, and when it answers again.
func (f *follower) report(err error) {
	if failed := err != nil; failed != f.failing {
		f.failing = failed
		if failed {
			f.complain("notifier: %s; retrying", f.explain(err))
		} else {
			f.complain("notifier: the service answers again")
		}
	}
}

// passing reports whether an error is temporary. A restart of the service does not end --follow.
func passing(err error) bool {
	var p *client.Problem
	return !errors.As(err, &p) || p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests
}

// start finds where to begin if no time was given: at the newest entry, because entries have the time of Redis's clock,
// which may differ from this machine's.
func (f *follower) start(ctx context.Context, quiet bool) error {
	if !quiet || !f.since.IsZero() {
		return nil
	}

	if f.q.Text != "" { // a search for text needs a window
		f.since = time.Now().Add(-settling)
		return nil
	}

	q := f.q
	q.Limit = 1
	p, err := f.c.History(ctx, q)
	if err == nil && len(p.Items) > 0 {
		f.since = p.Items[0].EndedAt.Add(-settling)
	}

	return err
}

// fresh returns the new entries since then, oldest first.
func (f *follower) fresh(ctx context.Context) ([]client.Ending, error) {
	var list []client.Ending
	q := f.q
	q.Since = f.since
	for {
		p, err := f.c.History(ctx, q)
		if err != nil {
			return nil, err
		}

		list = append(list, p.Items...)
		if q.Cursor = p.Cursor; q.Cursor == "" {
			break
		}
	}

	list = slices.DeleteFunc(list, func(e client.Ending) bool {
		who := endingID{e.ID, e.Ending, e.EndedAt}
		known := f.seen[who]
		f.seen[who] = true
		return known
	})
	for who := range f.seen {
		if late := who.at.Add(-settling); late.After(f.since) {
			f.since = late
		}
	}

	for who := range f.seen {
		if who.at.Before(f.since) {
			delete(f.seen, who)
		}
	}

	slices.Reverse(list)
	return list, nil
}

func (f *follower) say(list []client.Ending) error {
	if f.json {
		for i := range list {
			if err := f.sayLine(list[i].JSON, list[i].Body); err != nil {
				return err
			}
		}
		return nil
	}

	if len(list) == 0 {
		return nil
	}

	var rows [][]cell
	if len(f.columns.widths) == 0 {
		rows = append(rows, endingsHead())
	}

	for i := range list {
		rows = append(rows, f.ended(&list[i]))
	}

	f.columns.print(f.screen, true, rows...)
	return nil
}
