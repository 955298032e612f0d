package vault

import (
	"context"
	"errors"
	"slices"
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

// sides has the times of a kind of marks at both sides, by subject.
type sides struct{ from, to map[seal.Subject]time.Time }

// marks copies the marks of forgotten subjects and the ends of such marks.
func (c *copier) marks(ctx context.Context) (err error) {
	var marks, ends sides
	if marks.from, ends.from, err = marked(ctx, c.from); err != nil {
		return err
	}
	if marks.to, ends.to, err = marked(ctx, c.to); err != nil {
		return err
	}

	for of, at := range ends.from {
		if was, ok := marks.to[of]; ok && was.Before(at) {
			if _, err := lift(ctx, c.to, of, at); err != nil {
				return err
			}
		}
	}

	for of, at := range marks.from {
		if at.Before(ends.to[of]) {
			continue
		}
		if err := c.forget(ctx, of, at); err != nil {
			return err
		}
	}

	return c.deleted(ctx)
}

// deleted copies the marks of deleted data keys, also of subjects whose marks were ended: their texts must stay forgotten.
func (c *copier) deleted(ctx context.Context) error {
	for place := range c.from.Space.Places() {
		marks := map[int][]Field{} // by the place at the other side
		err := fields(ctx, c.from, place, func(name, value string) {
			id, ok := strings.CutPrefix(name, forgotten)
			if _, of, has := strings.Cut(value, " "); ok && has && seal.IsKeyID(id) {
				at := home(c.to.Space, seal.Subject(of))
				marks[at] = append(marks[at], Field{name, value})
			}
		})
		if err != nil {
			return err
		}

		for at, list := range marks {
			for some := range slices.Chunk(list, keysAtOnce) {
				if err := c.mark(ctx, at, some); err != nil {
					return err
				}
			}
		}
	}

	return nil
}

// mark stores marks at a place of the other side.
func (c *copier) mark(ctx context.Context, at int, list []Field) error {
	_, err := c.to.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, x := range list {
			pipe.HSetNX(ctx, c.to.Space.Seals(at), x.Name, x.Value)
		}
		return nil
	})
	if err != nil {
		return c.to.Fail("seal", err)
	}

	return nil
}

// marked returns the times at which subjects were forgotten, and at which marks were ended. Of several places it takes the latest.
func marked(ctx context.Context, w *wire.Client) (marks, ends map[seal.Subject]time.Time, err error) {
	marks, ends = map[seal.Subject]time.Time{}, map[seal.Subject]time.Time{}
	add := func(to map[seal.Subject]time.Time, of, text string) {
		if at := MarkedAt(text); at.After(to[seal.Subject(of)]) {
			to[seal.Subject(of)] = at
		}
	}
	for place := range w.Space.Places() {
		err = fields(ctx, w, place, func(name, value string) {
			if of, ok := strings.CutPrefix(name, forgotten); ok && !seal.IsKeyID(of) {
				add(marks, of, value)
			}
			if of, ok := strings.CutPrefix(name, lifted); ok {
				add(ends, of, value)
			}
		})
		if err != nil {
			return nil, nil, err
		}
	}

	return marks, ends, nil
}

// forget forgets a subject at the other side, as of the time at which it was forgotten at this one.
func (c *copier) forget(ctx context.Context, of seal.Subject, at time.Time) error {
	err := (&forgetting{w: c.to, of: of, done: Forgotten{At: at}}).run(ctx)
	if errors.Is(err, wire.ErrUnconfirmed) {
		c.unconfirmed, err = err, nil
	}

	return err
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
