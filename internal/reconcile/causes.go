package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

const (
	// collectFor is the time between the first death with a cause and its message, so that the message counts more than one.
	collectFor = 15 * time.Second
	// messageEvery is the shortest time between two messages about a cause, and how long it must be quiet to be over.
	messageEvery = 10 * time.Minute
	// reasonDown is the name of the cause of a route whose receivers fail. No death has this reason.
	reasonDown = "down"
	// reasonPaused is the same for receivers that are paused by rule.
	reasonPaused = "paused"
)

// CauseStore has the causes of which teams are told: see package receivers.
type CauseStore interface {
	Causes(ctx context.Context, hook string) (map[string]string, time.Time, error)
	SetCause(ctx context.Context, hook, name, old, text string) (bool, error)
}

// causeName is the field of a cause in the hash of its hook.
func causeName(route, reason string) string { return route + " " + reason }

// deathFacts are the facts of a death that a message contains.
type deathFacts struct {
	Key         string `json:"key"`
	Route       string `json:"route"`
	Reason      string `json:"reason"`
	Host        string `json:"host"`
	LastAttempt struct {
		Status   int    `json:"status"`
		Response string `json:"response"`
	} `json:"last_attempt"`
}

// causes collects the deaths of one batch by hook and name.
type causes map[string]map[string]*collected

type collected struct {
	receivers.Cause
	texts []string // entries of the outbox
}

// add adds a death, and reports whether it can be read.
func (cs causes) add(d *store.Death, text string) error {
	var f deathFacts
	if err := json.Unmarshal(d.Facts, &f); err != nil || f.Route == "" {
		return fmt.Errorf("%w: its facts name no route", store.ErrDeath)
	}

	c := receivers.Cause{Since: d.At.UnixMilli(), Last: d.At.UnixMilli(), Key: f.Key, Receiver: f.Host, Status: f.LastAttempt.Status,
		Answer: notice.Kept(f.LastAttempt.Response)}
	of, name := cs[d.Hook], causeName(f.Route, f.Reason)
	if of == nil {
		of = map[string]*collected{}
		cs[d.Hook] = of
	}

	if of[name] == nil {
		of[name] = &collected{Cause: c}
	}

	of[name].Add(&c)
	of[name].texts = append(of[name].texts, text)
	return nil
}

// collect stores causes, and returns the entries of the outbox that are in them.
func (h *Hooks) collect(ctx context.Context, cs causes) (done []string, err error) {
	for hook, of := range cs {
		for name, c := range of {
			ok, failed := h.note(ctx, hook, name, c.Cause)
			if ok {
				done = append(done, c.texts...)
			}

			err = errors.Join(err, failed)
		}
	}

	return done, err
}

// note adds deaths, or a failure that is noticed now, to a cause. It reports false if another instance has changed the cause.
func (h *Hooks) note(ctx context.Context, hook, name string, c receivers.Cause) (bool, error) {
	if h.o.Causes == nil {
		return false, nil
	}

	all, now, err := h.o.Causes.Causes(ctx, hook)
	if err != nil {
		return false, err
	}

	if c.Last == 0 {
		c.Last = now.UnixMilli()
	}

	old := all[name]
	if had, ok := receivers.ReadCause(old); ok {
		had.Add(&c)
		c = *had
	} else {
		c.Noted = now.UnixMilli()
	}

	if c.Text() == old {
		return true, nil
	}

	return h.o.Causes.SetCause(ctx, hook, name, old, c.Text())
}

// messages schedules the messages of the causes of all hooks that are due.
func (h *Hooks) messages(ctx context.Context, all bool) error {
	if h.o.Causes == nil {
		return nil
	}

	var failed []error
	for _, r := range h.o.Routes.All() {
		if r.Robot == nil || !all && !h.o.Assignment.Tidies(h.o.Space.Partition(r.Prefix, r.Prefix)) {
			continue
		}

		list, now, err := h.o.Causes.Causes(ctx, r.Prefix)
		failed = append(failed, err)
		for name, text := range list {
			failed = append(failed, h.message(ctx, r, name, text, now))
		}
	}

	return errors.Join(failed...)
}

// message schedules the message of a cause that is due, and stores that it did. It skips causes of routes that this
// instance does not have.
func (h *Hooks) message(ctx context.Context, hook *route.Route, name, text string, now time.Time) error {
	of, reason, _ := strings.Cut(name, " ")
	rt := h.o.Routes.Name(of)
	c, ok := receivers.ReadCause(text)
	if !ok || rt == nil || rt.OnDead == nil || rt.OnDead.Prefix != hook.Prefix {
		return nil
	}

	m, ended, err := h.due(ctx, rt, reason, c, now)
	if err != nil || m == nil && !ended {
		return err
	}

	if m != nil {
		if ok, err := h.send(ctx, hook, causeID(name, c), m); err != nil || !ok {
			return err
		}
	}

	var next *receivers.Cause
	if !ended {
		told := *c
		told.Told, told.Sent = now.UnixMilli(), c.Sent+1
		next = &told
	}

	_, err = h.o.Causes.SetCause(ctx, hook.Prefix, name, text, next.Text())
	return err
}

