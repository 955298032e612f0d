package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// slotRange is a range of a master's slots.
type slotRange struct {
	from, to int
	master   string
}

// spread reports how many shards each master of a cluster has, and a better number of shards.
func (r *run) spread(ctx context.Context) {
	if r.conn.Masters == nil {
		return
	}

	ranges, err := r.slots(ctx)
	if err != nil {
		r.add(Finding{Check: "shards", Severity: Info, Message: "cannot read the distribution of shards: " + err.Error(),
			Remedy: "allow CLUSTER SLOTS, which the service needs"})
		return
	}

	shards := max(r.space.Shards, 1)
	tags := make([]string, shards)
	for i := range tags {
		tags[i] = r.space.Tag(r.space.First() + i)
	}

	here, masters := over(ranges, tags)
	f := Finding{Check: "shards", Severity: OK, Message: fmt.Sprintf("%s over %s: %s", notice.Count(shards, "shard"),
		notice.Count(len(masters), "master"), listed(here, masters))}
	even, _ := over(ranges, numbered(shards))
	switch {
	case uneven(here, masters) <= 1 && shards >= len(masters):
	case shards < len(masters):
		f.Severity = Warning
		f.Message += "; masters without one: " + strconv.Itoa(len(masters)-shards)
		f.Remedy = fmt.Sprintf("notifier reshard --to %d, or a multiple of it, uses all masters", len(masters))
	case uneven(even, masters) < uneven(here, masters):
		f.Severity = Warning
		f.Remedy = fmt.Sprintf("notifier reshard --to %d, or another multiple of %d: %s", shards, len(masters), listed(even, masters))
	default:
		f.Severity = Info
		f.Remedy = "the masters have unequal numbers of slots: redis-cli --cluster rebalance"
	}

	r.add(f)
}

// numbered returns the tags that a first start would choose.
func numbered(shards int) []string {
	if tags := keys.SpreadTags(shards); tags != nil {
		return tags
	}
	return []string{"0"}
}

func (r *run) slots(ctx context.Context) ([]slotRange, error) {
	all, err := r.conn.ClusterSlots(ctx).Result()
	if r.heard(err) != nil {
		return nil, wire.Wrap("cluster slots", err)
	}

	var list []slotRange
	for _, s := range all {
		if len(s.Nodes) > 0 {
			list = append(list, slotRange{s.Start, s.End, s.Nodes[0].Addr})
		}
	}

	return list, nil
}

// over counts the tags of each master, and returns the sorted masters.
func over(ranges []slotRange, tags []string) (count map[string]int, masters []string) {
	count = map[string]int{}
	for _, s := range ranges {
		masters = append(masters, s.master)
	}

	slices.Sort(masters)
	masters = slices.Compact(masters)
	for _, t := range tags {
		slot := keys.Slot("{" + t + "}")
		for _, s := range ranges {
			if slot >= s.from && slot <= s.to {
				count[s.master]++
			}
		}
	}

	return count, masters
}

// uneven returns the difference between the largest and the smallest number of shards of a master.
func uneven(count map[string]int, masters []string) int {
	if len(masters) == 0 {
		return 0
	}

	least, most := count[masters[0]], 0
	for _, m := range masters {
		least, most = min(least, count[m]), max(most, count[m])
	}

	return most - least
}

func listed(count map[string]int, masters []string) string {
	parts := make([]string, len(masters))
	for i, m := range masters {
		parts[i] = fmt.Sprintf("%s has %d", m, count[m])
	}

	return strings.Join(parts, ", ")
}
