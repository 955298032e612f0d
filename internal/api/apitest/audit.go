package apitest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"notifier/internal/audit"
)

// Audit keeps an entry.
func (e *Engine) Audit(_ context.Context, entry audit.Entry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return e.fail
	}
	entry.At, entry.Count = now(), 1
	for i := range e.audited {
		had := &e.audited[i]
		same := *had
		same.ID, same.At, same.Place, same.Count = "", entry.At, "", 1
		if same.Result == audit.Failed {
			same.Detail = entry.Detail // the text of an error
		}
		if entry.At.Sub(had.At) < time.Minute && same == entry {
			had.Count++
			return nil
		}
	}
	entry.ID = fmt.Sprintf("%d-%d", entry.At.UnixMilli(), len(e.audited))
	entry.Place = entry.ID
	e.audited = append(e.audited, entry)
	return nil
}

// ForgetAudit drops all entries.
func (e *Engine) ForgetAudit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.audited = nil
}

// Audited reads entries, the newest first.
func (e *Engine) Audited(_ context.Context, r audit.Range, limit int) ([]audit.Entry, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return nil, e.fail
	}
	var out []audit.Entry
	skip := r.Before != ""
	for _, entry := range slices.Backward(e.audited) {
		switch {
		case skip:
			skip = entry.ID != r.Before
		case !r.Until.IsZero() && !entry.At.Before(r.Until), entry.At.Before(r.Since), len(out) == limit:
		default:
			out = append(out, entry)
		}
	}
	return out, nil
}
