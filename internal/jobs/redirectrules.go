package jobs

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// The rule of a running redirect is stored in each shard, so that a claim returns it with the notices that it has won, and
// their attempts use the new address although the driver has not visited them yet.

// ruleFor is how long a shard keeps the rules without a driver that renews them.
const ruleFor = time.Hour

// shardRule is a rule as the shards store it.
type shardRule struct {
	ID   string    `json:"id"`
	Made time.Time `json:"made"`
	Rule
}

// spread stores the rule of a redirect in all shards.
func (s Store) spread(ctx context.Context, r *Job) error {
	if !r.Redirects() {
		return nil
	}

	text, err := json.Marshal(shardRule{r.ID, r.Made, r.Rule})
	if err != nil {
		return err
	}

	return s.eachShard(ctx, func(p redis.Pipeliner, name string) {
		p.HSet(ctx, name, r.ID, text)
		p.PExpire(ctx, name, ruleFor)
	})
}

// withdraw deletes the rule of a redirect that is not running from all shards.
func (s Store) withdraw(ctx context.Context, id string) error {
	return s.eachShard(ctx, func(p redis.Pipeliner, name string) { p.HDel(ctx, name, id) })
}

func (s Store) eachShard(ctx context.Context, add func(p redis.Pipeliner, name string)) error {
	_, err := s.Wire().Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for shard := range s.Space().Places() {
			add(p, s.Space().Redirecting(shard))
		}
		return nil
	})
	return s.failed(err)
}

// ApplyRedirects changes the addresses of claimed notices by the rules that the claim has returned, oldest first.
func ApplyRedirects(routes *route.Table, c *store.Claimed) {
	rules := make([]shardRule, 0, len(c.Rules))
	for _, text := range c.Rules { // an id is not valid JSON
		var r shardRule
		if json.Unmarshal([]byte(text), &r) == nil && r.ID != "" {
			rules = append(rules, r)
		}
	}

	slices.SortFunc(rules, func(a, b shardRule) int { return a.Made.Compare(b.Made) })
	for i := range c.Won {
		x := &c.Won[i]
		// An older rule does not follow the one that has changed the notice last.
		from := 1 + slices.IndexFunc(rules, func(r shardRule) bool { return r.ID == x.Redirect })
		for _, r := range rules[from:] {
			if n := r.changed(routes, x.Notice); n != nil {
				x.Notice = n
			}
		}
	}
}

// changed returns the notice with its new address; nil if the rule does not change it, or its route refuses the address.
func (r *shardRule) changed(routes *route.Table, n *notice.Notice) *notice.Notice {
	if n.Raw != nil || n.Made.Time().After(r.Made) || !r.Matches(n) {
		return nil
	}

	n = n.Readdress(notice.Address{URL: r.Target(n.URL), KeepHeaders: r.KeepHeaders, Redirect: r.ID})
	if to := routes.Match(n.Key); to == nil || to.CheckAddress(&n.Content) != nil {
		return nil
	}

	return n
}

// mostClaimed bounds the entries of a partition that CountClaimed reads.
const mostClaimed = 20_000

// CountClaimed sets r.InFlight to the number of claimed notices that match. Their attempts may end at the old address.
func (s Store) CountClaimed(ctx context.Context, routes *route.Table, r *Job) error {
	lease := time.Duration(0)
	for _, to := range routes.All() {
		lease = max(lease, to.Lease())
	}

	v := visitor{s, routes, r, map[string]bool{}}
	for _, p := range Partitions(s, r) {
		ks, err := s.claimed(ctx, p, lease)
		if err != nil {
			return err
		}

		got, err := v.visit(ctx, p, ks, func(context.Context, keys.Partition, []rewrite) ([]string, error) { return nil, nil })
		if err != nil {
			return err
		}

		r.InFlight += int64(len(got.left))
	}

	return nil
}

// claimed returns the keys whose scores are those of claims: see win.lua.
func (s Store) claimed(ctx context.Context, p keys.Partition, lease time.Duration) (ks []string, err error) {
	now, err := s.Wire().Holder(ctx, s.Space().Shadow(p)).Time(ctx).Result()
	if err != nil {
		return nil, s.failed(err)
	}

	list, err := s.Wire().Redis.ZRangeByScoreWithScores(ctx, s.Space().Shadow(p), &redis.ZRangeBy{Min: strconv.FormatInt(now.UnixMilli(), 10),
		Max: strconv.FormatInt(now.Add(lease+time.Second).UnixMilli(), 10), Count: mostClaimed}).Result()
	for _, z := range list {
		if key, ok := z.Member.(string); ok && store.IsClaim(z.Score) {
			ks = append(ks, key)
		}
	}

	return ks, s.failed(err)
}
