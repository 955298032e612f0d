package vault

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

// Marks are an archive's marks of forgotten subjects and their data keys.
type Marks interface {
	// TakeMarks forgets the subjects and data keys of marks that the archive lacks, but no subject that was lifted since, and returns the
	// number of subjects. With dryRun it only counts.
	TakeMarks(ctx context.Context, list []Field, dryRun bool) (subjects int, err error)
	// MarksState returns a text that differs whenever a mark was added or removed.
	MarksState(ctx context.Context) (string, error)
	// MarkPage returns up to n marks after a name, in the order of their names.
	MarkPage(ctx context.Context, after string, n int) ([]Field, error)
}

// recalled is the field with the state of the archive's marks that a place has. A restored backup, or a replica that has lost the last
// writes, has an earlier one.
const recalled = "recalled"

// Recall is [Recall] on the Redis of the Vault.
func (v *Vault) Recall(ctx context.Context, m Marks) (Recalled, error) {
	done, err := Recall(ctx, v.w, m, false)
	if done.InRedis+done.InArchive > 0 {
		v.forgetAll()
	}

	return done, err
}

// Recalled is the number of subjects that were forgotten again on each side.
type Recalled struct{ InRedis, InArchive int }

// Recall forgets again all subjects that an archive has as forgotten and Redis has not, or Redis has and the archive has not, as after a
// restored backup of either. The data keys of subjects that were lifted since are deleted too. With dryRun it only counts the subjects.
// While neither the archive's marks nor the places change, only the first call reads the marks. It may be repeated after an error.
func Recall(ctx context.Context, w *wire.Client, m Marks, dryRun bool) (done Recalled, err error) {
	state, err := m.MarksState(ctx)
	if err != nil {
		return done, err
	}
	if is, err := hasState(ctx, w, state); err != nil || is {
		return done, err
	}

	there, err := marked(ctx, w)
	if err != nil {
		return done, err
	}
	if done.InArchive, err = m.TakeMarks(ctx, there.valid(), dryRun); err != nil {
		return done, err
	}

	lost, err := lostMarks(ctx, w, m)
	if err != nil {
		return done, err
	}

	n := lost.count()
	if dryRun {
		done.InRedis = n
		return done, nil
	}

	err = lost.run(ctx)
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return done, err
	}

	if done.InRedis = n; err != nil { // the next call makes sure
		return done, err
	}

	if done.InArchive > 0 {
		if state, err = m.MarksState(ctx); err != nil {
			return done, err
		}
	}

	return done, setState(ctx, w, state)
}

// hasState reports whether all places have a state of the archive's marks.
func hasState(ctx context.Context, w *wire.Client, state string) (bool, error) {
	cmds := make([]*redis.StringCmd, w.Space.Places())
	_, err := w.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for place := range cmds {
			cmds[place] = pipe.HGet(ctx, w.Space.Seals(place), recalled)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, w.Fail("seal", err)
	}

	for _, cmd := range cmds {
		was, err := cmd.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return false, w.Fail("seal", err)
		}
		if err != nil || was != state {
			return false, nil
		}
	}

	return true, nil
}

// setState notes in all places that they have all marks of a state.
func setState(ctx context.Context, w *wire.Client, state string) error {
	_, err := w.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for place := range w.Space.Places() {
			pipe.HSet(ctx, w.Space.Seals(place), recalled, state)
		}
		return nil
	})
	return w.Wrapped("seal", err)
}

// lostMarks returns the marks of the archive that a place lacks.
func lostMarks(ctx context.Context, w *wire.Client, m Marks) (*marking, error) {
	lost := newMarking(w)
	for after := ""; ; {
		page, err := m.MarkPage(ctx, after, scanned)
		if err != nil || len(page) == 0 {
			return lost, err
		}
		if err := lost.addMissing(ctx, page); err != nil {
			return nil, err
		}

		after = page[len(page)-1].Name
	}
}
