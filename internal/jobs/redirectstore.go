package jobs

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/wire"
)

var (
	//go:embed lua/redirect.lua
	stepSource string
	//go:embed lua/jobs.lua
	stateSource string

	stepScript  = wire.NewScript("redirect", store.WithParts(stepSource), false).Confirmed()
	stateScript = wire.NewScript("jobs", stateSource, false).Anywhere()
)

// The state of a redirect.
const (
	Running = "running"
	Stopped = "stopped"
	Done    = "done"
	Failed  = "failed"
)

// The kinds of jobs.
const (
	KindRedirect = "redirect"
	KindCancel   = "cancel"
	KindRedrive  = "redrive"
	KindPurge    = "purge"
)

// Job is the stored record of a job, with its progress.
type Job struct {
	ID     string `json:"id"`
	Kind   string `json:"kind,omitempty"` // empty = a redirect
	Client string `json:"client,omitempty"`
	Rule
	Filter
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitempty"` // why it failed, or why some partitions are left
	Made    time.Time `json:"made"`             // by Redis's clock; later notices stay
	Changed time.Time `json:"changed"`
	// Pass counts the passes from 1. Shard and In are the partition that is next; Seen of Total notices were read.
	Pass  int    `json:"pass"`
	Shard int    `json:"shard"`
	In    string `json:"in,omitempty"`
	Seen  int64  `json:"seen"`
	Total int64  `json:"total"`
	// InFlight, Claimed and Refused count the notices of the running pass that were left: those to visit again, those with an
	// attempt in flight that a cancel leaves, and those that cannot be changed. Redirected counts those changed so far.
	InFlight   int64 `json:"in_flight"`
	Claimed    int64 `json:"claimed,omitempty"`
	Refused    int64 `json:"refused"`
	Redirected int64 `json:"redirected"`

	stored string // as it was read
}

// Limits of stored redirects.
const (
	// MaxJobs is the maximum number of redirects, and of other jobs, of all clients.
	MaxJobs  = 100
	keptFor  = 30 * 24 * time.Hour
	countFor = 90 * 24 * time.Hour
)

// FullError is returned if too many redirects are running or stopped.
type FullError struct {
	// Most is the maximum number of redirects, or of other jobs: of the client that starts one, or of all clients if All is set.
	Most int
	All  bool
	What string // redirects or jobs
}

// Error implements error.
func (e *FullError) Error() string {
	if e.All {
		return fmt.Sprintf("there are %d %s that are not over, the maximum; some must finish first", e.Most, e.What)
	}
	return fmt.Sprintf("this client has %d %s that are not over, its share of the maximum; some must finish first", e.Most, e.What)
}

// Store stores redirects, and changes notices for them.
type Store struct{ *store.Store }

// change calls jobs.lua. A token gets or keeps the lease of the job for a time, unless the new state is not running.
func (s Store) change(ctx context.Context, token string, r *Job, state string) (bool, error) {
	hold := leaseFor
	if r.State != Running {
		hold = 0
	}

	done, err := s.state(ctx, r.ID, token, hold.Milliseconds(), r.stored, state)
	if done {
		r.stored = state
	}

	return done, err
}

func (s Store) state(ctx context.Context, args ...any) (bool, error) {
	v, err := s.Wire().Parts(ctx, stateScript, 1, []string{s.Space().Jobs(), s.Space().JobLeases()}, args)
	return err == nil && v[0] == int64(1), err
}

// save stores r if nothing has changed it since it was read. With a token, the driver's lease is taken or renewed.
func (s Store) save(ctx context.Context, token string, r *Job) (bool, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return false, err
	}

	return s.change(ctx, token, r, string(text))
}

// leave gives up the lease of a job's driver.
func (s Store) leave(ctx context.Context, token, id string) error {
	_, err := s.state(ctx, id, token, 0)
	return err
}

// List returns all redirects, latest first.
func (s Store) List(ctx context.Context) ([]Job, error) {
	all, err := s.Wire().Redis.HGetAll(ctx, s.Space().Jobs()).Result()
	if err != nil {
		return nil, s.Wire().Fail(stateScript.Op, err)
	}

	list := make([]Job, 0, len(all))
	for id, text := range all {
		var r Job
		if json.Unmarshal([]byte(text), &r) != nil || r.ID != id {
			continue // another program's
		}

		r.stored = text
		list = append(list, r)
	}

	slices.SortFunc(list, func(a, b Job) int { return b.Made.Compare(a.Made) })
	return list, nil
}

// Add stores a new redirect, with its rule in each shard, and deletes the ones that ended long ago. If a shard does not
// take the rule, there is no redirect. The client of r may have most redirects; for a new one it loses its oldest one that
// is over. The error is a *[FullError] if none is.
func (s Store) Add(ctx context.Context, r *Job, most int) error {
	list, err := s.List(ctx)
	if err != nil {
		return err
	}

	list = slices.DeleteFunc(list, func(x Job) bool { return x.Redirects() != r.Redirects() })
	old := func(x *Job) bool { return r.Made.Sub(x.Changed) > keptFor }
	if list, err = s.trim(ctx, list, len(list), old); err != nil {
		return err
	}

	own := func(x *Job) bool { return x.Client == r.Client }
	if list, err = s.trim(ctx, list, count(list, own)-most+1, own); err != nil {
		return err
	}

	// Clients that are no longer configured may have redirects.
	if list, err = s.trim(ctx, list, len(list)-MaxJobs+1, func(*Job) bool { return true }); err != nil {
		return err
	}

	switch {
	case count(list, own) >= most:
		return &FullError{Most: most, What: r.plural()}
	case len(list) >= MaxJobs:
		return &FullError{Most: MaxJobs, All: true, What: r.plural()}
	}

	ok, err := s.save(ctx, "", r)
	if err == nil && !ok {
		err = fmt.Errorf("job %s exists", r.ID)
	}

	if err != nil {
		return err
	}

	if err = s.spread(ctx, r); err != nil {
		_, undo := s.change(ctx, "", r, "")
		err = errors.Join(err, undo, s.withdraw(ctx, r.ID))
	}

	return err
}

