package redirect

import (
	"context"
	"slices"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

const (
	stepKeys  = 100     // notices of one step, as a rule
	stepBytes = 4 << 20 // of records, above which the next step is smaller
)

// Partitions returns the partitions that may hold notices of a rule, by shard and prefix.
func Partitions(s Redis, r *Rule) (list []keys.Partition) {
	prefixes := slices.Sorted(slices.Values(s.Layout.Prefixes()))
	for shard := range s.Space().Places() {
		for _, prefix := range prefixes {
			if Overlaps(prefix, r.Prefix) {
				list = append(list, keys.Partition{Shard: shard, Prefix: prefix})
			}
		}
	}

	return list
}

// Overlaps reports whether a key may be under both prefixes. The empty prefix is that of all keys.
func Overlaps(a, b string) bool {
	return a == "" || b == "" || a == b || keys.HasPrefix(a, b) || keys.HasPrefix(b, a)
}

// visitor reads notices for a redirect.
type visitor struct {
	s      Redis
	routes *route.Table
	r      *Redirect
	later  map[string]bool // ids of later redirects, whose notices stay
}

// visited is the result of a visit.
type visited struct {
	matched, refused int64
	left             []string // keys of notices in flight
}

// visit reads notices of a partition in bounded steps, and calls do with those to change.
func (v visitor) visit(ctx context.Context, p keys.Partition, ks []string,
	do func(context.Context, keys.Partition, []item) ([]string, error)) (sum visited, err error) {
	ks = slices.Compact(slices.Sorted(slices.Values(ks)))
	for size := stepKeys; len(ks) > 0; {
		n := min(size, len(ks))
		found, err := v.s.FindMany(ctx, p, ks[:n])
		if err != nil {
			return sum, err
		}

		ks = ks[n:]
		items, bytes := v.judge(found, &sum)
		if size = min(2*size, stepKeys); bytes > stepBytes {
			size = max(n/4, 1)
		}

		if len(items) == 0 {
			continue
		}

		left, err := do(ctx, p, items)
		if err != nil {
			return sum, err
		}

		sum.left = append(sum.left, left...)
	}

	return sum, nil
}

// judge returns the notices to change, and adds the others that match to sum.
func (v visitor) judge(found []store.Found, sum *visited) (items []item, bytes int) {
	for i := range found {
		f := &found[i]
		if f.Notice == nil {
			continue
		}

		bytes += len(f.Record())
		if !v.applies(f) {
			continue
		}

		sum.matched++
		n := f.Readdress(notice.Address{URL: v.r.Target(f.URL), KeepHeaders: v.r.KeepHeaders, Redirect: v.r.ID})
		to := v.routes.Match(f.Key)
		switch {
		case to == nil || to.CheckAddress(&n.Content) != nil:
			sum.refused++
		case f.State == notice.Claimed:
			sum.left = append(sum.left, f.Key)
		default:
			items = append(items, item{f.Key, f.Record(), string(store.AppendRecord(nil, n))})
		}
	}
	return items, bytes
}

// applies reports whether the redirect has to change a notice, now or when its attempt has ended.
func (v visitor) applies(f *store.Found) bool {
	pending := f.State == notice.Scheduled || f.State == notice.Claimed
	return pending && f.Raw == nil && f.Redirect != v.r.ID && !v.later[f.Redirect] && !f.Made.Time().After(v.r.Made) && v.r.Matches(f.Notice)
}

// change writes notices, and returns the keys of those that were left.
func (v visitor) change(ctx context.Context, p keys.Partition, list []item) (left []string, err error) {
	results, err := v.s.write(ctx, v.r.ID, p, list)
	for i, result := range results {
		if result == inFlight {
			left = append(left, list[i].key)
		}
	}

	return left, err
}

// Plan is the result of a dry run.
type Plan struct {
	Found, InFlight, Refused int64
	// Complete is false if the time was over before all notices were read.
	Complete bool
}

// Count reads the pending notices, at most for the given time, and counts those that a redirect would change.
func Count(ctx context.Context, s Redis, routes *route.Table, r *Redirect, limit time.Duration) (Plan, error) {
	v := visitor{s, routes, r, nil}
	end := time.Now().Add(limit)
	var plan Plan
	for _, p := range Partitions(s, &r.Rule) {
		for cursor := uint64(0); ; {
			ks, next, err := s.pending(ctx, p, cursor)
			if err != nil {
				return plan, err
			}

			got, err := v.visit(ctx, p, ks, func(context.Context, keys.Partition, []item) ([]string, error) { return nil, nil })
			if err != nil {
				return plan, err
			}

			plan.Found += got.matched
			plan.InFlight += int64(len(got.left))
			plan.Refused += got.refused
			if time.Now().After(end) {
				return plan, nil
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}

	plan.Complete = true
	return plan, nil
}
