package vault

import (
	"context"
	_ "embed"
	"slices"

	"golang.org/x/time/rate"

	"notifier/internal/seal"
	"notifier/internal/wire"
)

//go:embed lua/rewrap.lua
var rewrapSource string

var rewrapScript = wire.NewScript("rewrap", rewrapSource, true).Anywhere().Confirmed()

// Rewrapper wraps the keys of all subjects with the first service key. Running instances may use and store keys meanwhile, and
// several Rewrappers may run. After an error, also a kill, Run continues where it was.
type Rewrapper struct {
	Keys *seal.ServiceKeys
	Wire *wire.Client
	// Table has more keys; nil = there is none.
	Table Table
	// Check is called before each write, which it refuses with an error. Nil = no check.
	Check func(context.Context) error
	// Rate is the highest number of keys a second that are wrapped; 0 = no limit.
	Rate float64
	// DryRun only counts.
	DryRun bool
	// Progress is called with the number of keys that were read since the last call. It may be nil.
	Progress func(n int)

	done  Rewrapped
	limit *rate.Limiter
}

// Rewrapped is the result of a Rewrapper.
type Rewrapped struct {
	// Rewrapped is how many keys were wrapped with the first service key, or would be.
	Rewrapped int `json:"rewrapped"`
	// Under is how many keys are wrapped with each service key. Without a dry run it was counted afterwards.
	Under counter `json:"under"`
	// InTable is how many of the keys of Under are in Table.
	InTable int `json:"in_history"`
	// Unreadable is how many keys do not open with the configured service key of that name.
	Unreadable int `json:"unreadable"`
}

// maxPasses bounds how often Run reads all keys. Each pass but the last has found keys to wrap.
const maxPasses = 5

// Run wraps all keys. It repeats until it finds no key that it can wrap, because instances may store keys meanwhile.
func (r *Rewrapper) Run(ctx context.Context) (Rewrapped, error) {
	r.limit = rate.NewLimiter(rate.Inf, keysAtOnce)
	if r.Rate > 0 {
		r.limit.SetLimit(rate.Limit(r.Rate))
	}

	for range maxPasses {
		before := r.done.Rewrapped
		if err := r.pass(ctx); err != nil || r.DryRun || r.done.Rewrapped == before {
			return r.done, err
		}
	}

	return r.done, nil
}

// Total returns the number of fields that one pass reads.
func (r *Rewrapper) Total(ctx context.Context) (total int64, err error) {
	for shard := range r.Wire.Space.Places() {
		n, err := r.Wire.Redis.HLen(ctx, r.Wire.Space.Seals(shard)).Result()
		if err != nil {
			return 0, r.Wire.Fail("seal", err)
		}

		total += n
	}

	return total, nil
}

// pass reads all keys once.
func (r *Rewrapper) pass(ctx context.Context) error {
	r.done.Under, r.done.Unreadable = counter{}, 0
	r.done.InTable = 0
	if err := each(ctx, r.Wire, func(shard int, list []storedKey) error {
		return r.wrap(ctx, list, func(x []Replacement) (int, error) { return r.replace(ctx, shard, x) })
	}); err != nil || r.Table == nil {
		return err
	}

	return eachIn(ctx, r.Table, func(list []storedKey) error {
		r.done.InTable += len(list)
		return r.wrap(ctx, list, func(x []Replacement) (int, error) { return r.Table.ReplaceSealKeys(ctx, x) })
	})
}

// replace replaces the values of keys in a shard that have not changed, and returns their number.
func (r *Rewrapper) replace(ctx context.Context, shard int, list []Replacement) (int, error) {
	args := make([]any, 0, 3*len(list))
	for _, x := range list {
		args = append(args, x.Name, x.Value, x.New)
	}

	return r.Wire.Int(ctx, rewrapScript, []string{r.Wire.Space.Seals(shard)}, args)
}

// wrap wraps some keys of one place, and replaces them there.
func (r *Rewrapper) wrap(ctx context.Context, list []storedKey, replace func([]Replacement) (int, error)) error {
	to, all := r.Keys.Names()[0], []Replacement{}
	for _, k := range list {
		r.done.Under.add(k.under)
		if k.under == to || !slices.Contains(r.Keys.Names(), k.under) {
			continue
		}

		wrapped, err := rewrapped(r.Keys, r.Wire.Space.Namespace, k)
		if err != nil {
			r.done.Unreadable++
			continue
		}

		all = append(all, Replacement{Field{k.field, k.value}, k.value[:len(k.value)-len(k.wrapped)] + wrapped})
	}

	n := len(all)
	if n > 0 && !r.DryRun {
		if err := r.limit.WaitN(ctx, n); err != nil {
			return err
		}

		if r.Check != nil {
			if err := r.Check(ctx); err != nil {
				return err
			}
		}

		var err error
		if n, err = replace(all); err != nil {
			return err
		}
	}

	r.done.Rewrapped += n
	if r.Progress != nil {
		r.Progress(len(list))
	}

	return nil
}

// rewrapped returns the stored form of a key under the first service key.
func rewrapped(keys *seal.ServiceKeys, space string, k storedKey) (string, error) {
	if k.digest {
		d, err := keys.UnwrapDigest(space, k.of, k.id, k.wrapped)
		if err != nil {
			return "", err
		}

		return keys.WrapDigest(space, k.of, d)
	}

	d, err := keys.UnwrapData(space, k.of, k.id, k.wrapped)
	if err != nil {
		return "", err
	}

	return keys.WrapData(space, k.of, d)
}
