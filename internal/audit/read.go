package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// auditStep is how many entries one command reads at most.
const auditStep = 500

// auditStream is one stream of the audit while it is read.
type auditStream struct {
	client, class string
	newest        string // where the next command begins
	list          []redis.XMessage
	done          bool
}

// label names the stream in a place.
func (x *auditStream) label() string { return x.client + ":" + x.class }

// Audited returns at most limit entries of a range, newest first. If r.Client is set, Audited reads the streams of that
// client, and those that all removed clients share. Otherwise it reads the streams of all clients.
func (s *Store) Audited(ctx context.Context, r Range, limit int) ([]Entry, error) {
	before, err := readPlace(r.Before)
	if err != nil {
		return nil, err
	}

	var out []Entry
	err = s.Wire.At(ctx, s.Wire.Space.AuditClients(), func(ctx context.Context) error {
		clients := []string{keys.FormerClients}
		if r.Client != nil {
			clients = append(clients, *r.Client)
		} else {
			list, err := s.Wire.Redis.ZRange(ctx, s.Wire.Space.AuditClients(), 0, -1).Result()
			if err != nil {
				return s.Wire.Wrapped("audit", err)
			}

			clients = append(clients, list...)
		}

		var streams []*auditStream
		for _, client := range clients {
			for _, class := range Classes {
				x := &auditStream{client: client, class: string(class)}
				x.newest = before.end(r, x.label())
				streams = append(streams, x)
			}
		}

		slices.SortFunc(streams, func(a, b *auditStream) int { return cmp.Compare(a.label(), b.label()) })
		out, err = s.mergeAudit(ctx, streams, r, limit)
		return err
	})
	return out, err
}

// mergeAudit reads entries of the streams, which are in order of their labels.
func (s *Store) mergeAudit(ctx context.Context, streams []*auditStream, r Range, limit int) ([]Entry, error) {
	oldest := "-"
	if !r.Since.IsZero() {
		oldest = strconv.FormatInt(ceilMilli(r.Since), 10)
	}

	var out []Entry
	var from []*auditStream // of each entry
	for len(out) < limit {
		if err := s.fillAudit(ctx, streams, oldest, min(limit-len(out), auditStep)); err != nil {
			return nil, err
		}

		var next *auditStream
		var newest [2]uint64
		for _, x := range streams {
			if len(x.list) == 0 {
				continue
			}
			if id, _ := streamID(x.list[0].ID); next == nil || slices.Compare(id[:], newest[:]) > 0 {
				next, newest = x, id
			}
		}

		if next == nil {
			break
		}

		m := next.list[0]
		next.list = next.list[1:]
		e := Read(m.ID, time.UnixMilli(int64(min(newest[0], math.MaxInt64))).UTC(), func(name string) string {
			v, _ := m.Values[name].(string)
			return v
		})
		e.Place = m.ID + " " + next.label()
		if n, err := strconv.Atoi(fmt.Sprint(m.Values["count"])); err == nil {
			e.Count = max(n, 1)
		}

		out, from = append(out, e), append(from, next)
	}

	return out, s.countAudit(ctx, out, from)
}

// fillAudit reads the next page of each stream whose last page is used up.
func (s *Store) fillAudit(ctx context.Context, streams []*auditStream, oldest string, step int) error {
	var empty []*auditStream
	for _, x := range streams {
		if len(x.list) == 0 && !x.done {
			empty = append(empty, x)
		}
	}

	if len(empty) == 0 {
		return nil
	}

	// Of many streams few entries of each are on a page.
	step = max(min(step, 16), step/len(empty))
	replies := make([]*redis.XMessageSliceCmd, len(empty))
	if _, err := s.Wire.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, x := range empty {
			replies[i] = p.XRevRangeN(ctx, s.Wire.Space.Audit(x.client, x.class), x.newest, oldest, int64(step))
		}
		return nil
	}); err != nil {
		return s.Wire.Wrapped("audit", err)
	}

	for i, x := range empty {
		if x.list = replies[i].Val(); len(x.list) > 0 {
			x.newest = "(" + x.list[len(x.list)-1].ID
		}
		x.done = len(x.list) < step
	}

	return nil
}

// countAudit adds the calls that were counted after the first of each entry.
func (s *Store) countAudit(ctx context.Context, list []Entry, from []*auditStream) error {
	at := map[*auditStream][]int{}
	for i, x := range from {
		at[x] = append(at[x], i)
	}

	replies := make(map[*auditStream]*redis.SliceCmd, len(at))
	if len(at) == 0 {
		return nil
	}

	if _, err := s.Wire.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for x, entries := range at {
			ids := make([]string, len(entries))
			for i, j := range entries {
				ids[i] = list[j].ID
			}

			replies[x] = p.HMGet(ctx, s.Wire.Space.AuditRepeats(x.client, x.class), ids...)
		}
		return nil
	}); err != nil {
		return s.Wire.Wrapped("audit", err)
	}

	for x, entries := range at {
		for i, v := range replies[x].Val() {
			text, _ := v.(string)
			if n, err := strconv.Atoi(text); err == nil && i < len(entries) {
				list[entries[i]].Count += n
			}
		}
	}

	return nil
}

// ErrCursor says that a [Range].Before was not made by this service.
var ErrCursor = errors.New("not a place in the audit")

// place is where a page of the audit ended: at an entry of a stream. The zero value is
// the beginning.
type place struct {
	id    [2]uint64
	text  string // the id's
	label string
}

func readPlace(text string) (place, error) {
	if text == "" {
		return place{}, nil
	}

	p := place{}
	var ok bool
	p.text, p.label, _ = strings.Cut(text, " ")
	if p.id, ok = streamID(p.text); !ok || !strings.Contains(p.label, ":") {
		return place{}, ErrCursor
	}

	return p, nil
}

// end is the argument of XREVRANGE by which a stream goes on after the place, and before
// the end of the range. Entries with the same id are in order of their streams' labels.
func (p place) end(r Range, label string) string {
	until := "+"
	if !r.Until.IsZero() {
		until = "(" + strconv.FormatInt(ceilMilli(r.Until), 10) + "-0"
	}

	switch {
	case p.text == "" || !r.Until.IsZero() && p.id[0] >= uint64(ceilMilli(r.Until)):
		return until
	case label > p.label:
		return p.text
	}

	return "(" + p.text
}

// ceilMilli is the first whole millisecond that is not before t, none before 1970.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}

	return max(ms, 0)
}

// streamID reads the id of a stream's entry: a time in ms, and a number within it.
func streamID(s string) (id [2]uint64, ok bool) {
	ms, n, found := strings.Cut(s, "-")
	if !found {
		return id, false
	}

	for i, part := range []string{ms, n} {
		v, err := strconv.ParseUint(part, 10, 64)
		if err != nil || fmt.Sprint(v) != part {
			return id, false
		}

		id[i] = v
	}

	return id, true
}
