package vault

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"notifier/internal/seal"
)

// Archive has data keys that Redis may have lost.
type Archive interface {
	// SealKey returns the value of a data key, as [Vault.Keys] does; "" = the archive does not have the key. It returns a
	// ForgottenError if the key was forgotten.
	SealKey(ctx context.Context, id string) (string, error)
}

// Table is an archive whose keys are counted and rewrapped.
type Table interface {
	// SealKeyPage returns up to n fields after a name, in the order of their names. Some may be marks.
	SealKeyPage(ctx context.Context, after string, n int) ([]Field, error)
	// ReplaceSealKeys replaces the values that have not changed, and returns their number.
	ReplaceSealKeys(ctx context.Context, list []Replacement) (int, error)
}

// Field is the name of a data key with its value.
type Field struct{ Name, Value string }

// Replacement is a new value of a field.
type Replacement struct {
	Field // with the value that was read
	New   string
}

// eachIn calls f with all keys of a table, at most keysAtOnce at a time.
func eachIn(ctx context.Context, table Table, f func(list []storedKey) error) error {
	for after := ""; ; {
		page, err := table.SealKeyPage(ctx, after, keysAtOnce)
		if err != nil || len(page) == 0 {
			return err
		}

		var list []storedKey
		for _, x := range page {
			if k, ok := readKey(x.Name, x.Value); ok {
				list = append(list, k)
			}
		}

		if err := f(list); err != nil {
			return err
		}

		after = page[len(page)-1].Name
	}
}

// CountIn counts the keys of a table by the name of their service key. It reads all keys.
func CountIn(ctx context.Context, table Table) (map[string]int, error) {
	under := counter{}
	err := eachIn(ctx, table, under.all)
	return under, err
}

// Consult makes the Vault open texts with the keys of an archive if Redis does not have them. New texts are sealed with keys in Redis
// only. Call it before the first Open.
func (v *Vault) Consult(a Archive) { v.archive = a }

// archived returns the value of a data key that Redis does not have; "" = the archive does not have it either.
func (v *Vault) archived(ctx context.Context, id string) (string, error) {
	if v.archive == nil {
		return "", nil
	}

	value, err := v.archive.SealKey(ctx, id)
	if err != nil && ForgottenAt(err).IsZero() {
		return "", fmt.Errorf("%w: Redis has no data key %s, and the history does not answer: %w", ErrSealed, id, err)
	}

	return value, err
}

// Mark returns the field that marks a forgotten subject, or a deleted data key by its id.
func Mark(name string) string { return forgotten + name }

// ParseMark returns the subject and the time of a mark, and the id of the data key that it marks; "" = it marks the subject.
func ParseMark(f Field) (of seal.Subject, id string, at time.Time) {
	at = MarkedAt(f.Value)
	name := strings.TrimPrefix(f.Name, forgotten)
	if !seal.IsKeyID(name) {
		return seal.Subject(name), "", at
	}

	_, text, _ := strings.Cut(f.Value, " ")
	return seal.Subject(text), name, at
}

// Lift returns the field with the time at which the mark of a subject was ended.
func Lift(of seal.Subject) string { return lifted + string(of) }

// MarkedAt returns the time of such a mark, or of another one that begins with Unix ms.
func MarkedAt(mark string) time.Time {
	text, _, _ := strings.Cut(mark, " ")
	ms, _ := strconv.ParseInt(text, 10, 64) // any mark counts
	return time.UnixMilli(ms).UTC()
}

// SubjectOf returns the subject of a data key's value.
func SubjectOf(value string) string {
	of, _, _ := strings.Cut(value, " ")
	return of
}
