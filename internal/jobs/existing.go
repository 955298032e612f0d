package jobs

import (
	"context"
	_ "embed"
	"slices"

	"golang.org/x/time/rate"

	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

//go:embed lua/sealrecord.lua
var sealRecordSource string

var sealRecordScript = wire.NewScript("sealrecord", sealRecordSource, true).Confirmed()

// Sealer seals the notices that were stored in clear text before their routes sealed. Instances may deliver meanwhile. It may be repeated,
// also after a kill: it reads all notices, and changes clear ones.
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

// SealedExisting is the result of a Sealer.
type SealedExisting struct {
	// Sealed is how many clear notices were sealed, or would be.
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

// partition seals the notices of one partition.
func (s *Sealer) partition(ctx context.Context, p keys.Partition) error {
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

	if s.DryRun || len(list) == 0 {
		s.done.Sealed += len(list)
		return nil
	}

	if err := s.limit.WaitN(ctx, len(list)); err != nil {
		return err
	}

	return s.write(ctx, p, list)
}

// sealed returns the sealed record of a clear notice; ok is false if there is nothing to write.
func (s *Sealer) sealed(ctx context.Context, place int, f *store.Found) (x rewrite, ok bool, err error) {
	if f.Notice == nil || f.Raw != nil || f.Sealed != "" {
		return x, false, nil
	}

	to := s.Routes.Match(f.Key)
	if to == nil || to.Seal == "" {
		return x, false, nil
	}

	of, fault := to.SealSubject(f.Audience, f.Key)
	n := f.Notice.ToSeal()
	if fault == "" && !s.DryRun {
		err = s.Vault.SealNotice(ctx, place, of, n)
	}

	if fault != "" || !vault.ForgottenAt(err).IsZero() {
		s.done.Refused++
		return x, false, nil
	}

	return rewrite{f.Key, f.Record(), string(store.AppendRecord(nil, n))}, err == nil, err
}

// write replaces records by sealed ones.
func (s *Sealer) write(ctx context.Context, p keys.Partition, list []rewrite) error {
	args := []any{s.Store.Space().ClaimPrefix(p.Shard)}
	for _, x := range list {
		args = append(args, x.key, x.was, x.now)
	}

	replies, err := s.Store.Layout.Parts(ctx, sealRecordScript, len(list), []string{s.Store.Space().Records(p)}, args)
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
