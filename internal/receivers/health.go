package receivers

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

const (
	// mostReceivers is the maximum number of receivers of a route in the hash.
	mostReceivers = 2500
	// Kept is how long an entry is kept after the last attempt.
	Kept = 48 * time.Hour
	// FailingLong is how long a receiver must fail to count in notifier_receivers_failing.
	FailingLong = 15 * time.Minute
)

// The fields of a hash that are not receivers.
const (
	fieldOthers  = "*"
	fieldWaiting = "#"
)

//go:embed lua/merge.lua
var mergeSource string

// A full Redis refuses it; the changes are written later.
var mergeScript = wire.NewScript("health", mergeSource, true).Anywhere()

// Health is the health of one receiver of a route.
type Health struct {
	Name string // a host with its port, or a list or stream
	// Since is the first failure after the last success, zero if the last attempt succeeded.
	// LastSuccess is zero if none is known.
	Since, LastSuccess time.Time
	// Failures in a row. Approximate if several instances call the receiver.
	Failures    int
	LastAttempt time.Time
	Status      int    // of the last attempt; 0 = no HTTP answer
	Reason      string // why the last attempt failed
	// Waiting notices are due or have failed before; Next is the earliest attempt of one. Both
	// are of the last count: see Route.
	Waiting int
	Next    time.Time
}

// Failing reports whether the last attempt failed.
func (r Health) Failing() bool { return !r.Since.IsZero() }

// RouteHealth is the health of the receivers of one route.
type RouteHealth struct {
	Prefix string
	// Receivers have failed within 48 hours; failing ones first, the longest failing one at the front.
	Receivers []Health
	// Others are failing receivers that found no place within this clock hour. Instances count separately. Dropped is
	// the number of entries of healthy receivers that were dropped in this hour.
	Others, Dropped int
	// Counted is when the last count of waiting notices ended; zero = there is none.
	Counted time.Time
}

// Failing returns the receivers that fail since before a time.
func (r *RouteHealth) Failing(since time.Time) (n int) {
	for i := range r.Receivers {
		if r.Receivers[i].Failing() && !r.Receivers[i].Since.After(since) {
			n++
		}
	}
	return n
}

// HealthStore reads and writes the hashes. Its methods are safe for concurrent use.
type HealthStore struct {
	Wire *wire.Client
	// Rules selects the hashes for PAUSE_AFTER, which have no attempts by hour.
	Rules bool
}

// key returns the hash of a route.
func (s *HealthStore) key(prefix string) string {
	if s.Rules {
		return s.Wire.Space.HealthRules(prefix)
	}
	return s.Wire.Space.Health(prefix)
}

// Forget removes a receiver.
func (s *HealthStore) Forget(ctx context.Context, prefix, receiver string) error {
	return s.Wire.Wrapped(mergeScript.Op, s.Wire.Redis.HDel(ctx, s.key(prefix), receiver).Err())
}

// Write writes changes of a Tracker in one round trip: those of receivers that began or ceased to fail, then some of the
// others. The rest, and what could not be written, is written by the next call.
func (s *HealthStore) Write(ctx context.Context, t *Tracker) error {
	return s.write(ctx, t, t.take(mostTurned, mostOther))
}

// WriteAll writes all changes of a Tracker in one round trip.
func (s *HealthStore) WriteAll(ctx context.Context, t *Tracker) error {
	return s.write(ctx, t, t.take(math.MaxInt, math.MaxInt))
}

func (s *HealthStore) write(ctx context.Context, t *Tracker, list []change) error {
	slices.SortStableFunc(list, func(a, b change) int { return cmp.Compare(a.prefix, b.prefix) })
	for i := range list {
		if s.Rules {
			list[i].seen.hour, list[i].seen.answers = tally{}, nil
		}
	}

	var parts [][]change
	for i := 0; i < len(list); {
		n := 1
		for n < mostPerCall && i+n < len(list) && list[i+n].prefix == list[i].prefix {
			n++
		}

		parts = append(parts, list[i:i+n])
		i += n
	}

	calls := make([]wire.Call, len(parts))
	for i, part := range parts {
		prefix := part[0].prefix
		calls[i] = wire.Call{Keys: []string{s.key(prefix), s.Wire.Space.HealthDay(prefix)}, Args: mergeArgs(part)}
	}

	var failed error
	for i, cmd := range s.Wire.RunAll(ctx, mergeScript, calls) {
		prefix := parts[i][0].prefix
		reply, err := s.Wire.List(mergeScript.Op, cmd)
		if err != nil {
			t.undo(prefix, parts[i])
			failed = errors.Join(failed, err)
			continue
		}

		refused := make([]string, len(reply))
		for i := range reply {
			refused[i], _ = reply[i].(string)
		}

		t.wrote(prefix, parts[i], refused, s.Wire.Clock.Now())
	}

	return failed
}

// mergeArgs returns the arguments of merge.lua.
func mergeArgs(list []change) []any {
	args := make([]any, 2, 2+13*len(list))
	args[0], args[1] = mostReceivers, Kept.Milliseconds()
	for _, c := range list {
		x := &c.seen
		args = append(args, c.receiver, x.first, x.fail, x.n, x.ok, x.last, x.status, x.reason,
			x.hour.at, x.hour.attempts, x.hour.failed, x.hour.took.Milliseconds(), answersText(x.answers))
	}

	return args
}

