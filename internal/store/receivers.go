package store

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// The paused receivers and the limits of receivers are in one hash, which decides while it can be read.
// Each shard has a copy in its own slot. Package receivers defines the fields and values.

// MaxReceivers is the maximum number of entries in the hash.
const MaxReceivers = 10_000

// receiversVersion is the field with the version of the hash. It begins the names of all fields that are not entries.
const receiversVersion = "#"

// FullError is returned if there are too many paused receivers and limits.
type FullError struct {
	// Most is the maximum number of entries: of the client that makes one, or of all clients if All is set.
	Most int
	All  bool
}

// Error implements error.
func (e *FullError) Error() string {
	if e.All {
		return fmt.Sprintf("there are %d paused receivers and limits, the maximum; resume receivers or remove limits", e.Most)
	}
	return fmt.Sprintf("this client has made %d paused receivers and limits, its share of the maximum; resume receivers or remove limits",
		e.Most)
}

var (
	//go:embed lua/receivers.lua
	receiversSource string
	//go:embed lua/receivercopy.lua
	receiverCopySource string
	//go:embed lua/receiverentry.lua
	receiverEntrySource string

	// A full Redis must let operators pause receivers, and instances start.
	receiversScript    = wire.NewScript("receivers", receiversSource, false).Anywhere()
	receiverCopyScript = wire.NewScript("receivers", receiverCopySource, false).Anywhere()

	receiverEntryScript = wire.NewScript("receivers", receiverEntrySource, false).Anywhere()
)

// Receivers are the paused receivers and limits, as far as they can be read.
type Receivers struct {
	// Version grows with each change; 0 = there has been none.
	Version int64
	// Values has the entries by field. It is nil if the version is the one that the caller knows.
	Values map[string]string
	// Known reports for each shard whether the hash or the shard's copy was read.
	Known []bool
	// Stale is set if a shard's copy must be updated: see CopyReceivers.
	Stale bool
}

// Receivers reads the paused receivers and limits, unless their version is known. While the hash cannot be
// read, the copy with the latest version decides. It fails if neither the hash nor any copy can be read.
func (s *Layout) Receivers(ctx context.Context, known int64) (Receivers, error) {
	all := []string{s.space.Receivers()}
	shards := s.space.Places()
	if s.w.Cluster {
		for shard := range shards {
			all = append(all, s.space.ShardReceivers(shard))
		}
	}

	read, err := s.receiverVersions(ctx, all)
	if len(read) == 0 {
		if err == nil {
			err = s.w.Fail("receivers", wire.ErrUnavailable)
		}
		return Receivers{}, err
	}

	r := Receivers{Known: make([]bool, shards)}
	decided, ok := read[s.space.Receivers()]
	from := s.space.Receivers()
	r.Version = decided
	for shard := range shards {
		name := s.space.ShardReceivers(shard)
		copied, has := read[name]
		r.Known[shard] = ok || has
		if ok {
			r.Stale = r.Stale || has && copied != decided
		} else if has && (from == s.space.Receivers() || copied > r.Version) {
			r.Version, from = copied, name
		}
	}

	if r.Version == known {
		return r, nil
	}

	values, err := s.receiverValues(ctx, from)
	if err != nil {
		return r, err
	}

	r.Version, _ = strconv.ParseInt(values[receiversVersion], 10, 64)
	maps.DeleteFunc(values, func(field, _ string) bool { return strings.HasPrefix(field, receiversVersion) })
	r.Values = values
	return r, nil
}

// receiverVersions reads the versions of the hash and of copies. Those on unreachable nodes are missing.
func (s *Layout) receiverVersions(ctx context.Context, names []string) (map[string]int64, error) {
	var mu sync.Mutex
	read := map[string]int64{}
	err := s.w.EachNode(ctx, names, nil, func(ctx context.Context, some []string) error {
		got := make([]*redis.StringCmd, len(some))
		_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range some {
				got[i] = p.HGet(ctx, name, receiversVersion)
			}
			return nil
		})
		if errors.Is(err, redis.Nil) {
			err = nil
		}

		mu.Lock()
		defer mu.Unlock()
		for i, name := range some {
			if e := got[i].Err(); e == nil || errors.Is(e, redis.Nil) {
				read[name], _ = strconv.ParseInt(got[i].Val(), 10, 64)
			}
		}

		return s.w.Wrapped("receivers", err)
	})
	return read, err
}

func (s *Layout) receiverValues(ctx context.Context, name string) (values map[string]string, err error) {
	err = s.w.EachNode(ctx, []string{name}, nil, func(ctx context.Context, some []string) (err error) {
		values, err = s.c.HGetAll(ctx, some[0]).Result()
		return s.w.Wrapped("receivers", err)
	})
	if err == nil && values == nil { // its node is slow
		err = s.w.Fail("receivers", wire.ErrUnavailable)
	}

	return values, err
}

// ReceiverChange is a change of one entry.
type ReceiverChange struct {
	// Field names the entry, such as host/shop.example/app1 (see package receivers).
	Field string
	// Value is the entry's JSON object without its first members, the time of the change and the client. An empty
	// value deletes the entry.
	//
	//	entry  {"at":1750000000000,"client":"shop","until":1750000060000}
	//	Value                                     ,"until":1750000060000}
	Value string
	// Expected, if not empty, is the stored entry, or NoReceiver. If the stored one differs, nothing is written.
	Expected string
	// Client makes the entry, if it is new. It is empty if no client is configured.
	Client string
	// Most is how many entries the client may have made; 0 = MaxReceivers.
	Most int
}

