package jobs

import (
	"context"
	_ "embed"
	"slices"

	"golang.org/x/time/rate"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

//go:embed lua/sealrecord.lua
var sealRecordSource string

var sealRecordScript = wire.NewScript("sealrecord", sealRecordSource, true).Confirmed()

// Sealer seals the notices, and the definitions of recurring notices, that were stored in clear text before their routes sealed, and
// the queries of those that were stored before their routes sealed urls. Instances may deliver at the same time. It may be repeated,
// also after a kill: it reads all notices, and changes only clear ones.
type Sealer struct {
	Store  *store.Store
	Routes *route.Table
	Vault  *vault.Vault
	// Rate is the highest number of notices a second that are sealed; 0 = no limit.
	Rate float64
	// DryRun only counts.
	DryRun bool
	// Progress is called with the number of notices that were read since the last call. It may be nil.
	Progress func(n int)

	done  SealedExisting
	limit *rate.Limiter
}

// SealedExisting is the result of a Sealer. A definition of a recurring notice counts as one notice.
type SealedExisting struct {
	// Sealed is how many notices were sealed, or would be: those in clear text, and those whose urls were.
	Sealed int `json:"sealed"`
	// Left is how many are still clear: they were claimed, changed at the same time, or Redis has lost the new key. Another run seals them.
	Left int `json:"left"`
	// Refused is how many cannot be sealed: they lack an audience, or their audience or id was forgotten.
	Refused int `json:"refused"`
}

// sealAtOnce is how many notices one step seals.
const sealAtOnce = 100

// Run seals all clear notices of routes that seal.
func (s *Sealer) Run(ctx context.Context) (SealedExisting, error) {
	s.Vault.SealURLs(s.Routes.SealsURL)
	s.limit = rate.NewLimiter(rate.Inf, sealAtOnce)
	if s.Rate > 0 {
		s.limit.SetLimit(rate.Limit(s.Rate))
	}

	for place := range s.Store.Space().Places() {
		s.Vault.Forget(place)
		for _, prefix := range slices.Sorted(slices.Values(s.Store.Layout.Prefixes())) {
			if err := s.partition(ctx, keys.Partition{Prefix: prefix, Shard: place}); err != nil {
				return s.done, err
			}
		}
	}

	return s.done, nil
}

// partition seals the definitions and notices of one partition. An occurrence that a clear definition has stored before is sealed as a
// notice.
func (s *Sealer) partition(ctx context.Context, p keys.Partition) error {
	if err := s.definitions(ctx, p); err != nil {
		return err
	}

	for cursor := uint64(0); ; {
		ks, next, err := s.Store.Layout.ScanKeys(ctx, p, cursor, sealAtOnce)
		if err != nil {
			return err
		}

		for some := range slices.Chunk(ks, sealAtOnce) {
			if err := s.seal(ctx, p, some); err != nil {
				return err
			}
		}

		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// seal seals those of some notices that are clear.
func (s *Sealer) seal(ctx context.Context, p keys.Partition, ks []string) error {
	found, err := s.Store.FindMany(ctx, p, ks)
	if err != nil {
		return err
	}

	var list []rewrite
	for i := range found {
		x, ok, err := s.sealed(ctx, p.Shard, &found[i])
		if err != nil {
			return err
		}

		if ok {
			list = append(list, x)
		}
	}

	if s.Progress != nil {
		s.Progress(len(ks))
	}

	return s.write(ctx, p, s.Store.Space().Records(p), list)
}

// definitions seals the definitions of recurring notices of one partition.
func (s *Sealer) definitions(ctx context.Context, p keys.Partition) error {
	for cursor := uint64(0); ; {
		all, next, err := store.NewRecurrences(s.Store).Stored(ctx, p, cursor)
		if err != nil {
			return err
		}

		for some := range slices.Chunk(all, sealAtOnce) {
			if err := s.sealDefinitions(ctx, p, some); err != nil {
				return err
			}
		}

		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// sealDefinitions seals those of some definitions that are clear.
func (s *Sealer) sealDefinitions(ctx context.Context, p keys.Partition, some []store.Defined) error {
	var list []rewrite
	for _, d := range some {
		x, ok, err := s.definition(ctx, p.Shard, d)
		if err != nil {
			return err
		}

		if ok {
			list = append(list, x)
		}
	}

	return s.write(ctx, p, s.Store.Space().Recurring(p), list)
}

// definition returns a definition sealed that is clear, or whose url is; ok is false if there is nothing to write.
func (s *Sealer) definition(ctx context.Context, shard int, d store.Defined) (x rewrite, ok bool, err error) {
	r, err := recur.Decode(d.Key, d.Text())
	if err != nil || r.Key == "" { // unreadable or deleted
		return x, false, nil
	}

	c := r.Content
	ok, err = s.sealing(d.Key, &r.Content, func(of seal.Subject) (err error) {
		if c.Sealed != "" {
			if c, err = s.Vault.Open(ctx, shard, d.Key, &r.Content); err != nil {
				return err
			}
		}

		return s.Vault.SealRecurring(ctx, shard, of, d.Key, &c)
	})
	return rewrite{d.Key, d.Text(), r.Resealed(c)}, ok, err
}

// sealed returns the sealed record of a notice that is clear, or whose url is; ok is false if there is nothing to write.
func (s *Sealer) sealed(ctx context.Context, shard int, f *store.Found) (x rewrite, ok bool, err error) {
	if f.Notice == nil || f.Raw != nil {
		return x, false, nil
	}

	n := f.Notice
	ok, err = s.sealing(f.Key, &f.Content, func(of seal.Subject) (err error) {
		n, err = sealed(ctx, s.Vault, place{shard, of}, f.Notice)
		return err
	})
	if !ok {
		return x, false, err
	}

	return rewrite{f.Key, f.Record(), string(store.AppendRecord(nil, n))}, true, nil
}

// sealing calls do with the subject of a content that its route seals and that is clear, but for a dry run. ok is false if there is nothing
// to seal, or if the content cannot be sealed, which it counts.
func (s *Sealer) sealing(key string, c *notice.Content, do func(of seal.Subject) error) (ok bool, err error) {
	to := s.Routes.Match(key)
	if to == nil || !to.SealsMore(c) {
		return false, nil
	}

	of, fault := to.SealSubject(c.Audience, key)
	if fault == nil && !s.DryRun {
		err = do(of)
	}

	if fault != nil || !vault.ForgottenAt(err).IsZero() {
		s.done.Refused++
		return false, nil
	}

	return err == nil, err
}

// write replaces the values of a hash of a partition by sealed ones.
func (s *Sealer) write(ctx context.Context, p keys.Partition, hash string, list []rewrite) error {
	if s.DryRun || len(list) == 0 {
		s.done.Sealed += len(list)
		return nil
	}

	if err := s.limit.WaitN(ctx, len(list)); err != nil {
		return err
	}

	args := []any{s.Store.Space().ClaimPrefix(p.Shard)}
	for _, x := range list {
		args = append(args, x.key, x.was, x.now)
	}

	replies, err := s.Store.Layout.Parts(ctx, sealRecordScript, len(list), []string{hash}, args)
	if err != nil {
		return err
	}

	for _, r := range replies {
		switch r {
		case int64(1):
			s.done.Sealed++
			continue
		case int64(-1):
			s.Vault.Forget(p.Shard) // the next step stores the keys again
		}

		s.done.Left++
	}

	return nil
}
