package vault

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/seal"
	"notifier/internal/wire"
)

// Copy copies the keys and marks of all subjects to another Redis of the same namespace. Keys that it has already stay there. Of a mark
// and its end, the later one wins, so that a subject that was forgotten or lifted on one side is so on the other one. It may be repeated.
// With wire.ErrUnconfirmed it has copied everything.
func Copy(ctx context.Context, from, to *wire.Client) error {
	c := copier{from: from, to: to}
	if err := c.marks(ctx); err != nil { // first, so that no key of a forgotten subject is stored
		return err
	}

	err := each(ctx, from, func(place int, list []storedKey) error { return c.keys(ctx, place, list) })
	if err == nil {
		err = c.unconfirmed
	}

	return err
}

// copier is one call of Copy.
type copier struct {
	from, to    *wire.Client
	unconfirmed error
}

// marks copies the marks of forgotten subjects and of their data keys, and the ends of such marks.
func (c *copier) marks(ctx context.Context) error {
	from, err := marked(ctx, c.from)
	if err != nil {
		return err
	}

	to, err := marked(ctx, c.to)
	if err != nil {
		return err
	}

	for of, at := range from.ends {
		if was, ok := to.subjects[of]; ok && was.Before(at) {
			if _, err := lift(ctx, c.to, of, at); err != nil {
				return err
			}
		}
	}

	missing := newMarking(c.to)
	if err := missing.addMissing(ctx, from.valid()); err != nil {
		return err
	}

	err = missing.run(ctx)
	if errors.Is(err, wire.ErrUnconfirmed) {
		c.unconfirmed, err = err, nil
	}

	return err
}

// marks are the marks of a side. Of several places they have the latest times.
type marks struct {
	subjects, ends map[seal.Subject]time.Time
	keys           []Field // of deleted data keys, some several times
}

// valid returns the marks of data keys, and those of subjects that were not lifted since.
func (m marks) valid() []Field {
	list := m.keys
	for of, at := range m.subjects {
		if !at.Before(m.ends[of]) { // else a place has lost the lift
			list = append(list, Field{Mark(string(of)), strconv.FormatInt(at.UnixMilli(), 10)})
		}
	}

	return list
}

// marked returns the marks of a side.
func marked(ctx context.Context, w *wire.Client) (m marks, err error) {
	m.subjects, m.ends = map[seal.Subject]time.Time{}, map[seal.Subject]time.Time{}
	add := func(to map[seal.Subject]time.Time, of, text string) {
		to[seal.Subject(of)] = later(to[seal.Subject(of)], MarkedAt(text))
	}
	for place := range w.Space.Places() {
		err = fields(ctx, w, place, func(name, value string) {
			if of, ok := strings.CutPrefix(name, lifted); ok {
				add(m.ends, of, value)
			}
			switch of, ok := strings.CutPrefix(name, forgotten); {
			case !ok:
			case seal.IsKeyID(of):
				m.keys = append(m.keys, Field{name, value})
			default:
				add(m.subjects, of, value)
			}
		})
		if err != nil {
			return m, err
		}
	}

	return m, nil
}

// keys copies some keys of a place.
func (c *copier) keys(ctx context.Context, place int, list []storedKey) error {
	data := map[int]map[string]string{} // by the place at the other side
	var pairs []storedKey
	for _, k := range list {
		if k.digest {
			pairs = append(pairs, k)
			continue
		}

		at := home(c.to.Space, k.of)
		if data[at] == nil {
			data[at] = map[string]string{}
		}

		data[at][k.id] = k.value
	}

	for at, values := range data {
		if _, err := bring(ctx, c.to, at, values); err != nil {
			return err
		}
	}

	return c.pairs(ctx, place, pairs)
}

// pairs copies the fields of subjects with their present data keys.
func (c *copier) pairs(ctx context.Context, place int, list []storedKey) error {
	ids := make([]*redis.StringCmd, len(list))
	_, err := c.from.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, k := range list {
			id, _, _ := strings.Cut(k.value, " ")
			ids[i] = pipe.HGet(ctx, c.from.Space.Seals(place), id)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return c.from.Fail("seal", err)
	}

	for i, k := range list {
		wrapped, err := ids[i].Result()
		if errors.Is(err, redis.Nil) { // forgotten meanwhile
			continue
		}
		if err != nil {
			return c.from.Fail("seal", err)
		}

		id, _, _ := strings.Cut(k.value, " ")
		err = c.to.Do(ctx, keyScript, []string{c.to.Space.Seals(home(c.to.Space, k.of))}, []any{string(k.of), k.value, id, wrapped}).Err()
		if err != nil {
			return c.to.Fail(keyScript.Op, err)
		}
	}

	return nil
}
