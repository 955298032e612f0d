package history

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"notifier/internal/seal"
	"notifier/internal/vault"
)

// Sealed rows have encrypted texts. The table history_seals has their data keys, wrapped with a service key, because Redis may
// lose its data keys. Its names and values are the fields of the hashes in Redis: see package vault. It does not have the
// fields of subjects, which are for new texts only.

// KeySource returns the values of data keys of a shard by their ids. A key that Redis does not have is left out.
type KeySource func(ctx context.Context, shard int, ids []string) (map[string]string, error)

// KeepKeys stores the data keys of sealed rows with them. Without KeepKeys none are stored.
func (d *DB) KeepKeys(source KeySource) { d.sealKeys.Store(&source) }

// copyKeys stores the data keys of rows that the table does not have yet. It reads them in Redis within the transaction: so
// ForgetKeys, which comes after the deletion in Redis and waits for the transaction, finds them.
func (d *DB) copyKeys(ctx context.Context, tx *sql.Tx, rows []Row) error {
	source := d.sealKeys.Load()
	if source == nil {
		return nil
	}

	// All transactions lock the keys in the same order, so that none waits for another in a circle.
	shards := shardsOf(rows)
	ids, day := slices.Sorted(maps.Keys(shards)), lastDay(rows)
	missing, err := d.unknownKeys(ctx, tx, ids, day)
	if err != nil {
		return err
	}

	by := map[int][]string{}
	for _, id := range missing {
		by[shards[id]] = append(by[shards[id]], id)
	}

	all := map[string]string{}
	for shard, ids := range by {
		values, err := (*source)(ctx, shard, ids)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoKeys, err)
		}

		maps.Copy(all, values)
	}

	return d.addKeys(ctx, tx, all, day)
}

// unknownKeys returns the ids of data keys that the table does not have. For those that it has it notes that an entry of a day needs
// them.
func (d *DB) unknownKeys(ctx context.Context, tx *sql.Tx, ids []string, day int64) (missing []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}

	names := make([]string, 0, 2*len(ids))
	for _, id := range ids {
		names = append(names, id, vault.Mark(id))
	}

	known, err := d.readSeals(ctx, tx, names)
	if err != nil {
		return nil, err
	}

	for _, id := range ids {
		there := known[id].value != ""
		if there && known[id].used < day {
			// Expire may have deleted the key since, or another writer may have noted a later day.
			n, err := changed(tx.ExecContext(ctx, d.marks("UPDATE history_seals SET used = CASE WHEN used < ? THEN ? ELSE used END WHERE name = ?"),
				day, day, id))
			if err != nil {
				return nil, err
			}

			there = n > 0
		}

		if !there && known[vault.Mark(id)].value == "" {
			missing = append(missing, id)
		}
	}

	return missing, nil
}

// expireKeys deletes the data keys that only entries of before a time needed.
func (d *DB) expireKeys(ctx context.Context, before time.Time) error {
	const some = "SELECT name FROM history_seals WHERE used < ? AND (name < ? OR name > ?) LIMIT ?"
	for {
		n, err := changed(d.db.ExecContext(ctx, d.marks("DELETE FROM history_seals WHERE name IN ("+some+") AND used < ?"), dayNumber(before)-1,
			firstMark, lastMark, keysStep, dayNumber(before)-1))
		if err != nil || n < keysStep {
			return d.wrap("expire", err)
		}
	}
}

// keysStep is how many data keys one statement deletes.
const keysStep = 5000

// dayNumber returns the number of the UTC days from 1970 until a time.
func dayNumber(at time.Time) int64 { return at.Unix() / (24 * 60 * 60) }

// lastDay returns the day on which the last of some rows ended.
func lastDay(rows []Row) (day int64) {
	for i := range rows {
		day = max(day, dayNumber(rows[i].Ended))
	}

	return day
}

// shardsOf returns a shard of each data key of rows, by its id.
func shardsOf(rows []Row) map[string]int {
	shards := map[string]int{}
	for i := range rows {
		for _, id := range rows[i].DataKeys() {
			shards[id] = rows[i].Shard
		}
	}

	return shards
}

