package store

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/audit"
	"notifier/internal/node"
)

// auditLength is about how many entries the audit keeps: Redis trims whole nodes
// of the stream, which hold 100 each.
const auditLength = 10_000

// auditTimeout is how long an entry may take to be written where nobody waits for it any
// more.
const auditTimeout = time.Second

// Audit appends an entry to the audit. Where the node of a cluster that has the audit is
// slow it does not wait for it: the entry may be written all the same.
func (s *Store) Audit(ctx context.Context, e audit.Entry) error {
	if !s.o.Cluster {
		return s.addEntry(ctx, e)
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- s.addEntry(own, e)
	}()
	tick := time.NewTicker(node.MaxSilence / 4)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return s.fail("audit", ctx.Err())
		case <-tick.C:
			if at := s.master(ctx, s.space.Audit()); s.o.Nodes.Slow(at) {
				return s.fail("audit", &node.AwayError{Addr: at})
			}
		}
	}
}

func (s *Store) addEntry(ctx context.Context, e audit.Entry) error {
	args := []any{"xadd", s.space.Audit(), "maxlen", "~", auditLength, "*"}
	for _, f := range e.Fields() {
		args = append(args, f)
	}
	if err := send(ctx, s.c, newWrite(ctx, 1, args...)).Err(); err != nil {
		return s.fail("audit", err)
	}
	return nil
}

// Audited reads at most limit entries of a range, the newest first.
func (s *Store) Audited(ctx context.Context, r audit.Range, limit int) ([]audit.Entry, error) {
	first, last := "-", "+"
	if !r.Since.IsZero() {
		first = strconv.FormatInt(ceilMilli(r.Since), 10)
	}
	switch before, ok := streamID(r.Before); {
	case r.Before != "" && !ok:
		return nil, ErrCursor
	case r.Before != "" && (r.Until.IsZero() || before[0] < uint64(ceilMilli(r.Until))):
		last = "(" + r.Before
	case !r.Until.IsZero():
		last = "(" + strconv.FormatInt(ceilMilli(r.Until), 10) + "-0"
	}
	var list []redis.XMessage
	if err := s.at(ctx, s.space.Audit(), func(ctx context.Context) (err error) {
		list, err = s.c.XRevRangeN(ctx, s.space.Audit(), last, first, int64(limit)).Result()
		return s.wrapped("audit", err)
	}); err != nil {
		return nil, err
	}
	out := make([]audit.Entry, len(list))
	for i, m := range list {
		id, _ := streamID(m.ID)
		out[i] = audit.Read(m.ID, time.UnixMilli(int64(min(id[0], math.MaxInt64))).UTC(), func(name string) string {
			v, _ := m.Values[name].(string)
			return v
		})
	}
	return out, nil
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
