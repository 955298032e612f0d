package history

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/seal"
	"notifier/internal/vault"
)

// The table history_seals has the marks of forgotten subjects and their deleted data keys, under the names of the fields in Redis.

// The names of all marks are between these two.
var firstMark, lastMark = vault.Mark(""), strings.TrimSuffix(vault.Mark(""), ":") + ";"

// MarksState implements [vault.Marks].
func (d *DB) MarksState(ctx context.Context) (state string, err error) {
	if err := d.Begin(ctx); err != nil {
		return "", err
	}

	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()

	// A later mark has a later time, and one less means that a subject was lifted.
	var n int64
	var latest sql.NullString
	row := d.lookups.QueryRowContext(ctx, d.marks("SELECT count(*), max(value) FROM history_seals WHERE name > ? AND name < ?"),
		firstMark, lastMark)
	err = row.Scan(&n, &latest)
	return strconv.FormatInt(n, 10) + " " + latest.String, d.wrap("keys", err)
}

// MarkPage implements [vault.Marks].
func (d *DB) MarkPage(ctx context.Context, after string, n int) ([]vault.Field, error) {
	return d.sealPage(ctx, "WHERE name > ? AND name < ? ORDER BY name LIMIT ?", max(after, firstMark), lastMark, n)
}

// putMark marks a subject. The table may have a mark of an earlier time, if it was restored from a backup.
func (d *DB) putMark(ctx context.Context, of seal.Subject, mark string) error {
	if err := d.putLater(ctx, d.db, vault.Mark(string(of)), mark, 0); err != nil {
		return err
	}

	_, err := d.db.ExecContext(ctx, d.marks("DELETE FROM history_seals WHERE name = ?"), vault.Lift(of))
	return err
}

// putLater stores a time. Of two times of a name the later one counts.
func (d *DB) putLater(ctx context.Context, e executor, name, ms string, day int64) error {
	_, err := e.ExecContext(ctx, d.marks("INSERT INTO history_seals (name, value, used) VALUES (?, ?, ?) "+
		"ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE history_seals.value < excluded.value"), name, ms, day)
	return err
}

// everyDay is later than all days of entries: a row of this day does not expire.
const everyDay = math.MaxInt32

// LiftSubject deletes the mark of a forgotten subject. The marks of its keys stay, and a time after the mark, so that no restored Redis
// brings it back: see TakeMarks. It reports whether the subject was marked.
func (d *DB) LiftSubject(ctx context.Context, of seal.Subject) (marked bool, err error) {
	if err := d.Begin(ctx); err != nil {
		return false, err
	}

	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	marked, err = d.lift(ctx, of)
	return marked, d.wrap("lift", err)
}

func (d *DB) lift(ctx context.Context, of seal.Subject) (bool, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	var mark string
	err = tx.QueryRowContext(ctx, d.marks("DELETE FROM history_seals WHERE name = ? RETURNING value"), vault.Mark(string(of))).Scan(&mark)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}

	if err == nil { // the next forget is later, see package vault
		err = d.putLater(ctx, tx, vault.Lift(of), strconv.FormatInt(vault.MarkedAt(mark).UnixMilli()+1, 10), everyDay)
	}

	if err != nil {
		return false, err
	}

	return true, tx.Commit()
}

// lacking are marks of a subject that the table lacks.
type lacking struct {
	at   time.Time     // of the mark of the subject; zero = the table has it, or the subject was lifted since
	keys []vault.Field // the marks of its data keys
}

// TakeMarks implements [vault.Marks].
func (d *DB) TakeMarks(ctx context.Context, list []vault.Field, dryRun bool) (subjects int, err error) {
	if err := d.Begin(ctx); err != nil {
		return 0, err
	}

	lacks, err := d.lacks(ctx, list)
	if err != nil {
		return 0, d.wrap("keys", err)
	}

	if dryRun {
		return len(lacks), nil
	}

	for _, of := range slices.Sorted(maps.Keys(lacks)) {
		if err := d.take(ctx, of, lacks[of]); err != nil {
			return subjects, err
		}

		subjects++
	}

	return subjects, nil
}

// lacks returns the marks of a list that the table lacks, by their subjects.
func (d *DB) lacks(ctx context.Context, list []vault.Field) (map[seal.Subject]lacking, error) {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()

	names := make([]string, 0, 2*len(list))
	for _, f := range list {
		of, _, _ := vault.ParseMark(f)
		names = append(names, f.Name, vault.Lift(of))
	}

	slices.Sort(names)
	known, err := d.readSeals(ctx, d.lookups, slices.Compact(names))
	if err != nil {
		return nil, err
	}

	all, knew := map[seal.Subject]lacking{}, map[seal.Subject]time.Time{}
	for _, f := range list {
		of, id, _ := vault.ParseMark(f)
		if has := known[f.Name].value; id != "" && has == "" {
			x := all[of]
			x.keys = append(x.keys, f)
			all[of] = x
		} else if at := vault.MarkedAt(has); id != "" && at.After(knew[of]) {
			knew[of] = at
		}
	}

	for _, f := range list {
		of, id, at := vault.ParseMark(f)
		if id != "" || known[f.Name].value != "" {
			continue
		}

		// Redis may be from before a lift. An earlier version kept no time of it, but the marks of the data keys.
		if end := known[vault.Lift(of)].value; end != "" && vault.MarkedAt(end).After(at) || !knew[of].Before(at) {
			continue
		}

		x := all[of]
		x.at = at
		all[of] = x
	}

	return all, nil
}

// take forgets a subject, or only some of its data keys.
func (d *DB) take(ctx context.Context, of seal.Subject, x lacking) error {
	if !x.at.IsZero() {
		in := vault.Forgotten{At: x.at}
		for _, f := range x.keys {
			_, id, _ := vault.ParseMark(f)
			in.IDs = append(in.IDs, id)
		}

		_, err := d.ForgetKeys(ctx, of, in)
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()

	err := d.deleteMarked(ctx, x.keys)
	if err == nil && d.sqlite {
		err = d.clean(ctx)
	}

	return d.wrap("forget", err)
}

// deleteMarked marks and deletes data keys.
func (d *DB) deleteMarked(ctx context.Context, marks []vault.Field) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	for _, f := range marks {
		_, id, _ := vault.ParseMark(f)
		if err := d.putSeal(ctx, tx, f.Name, f.Value, 0); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, d.marks("DELETE FROM history_seals WHERE name = ?"), id); err != nil {
			return err
		}
	}

	return tx.Commit()
}
