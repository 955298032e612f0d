package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"notifier/internal/access"
	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/remote"
	"notifier/internal/store"
	"notifier/internal/wire"
)

var auditParams = []parameter{paramAuditPrefix, paramAuditSince, paramAuditUntil, paramLimit, paramCursor}

var (
	paramAuditPrefix = parameter{"prefix", "app, app:module or app:module:type: what the keys lie under; or the key of one notice.",
		"app1:orders"}
	paramAuditSince = parameter{"since", "RFC 3339.", "2026-11-21T00:00:00Z"}
	paramAuditUntil = parameter{"until", "RFC 3339, exclusive.", "2026-11-22T00:00:00Z"}
)

// AuditEntry is one call of somebody.
type AuditEntry struct {
	ID      string      `json:"id" doc:"Orders entries by time." example:"1795248000000-0"`
	At      codec.Stamp `json:"at" doc:"By Redis's clock; of several calls, that of the first."`
	Count   int         `json:"count" doc:"The number of calls, all of them the same and within a minute." example:"1"`
	Client  string      `json:"client" doc:"The client's name; empty where none is configured."`
	Address string      `json:"address" doc:"Where the call came from; behind a proxy, the proxy's address." example:"10.0.0.7"`
	Via     string      `json:"via" enum:"api,pages"`
	Action  string      `json:"action" doc:"cancel, fire, reschedule, redrive, purge, send-test, pause, resume, secret (a receiver's keys were shown), sign-in, sign-out, portal-link, portal-revoke, restore (notices were put back), replay, replay-stop, replay-resume, erase." example:"cancel"`
	Key     string      `json:"key,omitempty" doc:"The notice's, of a call on one."`
	Prefix  string      `json:"prefix,omitempty" doc:"What all keys lie under that a call on more than one was about; absent = all."`
	Route   string      `json:"route,omitempty" doc:"The route's name, of a call on a route."`
	Result  string      `json:"result" enum:"done,failed" doc:"failed: Redis did not answer, or refused; where its answer was lost, it may have been done."`
	Detail  string      `json:"detail,omitempty" doc:"More, in words."`
}

// Audit answers GET /v1/audit.
type Audit struct {
	Items  []AuditEntry `json:"items" doc:"The newest first."`
	Cursor string       `json:"cursor,omitempty" doc:"If there is one, there may be more: call again with it."`
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

// operated enters in the audit what an operator's call has done, and by whose
// token. err is what the call came to: what Redis may have done all the same is
// told too, what it surely has not is no entry.
func (a *api) operated(r *http.Request, at site, e audit.Entry, err error) {
	switch {
	case err == nil:
		e.Result = audit.Done
	case gone(err), errors.Is(err, wire.ErrNotBegun):
		return
	default:
		e.Result, e.Detail = audit.Failed, err.Error()
	}
	e.Client, e.Address, e.Via = at.Name, remote.Of(r).Address, audit.API
	at.call.noted = true
	a.trail.Note(r.Context(), e, zap.String("operation", at.call.id()))
}

// redriven is the entry of a bulk redrive under one prefix, which no route may
// have any more.
func (a *api) redriven(q store.Query, n int) audit.Entry {
	e := audit.Entry{Action: audit.Redrive, Prefix: q.Routes[0], Detail: strconv.Itoa(n) + " redriven"}
	if rt := a.routes.Prefix(e.Prefix); rt != nil {
		e.Route = rt.Name
	}
	if (access.Caller{Prefix: e.Prefix}).Owns(q.Prefix) {
		e.Prefix = q.Prefix
	}
	if q.Reason != "" {
		e.Detail += ", of reason " + string(q.Reason)
	}
	if !q.Since.IsZero() {
		e.Detail += ", since " + q.Since.Format(time.RFC3339)
	}
	if !q.Until.IsZero() {
		e.Detail += ", until " + q.Until.Format(time.RFC3339)
	}
	return e
}
