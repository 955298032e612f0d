package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/store"
)

// Filter narrows the notices of a bulk change: a cancel, a redrive or a purge. Its zero value selects all. A Rule has
// the prefix and the host.
type Filter struct {
	Route string `json:"route,omitempty"` // the prefix of the route
	// Subject is of a cancel: only notices that are sealed for it.
	Subject seal.Subject `json:"subject,omitempty"`
	// Since and Until are due times of a cancel, else times of death.
	Since  time.Time     `json:"since,omitzero"`
	Until  time.Time     `json:"until,omitzero"` // exclusive
	Cause  notice.Reason `json:"cause,omitempty"`
	Status int           `json:"status,omitempty"` // with Cause
	Rate   float64       `json:"rate,omitempty"`   // changes a second
}

// NewID returns a new id of a job.
func NewID(kind string) string {
	if kind == KindRedirect {
		return "rdr_" + strings.ToLower(rand.Text()[:20])
	}
	return "job_" + strings.ToLower(rand.Text()[:20]) // amend.lua counts for ids that begin so
}

func (r *Job) kind() string { return cmp.Or(r.Kind, KindRedirect) }

// Redirects reports whether the job is a redirect.
func (r *Job) Redirects() bool { return r.kind() == KindRedirect }

func (r *Job) plural() string {
	if r.Redirects() {
		return "redirects"
	}
	return "jobs"
}

// notices is the set of the notices of a partition that a job may change.
func (s Store) notices(p keys.Partition, r *Job) string {
	if r.Kind == KindRedrive || r.Kind == KindPurge {
		return s.Space().Dead(p)
	}
	return s.Space().Shadow(p)
}

// selects reports whether a bulk change takes a notice. It adds those that match to sum.
func (v visitor) selects(f *store.Found, sum *visited) (seen rewrite, ok bool) {
	r, at := v.r, f.Due
	switch r.Kind {
	case KindCancel:
		if f.State != notice.Scheduled && f.State != notice.Claimed || f.Raw != nil || f.Made.Time().After(r.Made) {
			return seen, false
		}
	default:
		at = f.SettledAt
		if f.State != notice.Dead || f.Job == r.ID || at.After(r.Made) || r.Cause != "" && r.Cause != f.Reason ||
			r.Status != 0 && r.Status != f.Notice.Cause().Status {
			return seen, false
		}
	}

	if !v.matches(f.Notice) || at.Before(r.Since) || !r.Until.IsZero() && !at.Before(r.Until) {
		return seen, false
	}

	sum.matched++
	switch {
	case f.State == notice.Claimed:
		sum.claimed++
		return seen, false
	case r.Kind == KindRedrive && f.Expired(r.Made): // the script refuses those that expire later
		sum.refused++
		return seen, false
	}

	return rewrite{key: f.Key, was: f.Record()}, true
}

// matches reports whether a notice has the prefix, the host and the subject of a bulk change.
func (v visitor) matches(n *notice.Notice) bool {
	r := v.r
	return (r.Prefix == "" || keys.HasPrefix(n.Key, r.Prefix)) && (r.Host == "" || v.hostOf(n) == r.Host) &&
		(r.Subject == "" || v.sealedFor(n, r.Subject))
}

// sealedFor reports whether a notice is sealed for a subject, by the settings of its route.
func (v visitor) sealedFor(n *notice.Notice, of seal.Subject) bool {
	to := v.routes.Prefix(n.Route)
	if n.Sealed == "" || to == nil {
		return false
	}

	is, ok := to.Seal.Subject(to.Prefix, n.Audience, n.Key)
	return ok && is == of
}

// hostOf returns the host that is called for a notice; empty = none.
func (v visitor) hostOf(n *notice.Notice) string {
	to := v.routes.Prefix(n.Route)
	if n.URL != "" || to == nil {
		return history.HostOf(n.URL)
	}

	return hostNow(to, n.URL)
}

// mostAtOnce is the maximum number of notices that one step of a bulk change changes.
const mostAtOnce = 100

var operations = map[string]store.Amendment{KindCancel: store.Cancel, KindRedrive: store.Redrive, KindPurge: store.Purge}

// amend changes notices at the job's rate, and returns the keys of those to visit again.
func (d *changeDrive) amend(ctx context.Context, p keys.Partition, list []rewrite) (left []string, err error) {
	n := mostAtOnce
	if d.r.Rate > 0 {
		n = min(max(int(d.r.Rate), 1), mostAtOnce)
	}

	for some := range slices.Chunk(list, n) {
		changed, again, err := d.amendSome(ctx, p, some)
		if left = append(left, again...); err != nil {
			return left, err
		}
		if d.r.Rate <= 0 {
			continue
		}

		if err := rest(ctx, d, time.Duration(float64(changed)/d.r.Rate*float64(time.Second))); err != nil {
			return left, err
		}
	}

	return left, nil
}

// amendSome changes notices in one step.
func (d *changeDrive) amendSome(ctx context.Context, p keys.Partition, list []rewrite) (changed int, left []string, err error) {
	if err := d.o.Store.Whole(); err != nil {
		return 0, nil, err
	}
	if err := d.save(ctx); err != nil { // nothing is changed after a stop, or without the lease
		return 0, nil, err
	}

	seen := make([]store.Seen, len(list))
	for i, x := range list {
		seen[i] = store.Seen{Key: x.key, Record: x.was}
	}

	step := store.JobStep{Op: operations[d.r.Kind], ID: d.r.ID, Began: d.r.Made}
	changes, err := store.AmendStep(ctx, d.o.Store.Store, p, step, seen)
	for i := range changes {
		switch c := &changes[i]; {
		case c.Done:
			changed++
		case c.Expires:
			d.r.Refused++
		case c.Before == notice.Scheduled || c.Before == notice.Claimed && d.r.Kind == KindCancel:
			left = append(left, seen[i].Key)
		}
	}

	return changed, left, err
}
