package vault

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

// Marks are an archive's marks of forgotten subjects and their data keys.
type Marks interface {
	// MarksState returns a text that differs whenever a mark was added or removed.
	MarksState(ctx context.Context) (string, error)
	// MarkPage returns up to n marks after a name, in the order of their names.
	MarkPage(ctx context.Context, after string, n int) ([]Field, error)
}

// recalled is the field with the state of the archive's marks that a place has. A restored backup, or a replica that has lost the last
// writes, has an earlier one.
const recalled = "recalled"

// Recall is [Recall] on the Redis of the Vault.
func (v *Vault) Recall(ctx context.Context, m Marks) (int, error) {
	n, err := Recall(ctx, v.w, m, false)
	if n > 0 {
		v.forgetAll()
	}

	return n, err
}

// Recall forgets again all subjects that an archive has as forgotten and Redis has not, as after a restored backup. The data keys of
// subjects that were lifted since are deleted too. It returns the number of such subjects. With dryRun it only counts them. While neither
// the archive's marks nor the places change, only the first call reads the marks. It may be repeated after an error.
func Recall(ctx context.Context, w *wire.Client, m Marks, dryRun bool) (subjects int, err error) {
	state, err := m.MarksState(ctx)
	if err != nil {
		return 0, err
	}
	if is, err := hasState(ctx, w, state); err != nil || is {
		return 0, err
	}

	lost, err := lostMarks(ctx, w, m)
	if err != nil {
		return 0, err
	}
	if subjects = lost.count(); dryRun {
		return subjects, nil
	}

	err = lost.run(ctx)
	if errors.Is(err, wire.ErrUnconfirmed) { // the next call makes sure
		return subjects, err
	}
	if err != nil {
		return 0, err
	}

	return subjects, setState(ctx, w, state)
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
