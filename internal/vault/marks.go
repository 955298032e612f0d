package vault

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/seal"
	"notifier/internal/wire"
)

//go:embed lua/sealforget.lua
var forgetSource string

var forgetScript = wire.NewScript("sealforget", forgetSource, false).Anywhere().Confirmed()

// marking forgets subjects and data keys: a subject now, or many as of the times of their marks elsewhere. It reads all fields once,
// however many there are.
type marking struct {
	w        *wire.Client
	subjects map[seal.Subject]time.Time // zero = now
	keys     map[string]deleted         // by the id of the data key
	lifted   bool                       // subjects that were lifted since are marked too; else they get no mark, and their newer keys stay

	deleted     int // data keys, each counted in every place
	unconfirmed error
}

// scanned is how many fields one command reads.
const scanned = 1000

// deleted is the mark of a deleted data key.
type deleted struct {
	of seal.Subject
	at time.Time
}

func newMarking(w *wire.Client) *marking {
	return &marking{w: w, subjects: map[seal.Subject]time.Time{}, keys: map[string]deleted{}}
}

// add adds the mark of a subject or of a data key.
func (m *marking) add(f Field) {
	if of, id, at := ParseMark(f); id != "" {
		m.keys[id] = deleted{of, at}
	} else {
		m.subjects[of] = at
	}
}

// addMissing adds the marks that a place lacks, unless their subjects were lifted since.
func (m *marking) addMissing(ctx context.Context, list []Field) error {
	for some := range slices.Chunk(list, scanned) {
		missing, err := m.missing(ctx, some)
		if err != nil {
			return err
		}

		for _, x := range missing {
			m.add(x)
		}
	}

	return nil
}

