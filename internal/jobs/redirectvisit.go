package jobs

import (
	"cmp"
	"context"
	"slices"
	"strings"
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

// Partitions returns the partitions that may hold notices of a job, by shard and prefix.
func Partitions(s Store, r *Job) (list []keys.Partition) {
	prefixes := slices.Sorted(slices.Values(s.Layout.Prefixes()))
	for shard := range s.Space().Places() {
		for _, prefix := range prefixes {
			if keys.Overlap(prefix, r.Prefix) && (r.Route == "" || r.Route == prefix) {
				list = append(list, keys.Partition{Shard: shard, Prefix: prefix})
			}
		}
	}

	return list
}

// visitor reads notices for a redirect.
type visitor struct {
	s      Store
	routes *route.Table
	r      *Job
	// later says of the ids of redirects in notices whether they were made after this one. Their notices stay.
	later map[string]bool
}

// visited is the result of a visit.
type visited struct {
	matched, refused int64
	claimed          int64    // notices that a cancel leaves
	left             []string // keys of notices to visit again
}

// visit reads notices of a partition in bounded steps, and calls do with those to change.
func (v visitor) visit(ctx context.Context, p keys.Partition, ks []string,
	do func(context.Context, keys.Partition, []rewrite) ([]string, error)) (sum visited, err error) {
	ks = slices.Compact(slices.Sorted(slices.Values(ks)))
	for size := stepKeys; len(ks) > 0; {
		n := min(size, len(ks))
		found, err := v.s.FindMany(ctx, p, ks[:n])
		if err == nil {
			err = v.learn(ctx, found)
		}

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

// learn reads whether the redirects that have changed notices were made later. The list is read after the notices, so it
// has these redirects, unless they ended long ago.
func (v visitor) learn(ctx context.Context, found []store.Found) error {
	read := false
	for i := range found {
		if found[i].Notice == nil || found[i].Redirect == "" {
			continue
		}
		if _, known := v.later[found[i].Redirect]; known {
			continue
		}

		if !read {
			list, err := v.s.List(ctx)
			if err != nil {
				return err
			}

			read = true
			for i := range list {
				v.later[list[i].ID] = cmp.Or(list[i].Made.Compare(v.r.Made), strings.Compare(list[i].ID, v.r.ID)) > 0
			}
		}

		if _, listed := v.later[found[i].Redirect]; !listed { // it ended long ago
			v.later[found[i].Redirect] = false
		}
	}

	return nil
}

// judge returns the notices to change, and adds the others that match to sum.
func (v visitor) judge(found []store.Found, sum *visited) (items []rewrite, bytes int) {
	for i := range found {
		f := &found[i]
		if f.Notice == nil {
			continue
		}

		bytes += len(f.Record())
		if !v.r.Redirects() {
			if seen, ok := v.selects(f, sum); ok {
				items = append(items, seen)
			}

			continue
		}

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
			items = append(items, rewrite{f.Key, f.Record(), string(store.AppendRecord(nil, n))})
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
func (v visitor) change(ctx context.Context, p keys.Partition, list []rewrite) (left []string, err error) {
	results, err := v.s.write(ctx, v.r.ID, p, list)
	for i, result := range results {
		if result == inFlight {
			left = append(left, list[i].key)
		}
	}

	return left, err
}

// JobPlan is the result of a dry run.
type JobPlan struct {
	Found, InFlight, Refused int64
	// Complete is false if the time was over before all notices were read.
	Complete bool
}

// PlanJob reads the notices that a job may change, at most for the given time, and counts those that it would change.
func PlanJob(ctx context.Context, s Store, routes *route.Table, r *Job, limit time.Duration) (JobPlan, error) {
	v := visitor{s, routes, r, map[string]bool{}}
	end := time.Now().Add(limit)
	var plan JobPlan
	for _, p := range Partitions(s, r) {
		for cursor := uint64(0); ; {
			ks, next, err := s.scan(ctx, p, r, cursor)
			if err != nil {
				return plan, err
			}

			got, err := v.visit(ctx, p, ks, func(context.Context, keys.Partition, []rewrite) ([]string, error) { return nil, nil })
			if err != nil {
				return plan, err
			}

			plan.Found += got.matched
			plan.InFlight += int64(len(got.left)) + got.claimed
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