func count(list []Job, of func(*Job) bool) (n int) {
	for i := range list {
		if of(&list[i]) {
			n++
		}
	}
	return n
}

// trim removes up to n redirects that are over, the oldest of those that may go first. It returns the rest.
func (s Store) trim(ctx context.Context, list []Job, n int, may func(*Job) bool) ([]Job, error) {
	for i := len(list) - 1; i >= 0 && n > 0; i-- {
		x := &list[i]
		if x.State != Done && x.State != Failed || !may(x) {
			continue
		}
		if _, err := s.change(ctx, "", x, ""); err != nil {
			return nil, err
		}

		list, n = slices.Delete(list, i, i+1), n-1
	}

	return list, nil
}

// saveTries is how often Turn starts again after a save of the driver.
const saveTries = 20

// Turn changes the state of a redirect from one to another. It returns the redirect; ok is false if its state was
// another one. A redirect that does not exist has an empty ID.
func (s Store) Turn(ctx context.Context, id, from, to string, now time.Time) (r Job, ok bool, err error) {
	for range saveTries {
		if r, err = s.Read(ctx, id); err != nil || r.State != from {
			return r, false, err
		}

		r.State, r.Changed = to, now
		if ok, err = s.save(ctx, "", &r); !ok && err == nil {
			continue
		}

		switch {
		case ok && to == Running:
			err = s.spread(ctx, &r)
		case ok:
			err = s.withdraw(ctx, id)
		}

		return r, ok, err
	}
	return r, false, fmt.Errorf("job %s changes all the time: %w", id, wire.ErrUnavailable)
}

// Read returns one redirect.
func (s Store) Read(ctx context.Context, id string) (r Job, err error) {
	text, err := s.Wire().Redis.HGet(ctx, s.Space().Jobs(), id).Result()
	if errors.Is(err, redis.Nil) {
		return r, nil
	}
	if err != nil {
		return r, s.Wire().Fail(stateScript.Op, err)
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.ID != id {
		return Job{}, nil // another program's
	}

	r.stored = text
	return r, nil
}

// Count sets how many notices a redirect has changed so far, in all shards.
func (s Store) Count(ctx context.Context, r *Job) error {
	p := s.Wire().Redis.Pipeline()
	cmds := make([]*redis.StringCmd, s.Space().Places())
	for shard := range cmds {
		cmds[shard] = p.HGet(ctx, s.Space().Job(shard, r.ID), "changed")
	}

	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return s.Wire().Fail(stepScript.Op, err)
	}

	total := int64(0)
	for _, c := range cmds {
		n, _ := strconv.ParseInt(c.Val(), 10, 64) // there is none before the first change
		total += n
	}

	r.Redirected = max(total, r.Redirected)
	return nil
}

// scan returns the keys of the next step of an iteration over the notices of a partition that a job may change.
func (s Store) scan(ctx context.Context, p keys.Partition, r *Job, cursor uint64) (ks []string, next uint64, err error) {
	// ZSCAN returns each member that is in the zset during the whole iteration, even if its score changes. Its cursor is
	// only valid on one server, so visitPartition starts again after an error.
	pairs, next, err := s.Wire().Redis.ZScan(ctx, s.notices(p, r), cursor, "", stepKeys).Result()
	if err != nil {
		return nil, 0, s.Wire().Fail(stepScript.Op, err)
	}

	for i := 0; i+1 < len(pairs); i += 2 {
		ks = append(ks, pairs[i])
	}

	return ks, next, nil
}

// noticeCount returns the number of notices of a partition that a job may change.
func (s Store) noticeCount(ctx context.Context, p keys.Partition, r *Job) (int64, error) {
	n, err := s.Wire().Redis.ZCard(ctx, s.notices(p, r)).Result()
	return n, s.failed(err)
}

func (s Store) failed(err error) error {
	if err == nil {
		return nil
	}
	return s.Wire().Fail(stepScript.Op, err)
}

// rewrite is a notice to change.
type rewrite struct{ key, was, now string }

// The results of items in the reply of redirect.lua.
const (
	written    = 1
	inFlight   = 0
	notPending = -1
)

// write writes the records of a partition's notices, at most 200, that are those which were read and not claimed. It
// returns a result for each. Repeating a call changes nothing. Held notices are released: see package receivers.
func (s Store) write(ctx context.Context, id string, p keys.Partition, list []rewrite) ([]int64, error) {
	args := []any{s.Space().ClaimPrefix(p.Shard), countFor.Milliseconds(), s.Space().Wake(), p.Wake()}
	for _, x := range list {
		args = append(args, x.key, x.was, x.now)
	}

	ks := []string{s.Space().Job(p.Shard, id), s.Space().Shadow(p), s.Space().Records(p)}
	v, err := s.Wire().List(stepScript.Op, s.Change(ctx, stepScript, store.Call{Shard: p.Shard, Whole: true,
		Prepare: func(*store.LayoutView) ([]string, []any) { return ks, args }}))
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return nil, err
	}
	if len(v) != len(list) {
		return nil, wire.BadReply("redirect", "%d answers to %d notices", len(v), len(list))
	}

	out := make([]int64, len(list))
	for i := range v {
		out[i], _ = v[i].(int64)
	}

	if err != nil { // the records are written; the next confirmed write of the shard confirms them, too
		s.Unconfirmed("amend", len(list), err)
	}

	return out, nil
}
