package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/recur"
	"notifier/internal/store"
)

// Recurrer reads and changes the definitions of recurring notices. Calls on a definition that does not exist return
// store.ErrNotDefined.
type Recurrer interface {
	// Check returns all faults of a definition. The error is store.ErrUnrouted if no route covers its key.
	Check(ctx context.Context, d *recur.Definition) ([]recur.Fault, error)
	// Put stores a definition, in place of the one of the same key.
	Put(ctx context.Context, d recur.Definition) (x recur.Recurrence, created bool, err error)
	Delete(ctx context.Context, key string) error
	Get(ctx context.Context, key string) (recur.Recurrence, error)
	// List returns up to n definitions under a prefix ("" = all) in the order of their keys, those after the key after.
	List(ctx context.Context, prefix, after string, n int) (list []recur.Recurrence, more bool, err error)
	Pause(ctx context.Context, key string) (recur.Recurrence, error)
	Resume(ctx context.Context, key string) (recur.Recurrence, error)
	// Forgotten returns when the subject of a recurring notice was forgotten; zero = it was not.
	Forgotten(ctx context.Context, x *recur.Recurrence) time.Time
	// RunNow stores a notice that is due now, besides those for ticks.
	RunNow(ctx context.Context, key string) (store.Reply, error)
}

const recurrencesPerPage = 50

// recurrenceRow is a recurring notice in the list.
type recurrenceRow struct {
	Key, Path                  string
	Ticks                      text
	State                      text
	Level                      level
	Next                       stamp
	Later                      []stamp
	Last                       string // the key of the last notice for a tick
	LastTick                   stamp
	Sealed                     text // that its content is sealed, or forgotten; nil = neither
	Stored, Missed, Overlapped int64
	Paused, May                bool
	CSRF                       string
}

type recurrencesPage struct {
	Rows []recurrenceRow
	More string // the address of the next page
	May  bool
}

// ticksText is the cron expression with its zone, or the interval.
func ticksText(s recur.Spec) text {
	if s.Every > 0 {
		return say("every %s", s.Every)
	}
	return plain(api.Ticks(s))
}

func (p *Pages) recurrenceRow(ctx context.Context, x *recur.Recurrence, v Visitor) recurrenceRow {
	row := recurrenceRow{Key: x.Key, Path: recurrencePath(x.Key), Ticks: ticksText(x.Spec), State: say("active"), Level: fine,
		Stored: int64(x.Stored), Missed: int64(x.State.Missed), Overlapped: int64(x.Overlapped), Paused: x.Paused,
		May: v.May(auth.Produce), CSRF: v.CSRF}
	next, err := x.Upcoming(p.now(), api.ShownTicks)
	switch {
	case err != nil: // the zone data of this machine lack the zone
		row.State, row.Level = say("unknown time zone"), wrong
	case len(next) == 0:
		row.State = say("no more ticks")
	default:
		row.Next = p.stamp(next[0])
		for _, t := range next[1:] {
			row.Later = append(row.Later, p.stamp(t))
		}
	}

	if x.Paused {
		row.State, row.Level = say("paused"), mind
	}

	if x.Content.Sealed != "" {
		row.Sealed = say("sealed")
		if at := p.o.Recurrences.Forgotten(ctx, x); !at.IsZero() {
			row.Sealed = say("forgotten on %s", p.stamp(at).UTC)
		}
	}

	if x.Last > 0 {
		row.Last, row.LastTick = recur.OccurrenceKey(x.Key, x.Last), p.stamp(x.LastAt())
	}

	return row
}

// errNoRecurrences is the failure of a service without recurring notices.
var errNoRecurrences = failure{http.StatusNotFound, say("This service has no recurring notices.")}

// errRecurrenceChanges is the failure of a change that others have prevented.
var errRecurrenceChanges = failure{http.StatusConflict,
	say("The recurring notice is being changed by others. Nothing was changed. Try again.")}

// showRecurrences serves the list of recurring notices.
func (p *Pages) showRecurrences(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if p.o.Recurrences == nil {
		return errNoRecurrences
	}

	place := []byte("recurrences\n" + v.Client + "\n" + v.scope())
	after, err := p.opened(r, place)
	if err != nil {
		return err
	}

	list, more, err := p.o.Recurrences.List(r.Context(), v.Prefix, after, recurrencesPerPage)
	if err != nil {
		return err
	}

	page := recurrencesPage{May: v.May(auth.Produce)}
	for i := range list {
		page.Rows = append(page.Rows, p.recurrenceRow(r.Context(), &list[i], v))
	}

	if more && len(list) > 0 {
		next, err := p.seal(r, list[len(list)-1].Key, place)
		if err != nil {
			return err
		}

		page.More = Root + "recurrences?" + url.Values{"cursor": {next}}.Encode()
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Recurrences"), Visitor: v, Content: recurrencesContent(page)})
}

// recurrenceChange is a change of a recurring notice that a button makes.
type recurrenceChange struct {
	action audit.Action
	// make makes the change, and returns the detail for the audit.
	make func(ctx context.Context, all Recurrer, key string) (detail string, err error)
	said string
}

// changeRecurrences adds the changes of recurring notices.
func (p *Pages) changeRecurrences() {
	for verb, c := range map[string]recurrenceChange{
		"pause": {audit.RecurPause, func(ctx context.Context, all Recurrer, key string) (string, error) {
			_, err := all.Pause(ctx, key)
			return "", err
		}, "recurrence-paused"},
		"resume": {audit.RecurResume, func(ctx context.Context, all Recurrer, key string) (string, error) {
			_, err := all.Resume(ctx, key)
			return "", err
		}, "recurrence-resumed"},
		"run": {audit.RecurRun, func(ctx context.Context, all Recurrer, key string) (string, error) {
			made, err := all.RunNow(ctx, key)
			if made.Notice == nil {
				return "", err
			}

			return made.Key, err
		}, "recurrence-run"},
		"delete": {audit.RecurDelete, func(ctx context.Context, all Recurrer, key string) (string, error) {
			return "", all.Delete(ctx, key)
		}, "recurrence-deleted"},
	} {
		p.change(auth.Produce, "POST /ui/recurrences/{key}/"+verb, p.changeRecurrence(c))
	}
}

// changeRecurrence changes a recurring notice. The key of another scope is answered like one without a definition.
func (p *Pages) changeRecurrence(c recurrenceChange) handler {
	return func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		key := r.PathValue("key")
		absent := failure{http.StatusNotFound, say("There is no such recurring notice.")}
		switch {
		case p.o.Recurrences == nil:
			return errNoRecurrences
		case recur.CheckKey(key) != nil || !v.Covers(key) || v.Narrow():
			return absent
		}

		detail, err := c.make(lasting(r), p.o.Recurrences, key)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnrouted) {
			return absent
		}

		p.note(r, v, audit.Entry{Action: c.action, Key: key, Detail: detail}, err)
		if errors.Is(err, store.ErrOtherState) {
			return errRecurrenceChanges
		}
		if err != nil {
			return err
		}

		return back(w, Root+"recurrences", url.Values{"said": {c.said}})
	}
}
