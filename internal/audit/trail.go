package audit

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"notifier/internal/auth"
)

// Keeper keeps entries.
type Keeper interface {
	// Audit appends an entry.
	Audit(ctx context.Context, e Entry) error
	// Audited reads at most limit entries, the newest first. Of a Range with a Client, it
	// may contain entries of others too.
	Audited(ctx context.Context, r Range, limit int) ([]Entry, error)
}

// Range is a part of the entries.
type Range struct {
	// Before is an entry's Place: entries after it are meant. Empty = from the newest on.
	Before string
	// Client, if not nil, is the client whose entries are meant.
	Client *string
	// Since and Until, if not zero, bound the time; Until is exclusive.
	Since, Until time.Time
}

// Trail writes entries and reads them for a caller. It may be used by many
// goroutines at once.
type Trail struct {
	keeper Keeper
	log    *zap.Logger
	opened openings
}

// NewTrail makes a Trail.
func NewTrail(k Keeper, log *zap.Logger) *Trail {
	return &Trail{keeper: k, log: log, opened: openings{now: time.Now, last: map[string]time.Time{}}}
}

// writeTimeout bounds how long a call waits for its entry.
const writeTimeout = time.Second

// Note logs an entry, with additional fields of the call, and stores it. The caller's context may
// have ended.
func (t *Trail) Note(ctx context.Context, e Entry, more ...zap.Field) {
	fields := []zap.Field{zap.String("action", string(e.Action)), zap.String("client", e.Client), zap.String("address", e.Address),
		zap.String("via", e.Via), zap.String("result", string(e.Result))}
	for name, v := range map[string]string{"key": e.Key, "prefix": e.Prefix, "route": e.Route, "detail": e.Detail} {
		if v != "" {
			fields = append(fields, zap.String(name, clip(v)))
		}
	}

	fields = append(fields, more...)
	t.log.Info("operator action", fields...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := t.keeper.Audit(ctx, e); err != nil {
		t.log.Warn("cannot write to the audit, this line has the entry", append(fields, zap.Error(err))...)
	}
}

// Query selects a page of entries.
type Query struct {
	Range
	// Prefix narrows to the keys under it, or to one key. Empty = all.
	Prefix string
	// Changes leaves out entries of the action Open.
	Changes bool
	Limit   int
}

// Page is one page of entries, newest first. It may have fewer entries than the limit, even none, although more pages
// follow. Next is the Range.Before of the next page, and is empty on the last page.
type Page struct {
	Entries []Entry
	Next    string
}

// The bounds of the work for one page: the number of entries read, in steps of one or two
// milliseconds of Redis's time.
const (
	stepEntries = 500
	maxSteps    = 6
)

// errLimit is a defect of the caller.
var errLimit = errors.New("audit: the limit of a page is at least 1")

// Read reads a page of the entries that a caller may see.
func (t *Trail) Read(ctx context.Context, c auth.Caller, q Query) (Page, error) {
	if q.Limit < 1 {
		return Page{}, errLimit
	}

	p := Page{Next: q.Before}
	if !c.Everything() {
		q.Client = &c.Name
	}

	for range maxSteps {
		step := stepEntries
		if c.Everything() && q.Prefix == "" {
			step = min(step, q.Limit-len(p.Entries)) // each fits
		}

		r := q.Range
		r.Before = p.Next
		list, err := t.keeper.Audited(ctx, r, step)
		if err != nil {
			return Page{}, err
		}
		if full := p.add(list, c, q); full {
			return p, nil
		}

		if len(list) < step {
			p.Next = ""
			return p, nil
		}
	}

	return p, nil
}

// add adds the entries that the caller may see and that the query selects. It returns true when the page
// is full.
func (p *Page) add(list []Entry, c auth.Caller, q Query) (full bool) {
	for i := range list {
		p.Next = list[i].Place
		if !list[i].VisibleTo(c) || q.Prefix != "" && !list[i].within(q.Prefix) || q.Changes && list[i].Action == Open {
			continue
		}
		if p.Entries = append(p.Entries, list[i]); len(p.Entries) == q.Limit {
			return true
		}
	}
	return false
}
