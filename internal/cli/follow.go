package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"notifier/client"
)

// settling is how long after a later one an ending may yet be written: several
// shards, and instances, bring theirs side by side.
const settling = 2 * time.Minute

// follower prints endings as they are written, each once.
type follower struct {
	*command
	c       *client.Client
	q       client.HistoryQuery
	since   time.Time
	seen    map[endingID]bool
	columns columns
	told    bool // that the service does not answer
}

// endingID is what tells endings apart.
type endingID struct {
	id     string
	ending int
	at     time.Time
}

// followHistory prints what has ended since the time that is asked for, or nothing
// of it, and what is written after that until ctx ends.
func (a *command) followHistory(ctx context.Context, q client.HistoryQuery) error {
	o, err := a.apiOptions()
	if err != nil {
		return err
	}
	o.Retries = -1 // it asks again anyway
	c, err := client.New(o)
	if err != nil {
		return err
	}
	defer c.Close()
	f := &follower{command: a, c: c, q: q, since: q.Since, seen: map[endingID]bool{}}
	for quiet := q.Since.IsZero(); ; {
		err := f.start(ctx, quiet)
		var fresh []client.Ending
		if err == nil {
			fresh, err = f.fresh(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !passing(err):
			return err
		case err != nil:
			if !f.told {
				a.complain("notifier: %s; it is asked again until it answers", a.explain(err))
			}
			f.told = true
		default:
			if f.told {
				a.complain("notifier: it answers again")
			}
			f.told = false
			if !quiet {
				if err := f.say(fresh); err != nil {
					return err
				}
			}
			quiet = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// passing reports whether an error is one of now: a service that is started anew
// does not end who follows it.
func passing(err error) bool {
	var p *client.Problem
	return !errors.As(err, &p) || p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests
}

// start finds where to begin when nobody said: at the last ending that there is,
// by whose clock endings are told, which may not be this machine's.
func (f *follower) start(ctx context.Context, quiet bool) error {
	if !quiet || !f.since.IsZero() {
		return nil
	}
	if f.q.Text != "" { // which is looked for within a window only
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

// fresh are the endings since then that were not seen yet, the oldest first.
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