// missing returns the marks that a place lacks, unless their subjects were lifted since.
func (m *marking) missing(ctx context.Context, list []Field) (missing []Field, err error) {
	names := make([]string, 0, 2*len(list))
	for _, x := range list {
		names = append(names, x.Name, lifted+strings.TrimPrefix(x.Name, forgotten))
	}

	lacks, ends := make([]bool, len(list)), make([]time.Time, len(list))
	for place := range m.w.Space.Places() {
		got, err := m.w.Redis.HMGet(ctx, m.w.Space.Seals(place), names...).Result()
		if err != nil {
			return nil, m.w.Fail("seal", err)
		}

		for i := range list {
			lacks[i] = lacks[i] || got[2*i] == nil
			if text, ok := got[2*i+1].(string); ok {
				ends[i] = later(ends[i], MarkedAt(text))
			}
		}
	}

	for i, x := range list {
		if lacks[i] && !ends[i].After(MarkedAt(x.Value)) {
			missing = append(missing, x)
		}
	}

	return missing, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// count returns the number of subjects that have marks to set.
func (m *marking) count() int {
	all := map[seal.Subject]bool{}
	for of := range m.subjects {
		all[of] = true
	}

	for _, x := range m.keys {
		all[x.of] = true
	}

	return len(all)
}

// run sets the marks in all places. With wire.ErrUnconfirmed it has done so. It may be repeated.
func (m *marking) run(ctx context.Context) error {
	if m.count() == 0 {
		return nil
	}

	var list []mark
	for of, at := range m.subjects {
		list = append(list, mark{of: of, at: at})
	}

	// The subjects first, so that no place stores another key of them.
	if err := m.write(ctx, list); err != nil {
		return err
	}
	if err := m.find(ctx); err != nil {
		return err
	}

	list = nil
	for id, x := range m.keys {
		list = append(list, mark{x.of, x.at, id})
	}

	if err := m.write(ctx, list); err != nil {
		return err
	}

	return m.unconfirmed
}

// mark is the mark of a subject or, with an id, of a data key.
type mark struct {
	of seal.Subject
	at time.Time // zero = now
	id string
}

// write sets marks in all places, in each one all of them: an instance may have read a key in one place before, to store it in another.
func (m *marking) write(ctx context.Context, list []mark) error {
	for some := range slices.Chunk(list, keysAtOnce) {
		for place := range m.w.Space.Places() {
			if err := m.writeTo(ctx, place, some); err != nil {
				return err
			}
		}
	}

	return nil
}

// writeTo sets some marks in a place. A mark of now gets the time of the first place, and the latest of a place that has an earlier mark or
// a later lift.
func (m *marking) writeTo(ctx context.Context, place int, list []mark) error {
	mode := "again"
	if m.lifted {
		mode = ""
	}

	args := make([]any, 1, 1+3*len(list))
	args[0] = mode
	for _, x := range list {
		at := ""
		if !x.at.IsZero() {
			at = strconv.FormatInt(x.at.UnixMilli(), 10)
		}

		args = append(args, string(x.of), at, x.id)
	}

	got, err := m.w.Parts(ctx, forgetScript, 1+len(list), []string{m.w.Space.Seals(place)}, args)
	if errors.Is(err, wire.ErrUnconfirmed) && len(got) == 1+len(list) {
		m.unconfirmed, err = err, nil
	}

	if err != nil {
		return err
	}

	n, _ := got[0].(int64)
	m.deleted += int(n)
	for i, x := range list {
		if x.id != "" {
			continue
		}

		switch ms, _ := got[1+i].(int64); {
		case ms < 0:
			delete(m.subjects, x.of) // it was lifted since, and its newer keys stay
		case m.lifted:
			list[i].at = later(x.at, time.UnixMilli(ms).UTC())
			m.subjects[x.of] = list[i].at
		}
	}

	return nil
}

// find adds all data keys of the subjects, deleted ones included.
func (m *marking) find(ctx context.Context) error {
	if len(m.subjects) == 0 {
		return nil
	}

	for place := range m.w.Space.Places() {
		err := fields(ctx, m.w, place, func(name, value string) {
			id, of, ok := dataKeyOf(name, value)
			if at, marked := m.subjects[of]; ok && marked {
				if _, known := m.keys[id]; !known {
					m.keys[id] = deleted{of, at}
				}
			}
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// dataKeyOf returns the id and the subject of a field that has a data key, or marks a deleted one.
func dataKeyOf(name, value string) (id string, of seal.Subject, ok bool) {
	id, deleted := strings.CutPrefix(name, forgotten)
	first, last, _ := strings.Cut(value, " ")
	if deleted {
		first = last
	}

	return id, seal.Subject(first), seal.IsKeyID(id)
}

// Lift ends the mark of a forgotten subject in all shards, so that new notices of it are sealed with new keys. The deleted keys
// stay deleted. It reports whether the subject was marked, and may be repeated.
func (v *Vault) Lift(ctx context.Context, of seal.Subject) (marked bool, err error) {
	now, err := v.w.Now(ctx)
	if err != nil {
		return false, err
	}

	return lift(ctx, v.w, of, now)
}

// lift is Lift at a time. Each place keeps the time, so that neither a migration nor an archive brings the mark back.
func lift(ctx context.Context, w *wire.Client, of seal.Subject, at time.Time) (marked bool, err error) {
	cmds := make([]*redis.StringCmd, w.Space.Places())
	_, err = w.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for place := range cmds {
			cmds[place] = pipe.HGet(ctx, w.Space.Seals(place), forgotten+string(of))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, w.Fail("seal", err)
	}

	for _, cmd := range cmds {
		mark, err := cmd.Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return false, w.Fail("seal", err)
		}

		marked, at = true, later(at, MarkedAt(mark).Add(time.Millisecond)) // the clock of the mark may be ahead
	}

	for place := range cmds {
		_, err := w.Redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.HSet(ctx, w.Space.Seals(place), lifted+string(of), strconv.FormatInt(at.UnixMilli(), 10))
			pipe.HDel(ctx, w.Space.Seals(place), forgotten+string(of))
			return nil
		})
		if err != nil {
			return marked, w.Fail("seal", err)
		}
	}

	return marked, nil
}
