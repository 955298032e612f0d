package clienttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"notifier/client"
)

// jobRequest is the request of a bulk change.
type jobRequest struct {
	Kind   client.JobKind `json:"kind"`
	Prefix string         `json:"prefix"`
	Route  string         `json:"route"`
	Host   string         `json:"host"`
	Reason string         `json:"reason"`
	Since  string         `json:"since"`
	Until  string         `json:"until"`
	Rate   string         `json:"rate"`
	DryRun bool           `json:"dry_run"`
}

// startJob makes a bulk change. It is done before the call is answered, whatever its rate is.
func (s *Service) startJob(_ *http.Request, body []byte) (int, any) {
	q, b := s.readJob(body)
	var chosen []*notice
	found, claimed, refused := 0, 0, 0
	for _, n := range s.kept {
		if !q.takes(n, b) {
			continue
		}

		switch found++; {
		case n.state == client.Claimed:
			claimed++
		case q.Kind == client.JobRedrive && n.expired(s.now):
			refused++
		default:
			chosen = append(chosen, n)
		}
	}

	v := map[string]any{"kind": q.Kind, "rate": spellRate(b.rate), "changed": 0, "claimed": claimed, "refused": refused, "seen": 0, "total": 0}
	for name, text := range map[string]string{"prefix": b.prefix, "route": q.Route, "host": b.host, "reason": q.Reason, "since": q.Since,
		"until": q.Until} {
		if text != "" {
			v[name] = text
		}
	}

	if q.DryRun {
		v["found"], v["complete"] = found, true
		return http.StatusOK, v
	}

	for _, n := range chosen {
		if q.Kind == client.JobRedrive {
			s.revive(n)
		} else {
			n.state, n.settledAt = client.Cancelled, s.now
		}
	}

	v["id"], v["state"] = fmt.Sprintf("job_%020d", len(s.jobs)+1), client.JobDone
	v["changed"], v["seen"], v["total"] = len(chosen), found, found
	v["created_at"], v["changed_at"] = stamp(s.now), stamp(s.now)
	s.jobs = slices.Insert(s.jobs, 0, v)
	return http.StatusCreated, v
}

// readJob decodes and checks a request.
func (s *Service) readJob(body []byte) (q jobRequest, b *bulk) {
	m := fields(body, "body.", "kind", "prefix", "route", "host", "reason", "since", "until", "rate", "dry_run")

	raw, _ := json.Marshal(m) // of decoded members
	if json.Unmarshal(raw, &q) != nil {
		panic(wrongField("body", "a member has another type"))
	}

	switch {
	case !slices.Contains([]client.JobKind{client.JobCancel, client.JobRedrive, client.JobPurge}, q.Kind):
		panic(wrongField("body.kind", "want cancel, redrive or purge"))
	case q.Kind == client.JobCancel && q.Prefix == "":
		panic(wrongField("body.prefix", "is missing; a cancel needs the prefix of the keys"))
	case q.Kind == client.JobCancel && q.Reason != "":
		panic(wrongField("body.reason", "is for redrive and purge"))
	case q.Route != "" && s.routeNamed(q.Route) == nil:
		panic(wrongField("body.route", "no route has this name"))
	}

	return q, readBulk(url.Values{"prefix": {q.Prefix}, "host": {q.Host}, "reason": {q.Reason}, "since": {q.Since}, "until": {q.Until},
		"rate": {cmp.Or(q.Rate, "100/s")}}, "body.")
}

// takes reports whether a bulk change takes a notice, or leaves it only because of its state.
func (q *jobRequest) takes(n *notice, b *bulk) bool {
	states := []client.State{client.Dead}
	if q.Kind == client.JobCancel {
		states = []client.State{client.Scheduled, client.Claimed}
	}

	return (q.Route == "" || n.route.Name == q.Route) && b.fits(n) && slices.Contains(states, n.state)
}

// spellRate formats a rate like the API: 100/s, or 30/m.
func spellRate(perSecond float64) string {
	if perSecond == math.Trunc(perSecond) {
		return strconv.FormatFloat(perSecond, 'f', -1, 64) + "/s"
	}
	return strconv.FormatFloat(perSecond*60, 'f', -1, 64) + "/m"
}

// listJobs lists the bulk changes, latest first.
func (s *Service) listJobs(*http.Request, []byte) (int, any) {
	return http.StatusOK, map[string]any{"items": append([]map[string]any{}, s.jobs...)}
}

// showJob answers with a bulk change.
func (s *Service) showJob(r *http.Request, _ []byte) (int, any) {
	i := slices.IndexFunc(s.jobs, func(v map[string]any) bool { return v["id"] == r.PathValue("id") })
	if i < 0 {
		panic(failed(http.StatusNotFound, "no job has the id %s", r.PathValue("id")))
	}

	return http.StatusOK, s.jobs[i]
}