// NoReceiver is the expectation that no entry is stored.
const NoReceiver = "-"

// noClient takes the place of the client's name if no client is configured. No client can have this name.
const noClient = "-"

// SetReceiver stores a pause or limit of a receiver (a host, or an audience: a name for a customer), and notifies all
// instances. done is false if the stored entry differs from the expected one. The error is a *[FullError] if there are
// too many entries.
func (s *Layout) SetReceiver(ctx context.Context, c ReceiverChange) (done bool, err error) {
	if err := s.Known(ctx); err != nil {
		return false, err
	}
	if s.Side().State == SideComing { // it receives the entries of the source
		return false, fmt.Errorf("receivers: %w", wire.ErrMoved)
	}

	most := cmp.Or(c.Most, MaxReceivers)
	v, err := s.w.Run(ctx, receiversScript, []string{s.space.Receivers()},
		[]any{c.Field, c.Value, MaxReceivers, c.Expected, cmp.Or(c.Client, noClient), most})
	switch {
	case err != nil:
		return false, err
	case len(v) == 1 && v[0] == int64(0):
		return false, &FullError{Most: MaxReceivers, All: true}
	case len(v) == 1 && v[0] == int64(-2):
		return false, &FullError{Most: most}
	case len(v) != 4:
		return false, nil
	}

	if err := s.copyEntry(ctx, []any{c.Field, v[3], v[1], v[2]}); err != nil {
		return true, err
	}

	return true, s.publishReceivers(ctx)
}

// copyEntry makes the change of one entry in each shard's copy. entry is the arguments of receiverentry.lua. A copy that lacks
// earlier changes is replaced.
func (s *Layout) copyEntry(ctx context.Context, entry []any) error {
	behind := false
	for shard := range s.space.Places() {
		name := s.space.ShardReceivers(shard)
		err := s.w.At(ctx, name, func(ctx context.Context) error {
			v, err := s.w.Run(ctx, receiverEntryScript, []string{name}, entry)
			behind = behind || err == nil && (len(v) != 1 || v[0] != int64(1))
			return err
		})
		if err != nil && !s.excused(err) {
			return err
		}
	}

	if behind {
		return s.CopyReceivers(ctx)
	}

	return nil
}

// excused reports whether a copy need not be updated now: its node of the cluster is unreachable. The instances repair
// such a copy when they read the entries.
func (s *Layout) excused(err error) bool { return s.w.Cluster && errors.Is(err, wire.ErrUnavailable) }

// publishReceivers notifies all instances that the hash has changed. The wake channel does at once, the heartbeats
// within a second.
func (s *Layout) publishReceivers(ctx context.Context) error {
	version, err := s.c.HGet(ctx, s.space.Receivers(), receiversVersion).Result()
	if err == nil {
		err = s.c.Set(ctx, s.space.ReceiversVersion(), version, 0).Err()
	}

	if err != nil && !errors.Is(err, redis.Nil) && !s.w.Cluster {
		return s.w.Fail("receivers", err)
	}

	return s.Publish(ctx, "paused ")
}

// CopyReceivers updates each shard's copy.
func (s *Layout) CopyReceivers(ctx context.Context) error {
	fields, err := s.receiverFields(ctx)
	if err != nil {
		return err
	}

	for shard := range s.space.Places() {
		err := s.copyReceivers(ctx, s.space.ShardReceivers(shard), fields)
		if err != nil && !s.excused(err) {
			return err
		}
	}

	return nil
}

// GiveReceivers replaces the paused receivers and limits of another Redis by those of this one.
func (s *Layout) GiveReceivers(ctx context.Context, far *Layout) error {
	fields, err := s.receiverFields(ctx)
	if err != nil {
		return err
	}
	if err := far.copyReceivers(ctx, far.space.Receivers(), fields); err != nil {
		return err
	}
	if err := far.CopyReceivers(ctx); err != nil {
		return err
	}

	return far.publishReceivers(ctx)
}

// receiverFields returns the hash as arguments of receivercopy.lua.
func (s *Layout) receiverFields(ctx context.Context) ([]any, error) {
	values, err := s.receiverValues(ctx, s.space.Receivers())
	if err != nil {
		return nil, err
	}

	fields := make([]any, 0, 2*len(values))
	for field, value := range values {
		fields = append(fields, field, value)
	}

	return fields, nil
}

func (s *Layout) copyReceivers(ctx context.Context, name string, fields []any) error {
	return s.w.At(ctx, name, func(ctx context.Context) error {
		_, err := s.w.Run(ctx, receiverCopyScript, []string{name}, fields)
		return err
	})
}

// newReceivers copies the hash to a shard that has no layout yet, like copyNew.
func (s *Layout) newReceivers(ctx context.Context, at keys.ShardKeys) error {
	used, err := s.c.Exists(ctx, at.Layout()).Result()
	if err != nil || used == 1 {
		return s.w.Wrapped("layout", err)
	}

	fields, err := s.receiverFields(ctx)
	if err != nil || len(fields) == 0 {
		return err
	}

	return s.copyReceivers(ctx, at.Receivers(), fields)
}
