package clienttest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"notifier/client"
)

// auditEntry is one call that changed something.
type auditEntry struct {
	at   time.Time
	on   string         // the key, or the prefix of all keys that it was about
	same map[string]any // of each call that the entry counts
	view map[string]any
}

// auditVerbs are the audit's words for what is done to a notice.
var auditVerbs = map[string]string{client.Cancelled: "cancel", "fired": "fire", "rescheduled": "reschedule", "redriven": "redrive"}

// enter notes who changed what; on is a key, or of a route the prefix.
func (s *Service) enter(r *http.Request, action, on string, more map[string]any) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	name := "key"
	if !segments.MatchString(on) {
		name = "prefix"
	}
	same := map[string]any{"client": "", "address": host, "via": "api", "action": action, "result": "done"}
	maps.Copy(same, more)
	if on != "" {
		same[name] = on
	}
	for i := range s.audited {
		e := &s.audited[i]
		if s.now.Sub(e.at) < time.Minute && maps.Equal(e.same, same) {
			e.view = maps.Clone(e.view)
			e.view["count"] = e.view["count"].(int) + 1
			return
		}
	}
	view := maps.Clone(same)
	view["id"], view["at"], view["count"] = fmt.Sprintf("%d-%d", s.now.UnixMilli(), len(s.audited)), stamp(s.now), 1
	s.audited = append(s.audited, auditEntry{s.now, on, same, view})
}

// audit lists who changed what, the newest first.
func (s *Service) audit(r *http.Request, _ []byte) (int, any, *problem) {
	q, limit := r.URL.Query(), 100
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if limit = n; err != nil || n < 1 || n > 1000 {
			return 0, nil, wrongField("query.limit", "want a number from 1 to 1000")
		}
	}
	before := len(s.audited)
	if c := q.Get("cursor"); c != "" {
		text, err := base64.RawURLEncoding.DecodeString(c)
		n, nerr := strconv.Atoi(string(text))
		if err != nil || nerr != nil || n < 0 || n > len(s.audited) {
			p := failed(http.StatusBadRequest, "query.cursor: is not a cursor of this listing; begin again without one")
			p.Errors = []wrong{{"query.cursor", "is not a cursor of this listing; begin again without one"}}
			return 0, nil, p
		}
		before = n
	}
	var bounds [2]time.Time
	for i, name := range []string{"since", "until"} {
		t, err := time.Parse(time.RFC3339Nano, q.Get(name))
		if err != nil && q.Get(name) != "" {
			return 0, nil, wrongField("query."+name, "want a time such as 2026-11-21T09:30:00Z")
		}
		bounds[i] = t
	}
	items, cursor := []any{}, ""
	for i, e := range slices.Backward(s.audited[:before]) {
		if !under(e.on, q.Get("prefix")) || e.at.Before(bounds[0]) || !bounds[1].IsZero() && !e.at.Before(bounds[1]) {
			continue
		}
		if items = append(items, e.view); len(items) == limit && i > 0 {
			cursor = base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(i)))
			break
		}
	}
	answer := map[string]any{"items": items}
	if cursor != "" {
		answer["cursor"] = cursor
	}
	return http.StatusOK, answer, nil
}
