package vault

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/seal"
	"notifier/internal/wire"
)

var (
	//go:embed lua/sealnamed.lua
	namedSource string
	//go:embed lua/sealunused.lua
	unusedSource string

	namedScript  = wire.NewScript("sealnamed", namedSource, false).Anywhere()
	unusedScript = wire.NewScript("sealunused", unusedSource, false).Anywhere()
)

// unusedSince begins the names of the fields with the time since when a data key is unused, in Unix ms.
const unusedSince = "unused:"

// dataField reads the field of a data key as field does, and whether the key is marked as unused.
func (v *Vault) dataField(ctx context.Context, shard int, id string) (value string, unused bool, err error) {
	got, err := v.w.Redis.HMGet(ctx, v.w.Space.Seals(shard), id, forgotten+id, unusedSince+id).Result()
	if err != nil {
		return "", false, v.w.Fail("seal", err)
	}

	value, err = unmarked(got)
	return value, got[2] != nil, err
}

// using ends the mark of an unused data key that is about to seal texts.
func (v *Vault) using(ctx context.Context, shard int, id string) error {
	return v.w.Wrapped("seal", v.w.Redis.HDel(ctx, v.w.Space.Seals(shard), unusedSince+id).Err())
}

// Cleaner deletes the keys of subjects without notices, which otherwise stay for ever. A data key is unused from the first Clean that
// finds no record that names it, until it seals a text again. All instances may clean at once, but each reads all records.
//
// The keys of a text that is still to be stored are not deleted: a text is sealed with a key that was read within [KeyAge], each such read
// ends the mark, and Keep is longer than any call.
type Cleaner struct {
	Vault *Vault
	// Prefixes returns all prefixes that may have notices.
	Prefixes func() []string
	// Keep is how long an unused key stays. It is longer than tombstones, which have digests of the subject's digest key.
	Keep time.Duration
	// Renew is after how long the data key of a route or audience is replaced by a new one for new texts; 0 = never.
	Renew time.Duration
	// AtOnce is how many ids of a shard are in memory at a time; 0 = a million, about 100 MB. More take several passes.
	AtOnce int
}

// Clean deletes the keys that have been unused for Keep, and returns how many data keys it has deleted, each counted in every shard.
func (c *Cleaner) Clean(ctx context.Context) (deleted int, err error) {
	// Current shards first: they take the keys that they need from old places.
	for _, place := range c.Vault.w.Space.Newest() {
		n, err := c.Vault.w.Redis.HLen(ctx, c.Vault.w.Space.Seals(place)).Result()
		if err != nil {
			return deleted, c.Vault.w.Fail(namedScript.Op, err)
		}

		most := c.AtOnce
		if most == 0 {
			most = 1_000_000
		}

		passes := int(n)/most + 1
		for pass := range passes {
			n, err := c.pass(ctx, place, share{passes, pass})
			if deleted += n; err != nil {
				return deleted, err
			}
		}

		now, err := c.Vault.w.Now(ctx)
		if err == nil {
			err = c.renew(ctx, place, now)
		}

		if err != nil {
			return deleted, err
		}
	}

	return deleted, nil
}

// share selects every nth data key by its id.
type share struct{ n, this int }

func (s share) has(id string) bool { return (int(id[0])*64+int(id[1]))%s.n == s.this }

func (s share) String() string { return fmt.Sprintf("%d %d", s.n, s.this) }

// pass cleans one place of the data keys of a share.
func (c *Cleaner) pass(ctx context.Context, place int, of share) (deleted int, err error) {
	v := c.Vault
	now, err := v.w.Now(ctx)
	if err != nil {
		return 0, err
	}

	used, err := c.named(ctx, place, of)
	if err != nil {
		return 0, err
	}

	marks, there := map[string]string{}, map[string]bool{}
	err = fields(ctx, v.w, place, func(name, value string) {
		id, marked := strings.CutPrefix(name, unusedSince)
		switch {
		case !seal.IsKeyID(id) || !of.has(id):
		case marked:
			marks[id] = value
		default:
			there[id] = true
		}
	})
	if err != nil {
		return 0, err
	}

	for id := range used {
		if !there[id] {
			if _, err := v.bringKey(ctx, place, id); err != nil && ForgottenAt(err).IsZero() {
				return 0, err
			}
		}
	}

	return c.sort(ctx, place, now, found{used, there, marks})
}

// found is what a pass has found: the data keys that records name, those of the place, and the marks of unused ones.
type found struct {
	used, there map[string]bool
	marks       map[string]string
}

// sort marks the unused data keys, ends the marks of others, and deletes the keys whose marks are old.
func (c *Cleaner) sort(ctx context.Context, place int, now time.Time, f found) (deleted int, err error) {
	w := c.Vault.w
	seals := w.Space.Seals(place)
	var add, old []any
	for id := range f.there {
		mark, marked := f.marks[id]
		switch {
		case f.used[id]:
			continue
		case !marked:
			add = append(add, unusedSince+id, now.UnixMilli())
		case now.Sub(MarkedAt(mark)) >= c.Keep:
			old = append(old, id, mark)
		}
	}

	var end []string
	for id := range f.marks {
		if f.used[id] || !f.there[id] {
			end = append(end, unusedSince+id)
		}
	}

	for some := range slices.Chunk(add, 2*keysAtOnce) {
		if err := w.Redis.HSet(ctx, seals, some...).Err(); err != nil {
			return 0, w.Fail(unusedScript.Op, err)
		}
	}

	for some := range slices.Chunk(end, keysAtOnce) {
		if err := w.Redis.HDel(ctx, seals, some...).Err(); err != nil {
			return 0, w.Fail(unusedScript.Op, err)
		}
	}

	for some := range slices.Chunk(old, 2*keysAtOnce) {
		n, err := w.Int(ctx, unusedScript, []string{seals}, some)
		if deleted += n; err != nil {
			return deleted, err
		}
	}

	return deleted, nil
}

// recordsAtOnce is about how many records one script reads.
const recordsAtOnce = 200

// named returns the data keys that the texts of a place name: those of its records, of a batch that moves, and of its outboxes.
func (c *Cleaner) named(ctx context.Context, place int, of share) (map[string]bool, error) {
	used := map[string]bool{}
	hashes, lists := c.Vault.w.Space.WithRecords(place, c.Prefixes())
	for _, name := range hashes {
		if err := c.namedIn(ctx, "hash", name, of, used); err != nil {
			return nil, err
		}
	}

	for _, name := range lists {
		if err := c.namedIn(ctx, "list", name, of, used); err != nil {
			return nil, err
		}
	}

	return used, nil
}

func (c *Cleaner) namedIn(ctx context.Context, kind, name string, of share, used map[string]bool) error {
	w := c.Vault.w
	for cursor := "0"; ; {
		got, err := w.Parts(ctx, namedScript, 1, []string{name}, []any{kind, cursor, strconv.Itoa(recordsAtOnce), of.String()})
		if err != nil {
			return err
		}

		for _, x := range got[1:] {
			id, ok := x.(string)
			if !ok || !seal.IsKeyID(id) {
				continue // text of a clear notice
			}

			used[id] = true
		}

		cursor, _ = got[0].(string)
		if cursor == "0" || cursor == "" {
			return nil
		}
	}
}
