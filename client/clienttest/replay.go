package clienttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/client"
)

// replayed is a replay: what was asked for, and how far it is.
type replayed struct {
	id, state                string
	since, until, asked      time.Time // asked is until as it was given
	prefix, host             string
	outcome                  []string
	rate                     float64 // a second
	newIDs                   bool
	refused, skipped         map[string]int
	found, sent, next        int
	items                    []*notice
	made, changed, continued time.Time
	first                    int // of the items sent since it was continued
}

var replayIDs = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

const mostRate = 10_000

func (x *replayed) view(dry bool) map[string]any {
	v := map[string]any{"since": stamp(x.since), "until": stamp(x.until), "outcome": x.outcome, "rate": spellRate(x.rate), "new_ids": x.newIDs,
		"found": x.found, "refused": x.refused, "total": len(x.items), "sent": x.sent, "skipped": x.skipped, "left": len(x.items) - x.next}
	for name, text := range map[string]string{"prefix": x.prefix, "host": x.host} {
		if text != "" {
			v[name] = text
		}
	}
	if !dry {
		v["id"], v["state"], v["created_at"], v["changed_at"] = x.id, x.state, stamp(x.made), stamp(x.changed)
	}
	return v
}

func spellRate(perSecond float64) string {
	for _, u := range []struct {
		name string
		per  float64
	}{{"/s", 1}, {"/m", 60}} {
		if n := perSecond * u.per; n == float64(int64(n+.5)) {
			return strconv.FormatFloat(n, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatFloat(perSecond*3600, 'f', -1, 64) + "/h"
}

// readReplay reads what is asked for.
func (s *Service) readReplay(body []byte) (x *replayed, dry bool, p *problem) {
	m, p := fields(body, "body.", "id", "since", "until", "prefix", "host", "outcome", "rate", "new_ids", "dry_run")
	if p != nil {
		return nil, false, p
	}
	x = &replayed{state: client.ReplayRunning, rate: 50, refused: map[string]int{}, skipped: map[string]int{}, made: s.now, changed: s.now, continued: s.now}
	rate := ""
	for name, to := range map[string]any{"id": &x.id, "prefix": &x.prefix, "host": &x.host, "rate": &rate, "since": &x.since, "until": &x.asked, "outcome": &x.outcome,
		"new_ids": &x.newIDs, "dry_run": &dry} {
		if raw := m[name]; raw != nil && (json.Unmarshal(raw, to) != nil || string(raw) == "null") {
			return nil, false, wrongField("body."+name, "is not of its kind")
		}
	}
	x.prefix, x.host = strings.TrimSuffix(x.prefix, ":"), hostOf(x.host)
	known := rate == ""
	if count, unit, ok := strings.Cut(rate, "/"); ok {
		n, err := strconv.ParseFloat(count, 64)
		per := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
		x.rate, known = n/max(per, 1), err == nil && n > 0 && per > 0 && n/per <= mostRate
	}
	for _, o := range x.outcome {
		if o != client.Delivered && o != client.Dead {
			return nil, false, wrongField("body.outcome", "want delivered or dead: what was cancelled or replaced is not sent again")
		}
	}
	switch {
	case m["id"] != nil && !replayIDs.MatchString(x.id):
		return nil, false, wrongField("body.id", "want up to 64 letters, digits, - and _")
	case x.prefix != "" && !prefixes.MatchString(x.prefix):
		return nil, false, wrongField("body.prefix", "want app, app:module or app:module:type")
	case strings.ContainsAny(x.host, "/@?#: "):
		return nil, false, wrongField("body.host", "want a host such as shop.example, without scheme, port and path")
	case !known:
		return nil, false, wrongField("body.rate", "want a rate such as 50/s or 600/m, at most %d/s", mostRate)
	case x.since.IsZero():
		return nil, false, wrongField("body.since", "is missing: say from when on")
	case !x.asked.IsZero() && !x.since.Before(x.asked):
		return nil, false, wrongField("body.until", "is not after since")
	}
	slices.Sort(x.outcome)
	if x.outcome = slices.Compact(x.outcome); len(x.outcome) == 0 {
		x.outcome = []string{client.Dead, client.Delivered}
	}
	if x.until = x.asked; x.until.IsZero() || x.until.After(s.now) {
		x.until = s.now.Add(time.Millisecond) // what has ended at this very moment has ended
	}
	return x, dry, nil
}

func (x *replayed) same(o *replayed) bool {
	return x.since.Equal(o.since) && x.asked.Equal(o.asked) && x.prefix == o.prefix && x.host == o.host && slices.Equal(x.outcome, o.outcome) && x.rate == o.rate && x.newIDs == o.newIDs
}

// replay serves POST /v1/replays.
func (s *Service) replay(r *http.Request, body []byte) (int, any, *problem) {
	x, dry, p := s.readReplay(body)
	if p != nil {
		return 0, nil, p
	}
	if old := s.replayOf(x.id); old != nil && !dry {
		if !old.same(x) {
			return 0, nil, failed(http.StatusConflict, "there is a replay with the id %s that was asked for in other words; take another id", x.id)
		}
		return http.StatusOK, old.view(false), nil
	}
	for _, n := range s.ended {
		if !slices.Contains(x.outcome, n.outcome) || n.endedAt.Before(x.since) || !n.endedAt.Before(x.until) || !under(n.key, x.prefix) || x.host != "" && n.host() != x.host {
			continue
		}
		if x.found++; n.secretLost() {
			x.refused["secret_not_kept"]++
			continue
		}
		x.items = append(x.items, n)
	}
	slices.SortStableFunc(x.items, func(a, b *notice) int { return a.endedAt.Compare(b.endedAt) })
	switch {
	case dry:
		return http.StatusOK, x.view(true), nil
	case len(x.items) == 0:
		return 0, nil, failed(http.StatusUnprocessableEntity, "the replay would send nothing")
	}
	if x.id == "" {
		x.id = fmt.Sprintf("rpl_clienttest%06d", len(s.replays)+1)
	}
	s.replays = append(s.replays, x)
	s.enter(r, "replay", x.prefix, map[string]any{"detail": fmt.Sprintf("%s: %s that ended since %s, until %s", x.id, counted(len(x.items), "notice"),
		x.since.Format(time.RFC3339), x.until.Format(time.RFC3339))})
	return http.StatusCreated, x.view(false), nil
}

// host is the one that was called; empty if none was.
func (n *notice) host() string {
	address := n.url
	if address == "" && targetKind(n.route.Target) == "http" {
		address = n.route.Target
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return hostOf(u.Hostname())
}

// secretLost reports whether a history would not have all that it takes to send it.
func (n *notice) secretLost() bool {
	u, err := url.Parse(n.url)
	return err == nil && u.User != nil || slices.ContainsFunc(slices.Collect(maps.Keys(n.headers)), secretHeader)
}

func (s *Service) replayOf(id string) *replayed {
	if i := slices.IndexFunc(s.replays, func(x *replayed) bool { return x.id == id }); i >= 0 {
		return s.replays[i]
	}
	return nil
}

func (s *Service) listReplays(*http.Request, []byte) (int, any, *problem) {
	items := []any{}
	for _, x := range slices.Backward(s.replays) {
		items = append(items, x.view(false))
	}
	return http.StatusOK, map[string]any{"items": items[:min(len(items), 100)]}, nil
}

// aReplay makes a call about one; turn, if it is not nil, has it in a state from another.
func (s *Service) aReplay(action, from, to string) call {
	return func(r *http.Request, _ []byte) (int, any, *problem) {
		x := s.replayOf(r.PathValue("id"))
		switch {
		case x == nil:
			return 0, nil, failed(http.StatusNotFound, "no replay has the id %s", r.PathValue("id"))
		case action == "" || x.state == to:
		case x.state != from:
			return 0, nil, failed(http.StatusConflict, "the replay is %s", x.state)
		default:
			x.state, x.changed, x.continued, x.first = to, s.now, s.now, x.next
			s.enter(r, action, x.prefix, map[string]any{"detail": x.id})
		}
		return http.StatusOK, x.view(false), nil
	}
}

// at is when the next of a replay's notices is scheduled.
func (x *replayed) at() time.Time {
	return x.continued.Add(time.Duration(float64(x.next-x.first) / x.rate * float64(time.Second)))
}

// nextReplay is the replay that has something to schedule first, nil if none has by then.
func (s *Service) nextReplay(end time.Time) (first *replayed) {
	for _, x := range s.replays {
		if x.state == client.ReplayRunning && !x.at().After(end) && (first == nil || x.at().Before(first.at())) {
			first = x
		}
	}
	return first
}

// again schedules a replay's next notice.
func (s *Service) again(x *replayed) {
	n := x.items[x.next]
	x.next, x.changed = x.next+1, s.now
	if x.next == len(x.items) {
		x.state = client.ReplayDone
	}
	kept := s.kept[n.key]
	if kept == nil {
		kept = n
	}
	switch {
	case kept.state == client.Scheduled || kept.state == client.Claimed:
		x.skipped["pending"]++
	case kept != n && kept.state == client.Dead:
		x.skipped["dead"]++
	case kept == n && n.state == client.Cancelled:
		x.skipped["cancelled"]++
	case x.newIDs:
		s.kept[n.key] = s.fresh(&notice{content: n.content, key: n.key, route: n.route, state: client.Scheduled, due: s.now, createdAt: s.now, replay: x.id})
		x.sent++
	default:
		s.revive(n)
		s.kept[n.key], n.replay, n.attempts = n, x.id, nil
		x.sent++
	}
}