// DataKeys returns the ids of the data keys that open the row. A text that cannot be read has none.
func (r *Row) DataKeys() (ids []string) {
	add := func(sealed string) {
		if text, err := seal.ParseText(sealed); err == nil && !slices.Contains(ids, text.DataKey) {
			ids = append(ids, text.DataKey)
		}
	}
	add(r.Sealed)
	for i := range r.Attempts {
		add(r.Attempts[i].Sealed)
	}

	return ids
}

// addKeys stores data keys that an entry of a day needs. It marks those of forgotten subjects instead.
func (d *DB) addKeys(ctx context.Context, tx *sql.Tx, values map[string]string, day int64) error {
	marks := make([]string, 0, len(values))
	for _, value := range values {
		marks = append(marks, vault.Mark(vault.SubjectOf(value)))
	}

	slices.Sort(marks)
	forgotten, err := d.readSeals(ctx, tx, slices.Compact(marks))
	if err != nil {
		return err
	}

	for _, id := range slices.Sorted(maps.Keys(values)) {
		name, value := id, values[id]
		if mark := forgotten[vault.Mark(vault.SubjectOf(value))].value; mark != "" {
			name, value = vault.Mark(id), mark+" "+vault.SubjectOf(value)
		}

		if err := d.putSeal(ctx, tx, name, value, day); err != nil {
			return err
		}
	}

	return nil
}

type executor interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

// putSeal stores a name that the table does not have. day is the last one with an entry that needs it: of two writers the later one counts.
func (d *DB) putSeal(ctx context.Context, e executor, name, value string, day int64) error {
	_, err := e.ExecContext(ctx, d.marks("INSERT INTO history_seals (name, value, used) VALUES (?, ?, ?) "+
		"ON CONFLICT (name) DO UPDATE SET used = excluded.used WHERE history_seals.used < excluded.used"), name, value, day)
	return err
}

// storedSeal is a row of the table.
type storedSeal struct {
	value string
	used  int64 // the last day with an entry that needs the key
}

// readSeals returns the rows of names that the table has.
func (d *DB) readSeals(ctx context.Context, q rowsQuerier, names []string) (map[string]storedSeal, error) {
	out := map[string]storedSeal{}
	for some := range slices.Chunk(names, digestsAtOnce) {
		args := make([]any, len(some))
		for i, name := range some {
			args[i] = name
		}

		if err := d.eachSeal(ctx, q, "WHERE name IN (?"+strings.Repeat(", ?", len(some)-1)+")", args, func(name string, x storedSeal) {
			out[name] = x
		}); err != nil {
			return nil, err
		}
	}

	return out, nil
}

// eachSeal calls f with the names and rows that a condition selects.
func (d *DB) eachSeal(ctx context.Context, q rowsQuerier, where string, args []any, f func(name string, x storedSeal)) error {
	rows, err := q.QueryContext(ctx, d.marks("SELECT name, value, used FROM history_seals "+where), args...)
	if err != nil {
		return err
	}

	defer rows.Close()

	for rows.Next() {
		var name string
		var x storedSeal
		if err := rows.Scan(&name, &x.value, &x.used); err != nil {
			return err
		}

		f(name, x)
	}

	return rows.Err()
}

// SealKey returns the value of a data key; "" = the history does not have the key. It returns a *vault.ForgottenError if the
// key was forgotten.
func (d *DB) SealKey(ctx context.Context, id string) (string, error) {
	values, forgotten, err := d.SealKeys(ctx, []string{id})
	if at, ok := forgotten[id]; ok {
		return "", &vault.ForgottenError{At: at}
	}

	return values[id], err
}

