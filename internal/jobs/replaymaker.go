package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/route"
)

// ErrEmptyReplay says that a replay would send nothing.
var ErrEmptyReplay = errors.New("the replay would send nothing")

// ErrOtherReplay says that a replay with the id exists, with a different request.
var ErrOtherReplay = errors.New("the id names another replay")

// ErrLargeReplay says that a replay would hold more than history.MaxReplay notices.
var ErrLargeReplay = errors.New("the replay would hold too many notices")

// Differs says how many notices go elsewhere today than they went then.
type Differs struct {
	Route     string // its name, today
	Then, Now string // the host; empty = none
	Notices   int64
}

// Host is how many notices go to a host.
type Host struct {
	Name    string // empty = none: they go to a list or stream
	Notices int64
}

// mostHosts is how many hosts a plan names.
const mostHosts = 20

// ReplayPlan is the effect of a replay, or of a dry run.
type ReplayPlan struct {
	*history.Replay
	Found int64 // what fits; Total of it goes, the rest is Refused
	// Hosts are those with the most notices, and HostCount is how many there are.
	Hosts     []Host
	HostCount int
	Differs   []Differs
	// Known: it was made before, by the same call. Found, Hosts and Differs are not known.
	Known bool
}

// ReplayMaker makes replays.
type ReplayMaker struct {
	DB     *history.DB
	Routes *route.Table
	Space  keys.Space
}

// Make creates a replay: it selects the notices and stores them. The drivers of all instances then send them. With
// dry, Make only selects. A repeated call with the same name and request returns the replay of the first one.
func (m ReplayMaker) Make(ctx context.Context, r *history.Replay, dry bool) (*ReplayPlan, error) {
	r.Name = cmp.Or(r.Name, r.ID)
	if !dry {
		if p, err := m.known(ctx, r); p != nil || err != nil {
			return p, err
		}
	}

	p, list, err := m.choose(ctx, r, dry)
	switch {
	case err != nil:
		return nil, err
	case dry:
		return p, nil
	case r.Total == 0 && p.Found == 0:
		return nil, fmt.Errorf("%w: nothing fits", ErrEmptyReplay)
	case r.Total == 0:
		return nil, fmt.Errorf("%w: %s", ErrEmptyReplay, Why(r.Refused))
	}

	err = m.DB.AddReplay(ctx, r, list)
	if errors.Is(err, history.ErrReplayKnown) { // the same call was made twice at a time
		if known, err := m.known(ctx, r); known != nil || err != nil {
			return known, err
		}
	}

	return p, err
}

// known is the client's replay of that name; nil if there is none.
func (m ReplayMaker) known(ctx context.Context, r *history.Replay) (*ReplayPlan, error) {
	list, err := m.DB.FindReplays(ctx, history.ReplayQuery{Name: r.Name, Caller: r.Client, Whose: &r.Client})
	switch {
	case err != nil || len(list) == 0:
		return nil, err
	case !list[0].Same(r):
		return nil, ErrOtherReplay
	}

	return &ReplayPlan{Replay: &list[0], Known: true}, nil
}

// choose selects the notices of a replay; for a dry run it only counts them.
func (m ReplayMaker) choose(ctx context.Context, r *history.Replay, dry bool) (*ReplayPlan, []history.Choice, error) {
	p := &ReplayPlan{Replay: r}
	r.Shards, r.Refused, r.Total = m.Space.Places(), map[string]int64{}, 0
	var list []history.Choice
	elsewhere, hosts := map[Differs]int64{}, map[string]int64{}
	err := m.DB.Choose(ctx, r, func(row *history.Row, c history.Choice) error {
		p.Found++
		to, refused := Judge(m.Routes, row)
		if refused != "" {
			r.Refused[refused]++
			return nil
		}

		now := hostNow(to, row.URL)
		hosts[now]++
		if now != row.Host {
			elsewhere[Differs{Route: to.Name, Then: row.Host, Now: now}]++
		}

		if r.Total++; r.Total > history.MaxReplay {
			return fmt.Errorf("%w: more than %d; ask for a shorter window, or for a host or a prefix", ErrLargeReplay, history.MaxReplay)
		}

		if !dry {
			c.Shard = m.Space.Shard(row.Key)
			list = append(list, c)
		}

		return nil
	})
	if err != nil {
		return nil, nil, err
	}

	p.Hosts, p.HostCount = most(hosts), len(hosts)
	for d, n := range elsewhere {
		d.Notices = n
		p.Differs = append(p.Differs, d)
	}

	slices.SortFunc(p.Differs, func(a, b Differs) int {
		return cmp.Or(cmp.Compare(b.Notices, a.Notices), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Then, b.Then))
	})
	return p, list, nil
}

// most are the hosts with the most notices.
func most(counts map[string]int64) []Host {
	list := make([]Host, 0, len(counts))
	for name, n := range counts {
		list = append(list, Host{name, n})
	}

	slices.SortFunc(list, func(a, b Host) int { return cmp.Or(cmp.Compare(b.Notices, a.Notices), cmp.Compare(a.Name, b.Name)) })
	return list[:min(len(list), mostHosts)]
}

// reasons say of each result but the store's in words why something is not sent.
var reasons = map[string]string{
	Pending:      "something is pending under the key",
	Dead:         "the dead letter of another notice lies under the key",
	Cancelled:    "it was cancelled since",
	Gone:         "the history has it no more",
	BodyHashed:   "the history has only a hash of the body (NOTIFIER_HISTORY_BODIES=hash)",
	BodyDropped:  "the history has not kept the body (NOTIFIER_HISTORY_BODIES=drop)",
	SecretLost:   "the history never keeps its secret header, or the password of its url",
	KeyForgotten: "its subject was forgotten",
	KeyLost:      "the key of its sealed content is lost",
	Unreadable:   "its record could not be read",
	NoRoute:      "no route covers the key today",
	Unfit:        "today's route does not take it (url or audience)",
}

// Why describes the notices that were not sent.
func Why(counts map[string]int64) string {
	text := ""
	for _, result := range slices.Sorted(maps.Keys(counts)) {
		if why := reasons[result]; why != "" && counts[result] > 0 {
			if text != "" {
				text += "; "
			}
			text += fmt.Sprintf("%d: %s", counts[result], why)
		}
	}

	return text
}
