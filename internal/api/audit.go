package api

import (
	"errors"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

var auditParams = []parameter{paramAuditPrefix, paramAuditSince, paramAuditUntil, paramLimit, paramCursor}

var (
	paramAuditPrefix = parameter{"prefix", "app, app:module or app:module:type: the prefix of the keys; or the key of one notice.",
		"app1:orders"}
	paramAuditSince = parameter{"since", "RFC 3339.", "2026-11-21T00:00:00Z"}
	paramAuditUntil = parameter{"until", "RFC 3339, exclusive.", "2026-11-22T00:00:00Z"}
)

// AuditEntry is one call, or several equal calls within a minute.
type AuditEntry struct {
	ID      string      `json:"id" doc:"Sorts entries by time." example:"1795248000000-0"`
	At      codec.Stamp `json:"at" doc:"The time of the first call, by Redis's clock."`
	Count   int         `json:"count" doc:"The number of equal calls within a minute." example:"1"`
	Client  string      `json:"client" doc:"The client's name; empty if no clients are configured."`
	Address string      `json:"address" doc:"The address of the caller; behind a proxy that is not trusted, the proxy's address." example:"10.0.0.7"`
	Via     string      `json:"via" enum:"api,pages,start,rule"`
	Action  string      `json:"action" doc:"cancel, fire, reschedule, readdress (url or headers were changed), redrive, resend, purge, send-test, pause, resume, release (of a prefix that was recorded for workers), pause-receiver, resume-receiver, limit-receiver, secret (a receiver's keys were shown), sign-in, sign-out, portal-link, portal-revoke, restore (notices were restored), replay, replay-stop, replay-resume, redirect, redirect-stop, redirect-resume, cancel-many (a job was started), job-stop, job-resume, recur (a recurring notice was created or replaced), recur-delete, recur-pause, recur-resume, recur-run, tap (copies of attempts were streamed), settings (an instance started with other settings of a route: digests before and after; address is its label), erase, forget (of a sealed audience or id), forget-lift, open (the content of sealed notices was shown)." example:"cancel"`
	Key     string      `json:"key,omitempty" doc:"The key of the notice, for a call on one notice."`
	Prefix  string      `json:"prefix,omitempty" doc:"The common prefix of the keys, for a call on several notices. Absent: all keys."`
	Route   string      `json:"route,omitempty" doc:"The route's name, for a call on a route."`
	Result  string      `json:"result" enum:"done,failed" doc:"failed: Redis refused the call or did not answer; without an answer, the change may have been made."`
	Detail  string      `json:"detail,omitempty" doc:"Further facts, in words."`
}

// Audit answers GET /v1/audit.
type Audit struct {
	Items  []AuditEntry `json:"items" doc:"Newest first."`
	Cursor string       `json:"cursor,omitempty" doc:"Pass this to get the next page. Absent on the last page."`
}

// audit serves GET /v1/audit.
func (a *api) audit(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, auditParams)
	if p != nil {
		return p
	}

	var f codec.Faults
	var q audit.Query
	q.Since, q.Until = span(values, &f)
	q.Limit = limitOf(values, &f)
	if s := values.Get("prefix"); s != "" {
		q.Prefix = strings.TrimSuffix(s, ":")
		if err := keys.CheckPrefix(q.Prefix); err != nil && !keys.Valid(q.Prefix) {
			f.Add("query.prefix", codec.Clip(s, 100), "%s, or the key of a notice", codec.Clip(err.Error(), 200))
		}
	}

	if p := refusal(f); p != nil {
		return p
	}

	cursors := a.cursors("audit", at, values)
	var err error
	if q.Before, err = cursors.open(r.Context(), values.Get("cursor")); err != nil {
		return err
	}

	page, err := a.trail.Read(r.Context(), at.Caller, q)
	if err != nil {
		return err
	}

	out := Audit{Items: make([]AuditEntry, len(page.Entries))}
	for i := range page.Entries {
		e := &page.Entries[i]
		out.Items[i] = AuditEntry{ID: e.ID, At: codec.Stamp(e.At), Count: e.Count, Client: e.Client, Address: e.Address, Via: e.Via,
			Action: string(e.Action), Key: e.Key,
			Prefix: e.Prefix, Route: e.Route, Result: string(e.Result), Detail: e.Detail}
	}

	if out.Cursor, err = cursors.seal(r.Context(), page.Next); err != nil {
		return err
	}

	return writeJSON(w, http.StatusOK, out)
}

// Concluded completes the audit entry of an operation that returned err. It returns false, for no entry, if err proves
// that nothing was changed. After any other error, the result of the entry is failed.
func Concluded(e *audit.Entry, err error) bool {
	switch {
	case err == nil:
		e.Result = audit.Done
	case gone(err), errors.Is(err, wire.ErrNotBegun), errors.Is(err, notice.ErrInvalid):
		return false
	default:
		e.Result, e.Detail = audit.Failed, err.Error()
	}

	return true
}

// Changed returns the audit entry of an operation on one notice that returned c and err. It returns false, for no entry,
// if the operation found nothing to change.
func Changed(action audit.Action, key string, c *store.Change, err error) (audit.Entry, bool) {
	return audit.Entry{Action: action, Key: key, Detail: "it was " + string(c.Before)}, err != nil || c.Done
}

// operated writes an audit entry for an operator's call, which returned err.
func (a *api) operated(r *http.Request, at site, e audit.Entry, err error) {
	if !Concluded(&e, err) {
		return
	}

	e.Client, e.Address, e.Via = at.Name, auth.OriginOf(r).Address, audit.API
	at.call.noted = true
	a.trail.Note(r.Context(), e, zap.String("operation", at.call.id()))
}