// SealKeys returns the values of data keys that the history has, and when the others were forgotten.
func (d *DB) SealKeys(ctx context.Context, ids []string) (values map[string]string, forgotten map[string]time.Time, err error) {
	if err := d.Begin(ctx); err != nil {
		return nil, nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()

	names := slices.Clone(ids)
	for _, id := range ids {
		names = append(names, vault.Mark(id))
	}

	found, err := d.readSeals(ctx, d.lookups, names)
	if err != nil {
		return nil, nil, d.wrap("keys", err)
	}

	values, forgotten = map[string]string{}, map[string]time.Time{}
	for _, id := range ids {
		if mark := found[vault.Mark(id)].value; mark != "" {
			forgotten[id] = vault.MarkedAt(mark)
		} else if value := found[id].value; value != "" {
			values[id] = value
		}
	}

	return values, forgotten, nil
}

// ForgetKeys deletes the data keys of a subject, and marks them and the subject, so that no row brings them again, and no restored
// Redis: see [vault.Recall]. It is called after they were deleted in Redis, and may be repeated. It returns the number of deleted keys.
func (d *DB) ForgetKeys(ctx context.Context, of seal.Subject, in vault.Forgotten) (deleted int64, err error) {
	if err := d.Begin(ctx); err != nil {
		return 0, err
	}

	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()

	mark := strconv.FormatInt(in.At.UnixMilli(), 10)
	if err = d.putMark(ctx, of, mark); err == nil {
		err = d.awaitWrites(ctx)
	}

	if err == nil {
		deleted, err = d.deleteKeys(ctx, of, mark, in.IDs)
	}

	if err == nil && d.sqlite {
		err = d.clean(ctx)
	}

	return deleted, d.wrap("forget", err)
}

// awaitWrites waits for the transactions that write entries at the moment.
func (d *DB) awaitWrites(ctx context.Context) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // it only waits
	return d.lockWrites(ctx, tx)
}

// deleteKeys marks and deletes the data keys of a subject. It also marks keys that Redis had and no entry has.
func (d *DB) deleteKeys(ctx context.Context, of seal.Subject, mark string, ids []string) (int64, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	begin := string(of) + " "
	length := utf8.RuneCountInString(begin)
	if _, err := tx.ExecContext(ctx, d.marks("INSERT INTO history_seals (name, value) SELECT '"+vault.Mark("")+"' || name, "+d.text()+
		" FROM history_seals WHERE substr(value, 1, ?) = ? ON CONFLICT (name) DO NOTHING"), mark+" "+string(of), length, begin); err != nil {
		return 0, err
	}

	for _, id := range ids {
		if err := d.putSeal(ctx, tx, vault.Mark(id), mark+" "+string(of), 0); err != nil {
			return 0, err
		}
	}

	n, err := changed(tx.ExecContext(ctx, d.marks("DELETE FROM history_seals WHERE substr(value, 1, ?) = ?"), length, begin))
	if err != nil {
		return 0, err
	}

	return n, tx.Commit()
}

// text returns the placeholder of a text whose type the statement does not show.
func (d *DB) text() string {
	if d.sqlite {
		return "?"
	}
	return "?::text"
}

// changed returns the number of rows that a statement has changed.
func changed(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// SealKeyPage returns up to n fields after a name, in the order of their names.
func (d *DB) SealKeyPage(ctx context.Context, after string, n int) ([]vault.Field, error) {
	return d.sealPage(ctx, "WHERE name > ? ORDER BY name LIMIT ?", after, n)
}

func (d *DB) sealPage(ctx context.Context, where string, args ...any) (list []vault.Field, err error) {
	if err := d.Begin(ctx); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()

	err = d.eachSeal(ctx, d.lookups, where, args, func(name string, x storedSeal) {
		list = append(list, vault.Field{Name: name, Value: x.value})
	})
	return list, d.wrap("keys", err)
}

// ReplaceSealKeys replaces the values that have not changed, and returns their number.
func (d *DB) ReplaceSealKeys(ctx context.Context, list []vault.Replacement) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, d.wrap("rewrap", err)
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	replaced := 0
	for _, x := range list {
		n, err := changed(tx.ExecContext(ctx, d.marks("UPDATE history_seals SET value = ? WHERE name = ? AND value = ?"), x.New, x.Name, x.Value))
		if err != nil {
			return 0, d.wrap("rewrap", err)
		}

		replaced += int(n)
	}

	return replaced, d.wrap("rewrap", tx.Commit())
}

// HasKeys reports whether the database has a table of data keys. Another version of the schema has none, or this program does not
// know it. It changes nothing.
func (d *DB) HasKeys(ctx context.Context) (bool, error) {
	has, err := d.Version(ctx)
	if err == nil && has > Newest {
		err = ErrNewer
	}

	return has == Newest, err
}