// Sync reads the routes with successes of receivers that may fail at other instances, so that the
// Tracker writes these successes. It makes one call for each such route.
func (s *HealthStore) Sync(ctx context.Context, t *Tracker) error {
	list, err := s.Read(ctx, t.unknown())
	for _, r := range list {
		t.learn(r)
	}

	return err
}

// Read returns the health of the routes of some prefixes.
func (s *HealthStore) Read(ctx context.Context, prefixes []string) ([]RouteHealth, error) {
	if len(prefixes) == 0 {
		return nil, nil
	}

	replies := make([]*redis.MapStringStringCmd, len(prefixes))
	if _, err := s.Wire.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, prefix := range prefixes {
			replies[i] = p.HGetAll(ctx, s.key(prefix))
		}
		return nil
	}); err != nil {
		return nil, s.Wire.Fail(mergeScript.Op, err)
	}

	out := make([]RouteHealth, len(prefixes))
	for i, prefix := range prefixes {
		out[i] = readRoute(prefix, replies[i].Val(), s.Wire.Clock.Now())
	}

	return out, nil
}

func readRoute(prefix string, fields map[string]string, now time.Time) RouteHealth {
	r := RouteHealth{Prefix: prefix}
	var waiting counted
	if text := fields[fieldWaiting]; text != "" && json.Unmarshal([]byte(text), &waiting) == nil {
		r.Counted = time.UnixMilli(waiting.At).UTC()
	}

	if parts := strings.Fields(fields[fieldOthers]); len(parts) == 3 && parts[1] == strconv.FormatInt(now.Unix()/3600, 10) {
		r.Others, _ = strconv.Atoi(parts[0])
		r.Dropped, _ = strconv.Atoi(parts[2])
	}

	for name, text := range fields {
		x, ok := readReceiver(name, text)
		if !ok || now.Sub(x.LastAttempt) > Kept {
			continue
		}

		if w, ok := waiting.Receivers[name]; ok {
			x.Waiting = w.N
			x.Next = instant(w.Next)
		}

		r.Receivers = append(r.Receivers, x)
	}

	slices.SortFunc(r.Receivers, func(a, b Health) int {
		if a.Failing() != b.Failing() {
			return map[bool]int{true: -1, false: 1}[a.Failing()]
		}
		return cmp.Or(a.Since.Compare(b.Since), b.LastAttempt.Compare(a.LastAttempt), cmp.Compare(a.Name, b.Name))
	})
	return r
}

// readReceiver reads an entry: see merge.lua.
func readReceiver(name, text string) (r Health, ok bool) {
	parts := strings.Split(text, " ")
	if len(parts) != 7 {
		return r, false
	}

	var n [6]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return r, false
		}
	}

	return Health{Name: name, Since: instant(n[0]), LastSuccess: instant(n[1]), Failures: int(n[2]), LastAttempt: instant(n[4]),
		Status: int(n[5]), Reason: parts[6]}, true
}

func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// counted is how many notices wait for the receivers of a route, as JSON in its hash.
type counted struct {
	At        int64              `json:"at"` // Unix ms of the end of the count
	Receivers map[string]waiting `json:"receivers,omitempty"`
}

type waiting struct {
	N    int   `json:"n"`
	Next int64 `json:"next"` // Unix ms
}

// setWaiting stores a count.
func (s *HealthStore) setWaiting(ctx context.Context, prefix string, c counted) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}

	key := s.Wire.Space.Health(prefix)
	_, err = s.Wire.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, key, fieldWaiting, text)
		p.PExpire(ctx, key, Kept)
		return nil
	})
	return s.Wire.Wrapped(mergeScript.Op, err)
}

// Copy gives another Redis the entries of some prefixes, without causes: see MoveCauses. Entries that it has already stay.
func (s *HealthStore) Copy(ctx context.Context, far *HealthStore, prefixes []string) error {
	for _, prefix := range prefixes {
		if err := s.copyHash(ctx, far, s.Wire.Space.Health(prefix), far.Wire.Space.Health(prefix)); err != nil {
			return err
		}
		if err := s.copyHash(ctx, far, s.Wire.Space.HealthDay(prefix), far.Wire.Space.HealthDay(prefix)); err != nil {
			return err
		}
		if err := s.copyHash(ctx, far, s.Wire.Space.HealthDown(prefix), far.Wire.Space.HealthDown(prefix)); err != nil {
			return err
		}
		if err := s.copyHash(ctx, far, s.Wire.Space.HealthRules(prefix), far.Wire.Space.HealthRules(prefix)); err != nil {
			return err
		}
	}
	return nil
}

func (s *HealthStore) copyHash(ctx context.Context, far *HealthStore, from, to string) error {
	fields, err := s.Wire.Redis.HGetAll(ctx, from).Result()
	if err != nil {
		return s.Wire.Fail(mergeScript.Op, err)
	}
	if len(fields) == 0 {
		return nil
	}

	if _, err := far.Wire.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for name, text := range fields {
			p.HSetNX(ctx, to, name, text)
		}

		p.PExpire(ctx, to, Kept)
		return nil
	}); err != nil {
		return s.Wire.Fail(mergeScript.Op, err)
	}

	return nil
}