// causeID is the id of the next message about a cause, so that another instance schedules no second one.
func causeID(name string, c *receivers.Cause) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%s-%d-%d", hex.EncodeToString(sum[:8]), c.Noted, c.Sent+1)
}

// due returns the message that is due; nil = none. ended reports whether the cause is over.
func (h *Hooks) due(ctx context.Context, rt *route.Route, reason string, c *receivers.Cause,
	now time.Time) (m *route.AlarmMessage, ended bool, err error) {
	since := func(ms int64) time.Duration { return now.Sub(time.UnixMilli(ms)) }
	if c.Told == 0 && since(c.Noted) < collectFor || c.Told > 0 && since(c.Told) < messageEvery {
		return nil, false, nil
	}

	m = &route.AlarmMessage{Event: route.AlarmDead, Route: rt.Name, Reason: reason, Since: time.UnixMilli(c.Since).UTC(), Key: c.Key,
		Receiver: c.Receiver, Status: c.Status, Answer: c.Answer}
	if h.o.Link != nil {
		m.Link = h.o.Link(rt.Name, reason == reasonDown || reason == reasonPaused)
	}

	switch reason {
	case reasonDown:
		list, _, err := h.o.Health.Outages(ctx, rt.Prefix)
		m.Event, m.Count = route.AlarmDown, int64(len(list))
		return dueOf(c, m, route.AlarmDownEnded, err)
	case reasonPaused:
		list, err := h.o.Pauses.RuledBy(ctx, h.o.Routes, rt)
		list = slices.DeleteFunc(list, func(p *receivers.Pause) bool { return p.Resumed })
		m.Event, m.Count = route.AlarmPaused, int64(len(list))
		m, ended, err = dueOf(c, m, route.AlarmPausedEnded, err)
		if m != nil && !ended {
			m.Reason = rulesOf(list)
		}

		return m, ended, err
	}

	if c.Told > 0 && c.Last <= c.Told {
		if since(c.Last) < messageEvery {
			return nil, false, nil
		}

		m.Event, ended = route.AlarmDeadEnded, true
		m.Key, m.Receiver, m.Status, m.Answer = "", "", 0, ""
	}

	got, err := h.o.Store.DeadCauses(ctx, []string{rt.Prefix}, m.Since)
	for _, g := range got.Groups {
		if string(g.Reason) == reason {
			m.Count += g.Count
		}
	}

	if err == nil && m.Count == 0 && c.Told == 0 { // the team was told of none
		return nil, got.Complete, nil
	}

	return m, ended, err
}

// rulesOf names the rules of pauses, each once.
func rulesOf(list []*receivers.Pause) string {
	var rules []string
	for _, p := range list {
		rules = append(rules, p.Rule)
	}

	slices.Sort(rules)
	return strings.Join(slices.Compact(rules), ", ")
}

// dueOf is due for the receivers of a route that fail or are paused by rule, whose number m has. A message follows if there is
// another one, and one, ended, when there is none.
func dueOf(c *receivers.Cause, m *route.AlarmMessage, ended route.AlarmEvent, err error) (*route.AlarmMessage, bool, error) {
	m.Reason = ""
	switch {
	case err != nil:
		return nil, false, err
	case m.Count == 0 && c.Told == 0:
		return nil, true, nil // over before anybody was told
	case m.Count == 0:
		m.Event, m.Receiver, m.Status, m.Answer = ended, "", 0, ""
		return m, true, nil
	case c.Told > 0 && c.Last <= c.Told:
		return nil, false, nil
	}

	return m, false, nil
}

// send schedules a message. It reports false if another instance has to, because this one has no route for it.
func (h *Hooks) send(ctx context.Context, hook *route.Route, id string, m *route.AlarmMessage) (bool, error) {
	return h.put(ctx, hook, id, hook.Robot.Body(m))
}

// put schedules a notice of a hook.
func (h *Hooks) put(ctx context.Context, hook *route.Route, id string, body []byte) (bool, error) {
	key := keys.Fill(hook.Prefix, "dead") + ":" + id
	if m := h.o.Routes.Match(key); m == nil || m.Prefix != hook.Prefix {
		return false, nil
	}

	replies := h.o.Schedule.Many(ctx, []store.Request{{Key: key, OnDuplicate: store.Keep, Content: notice.Content{Body: body}}})
	if err := replies[0].Err; err != nil && !errors.Is(err, wire.ErrMoved) { // moved: retried by the next pass
		return false, err
	}

	return replies[0].Err == nil, nil
}

// tellTeam adds the outage of a receiver to the cause of its route. The answer of all receivers is a message of the cause.
func (h *Hooks) tellTeam(ctx context.Context, r *route.Route, x *receivers.Health, o *receivers.Outage, event string) (bool, error) {
	if event == eventUp {
		return true, nil
	}

	c := receivers.Cause{Since: o.Since.UnixMilli(), Receiver: x.Name, Status: o.Status}
	return h.note(ctx, r.OnDead.Prefix, causeName(r.Name, reasonDown), c)
}
