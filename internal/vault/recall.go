package vault

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"notifier/internal/seal"
	"notifier/internal/wire"
)

// Marks are an archive's marks of forgotten subjects and their data keys.
type Marks interface {
	// MarksState returns a text that differs whenever a mark was added or removed.
	MarksState(ctx context.Context) (string, error)
	// MarkPage returns up to n marks after a name, in the order of their names.
	MarkPage(ctx context.Context, after string, n int) ([]Field, error)
}

// recalled is the field with the state of the archive's marks that Redis has. A restored backup has an earlier one.
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
// subjects that were lifted since are deleted too. It returns the number of such subjects. With dryRun it only counts them. While the
// archive's marks do not change, only the first call reads them. It may be repeated after an error.
func Recall(ctx context.Context, w *wire.Client, m Marks, dryRun bool) (subjects int, err error) {
	state, err := m.MarksState(ctx)
	if err != nil {
		return 0, err
	}

	was, err := w.Redis.HGet(ctx, w.Space.Seals(0), recalled).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, w.Fail("seal", err)
	}
	if was == state {
		return 0, nil
	}

	lost, err := lostMarks(ctx, w, m)
	if err != nil || dryRun {
		return len(lost), err
	}

	var unconfirmed error
	for _, x := range lost {
		err := x.run(ctx)
		if errors.Is(err, wire.ErrUnconfirmed) {
			unconfirmed, err = err, nil
		}

		if err != nil {
			return 0, err
		}
	}

	if unconfirmed != nil { // the next call makes sure
		return len(lost), unconfirmed
	}

	return len(lost), w.Wrapped("seal", w.Redis.HSet(ctx, w.Space.Seals(0), recalled, state).Err())
}

// lostMarks returns the subjects of which a place lacks a mark of the archive.
func lostMarks(ctx context.Context, w *wire.Client, m Marks) (map[seal.Subject]*forgetting, error) {
	lost := map[seal.Subject]*forgetting{}
	for after := ""; ; {
		page, err := m.MarkPage(ctx, after, scanned)
		if err != nil || len(page) == 0 {
			return lost, err
		}
		if err := addLost(ctx, w, page, lost); err != nil {
			return nil, err
		}

		after = page[len(page)-1].Name
	}
}

// addLost adds the marks of a page that a place lacks.
func addLost(ctx context.Context, w *wire.Client, page []Field, lost map[seal.Subject]*forgetting) error {
	names, missing := make([]string, len(page)), make([]bool, len(page))
	for i, x := range page {
		names[i] = x.Name
	}

	for place := range w.Space.Places() {
		got, err := w.Redis.HMGet(ctx, w.Space.Seals(place), names...).Result()
		if err != nil {
			return w.Fail("seal", err)
		}

		for i := range got {
			missing[i] = missing[i] || got[i] == nil
		}
	}

	for i, x := range page {
		if missing[i] {
			addMark(w, x, lost)
		}
	}

	return nil
}

// addMark adds the mark of a subject or of a data key.
func addMark(w *wire.Client, mark Field, lost map[seal.Subject]*forgetting) {
	name := strings.TrimPrefix(mark.Name, forgotten)
	of := seal.Subject(name)
	isKey := seal.IsKeyID(name)
	if isKey {
		_, subject, _ := strings.Cut(mark.Value, " ")
		of = seal.Subject(subject)
	}

	x := lost[of]
	if x == nil {
		x = &forgetting{w: w, of: of, keysOnly: true}
		lost[of] = x
	}

	at := MarkedAt(mark.Value)
	if isKey {
		x.done.IDs = append(x.done.IDs, name)
	} else {
		x.keysOnly = false
	}

	if x.done.At.Before(at) || !isKey {
		x.done.At = at
	}
}
