package layout

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// The paused receivers and the limits of receivers are in one hash, which decides while it can be read.
// Each shard has a copy in its own slot. Package holds defines the fields and values.

// MaxReceivers is the maximum number of entries in the hash.
const MaxReceivers = 10_000

// receiversVersion is the field with the version of the hash.
const receiversVersion = "#"

// ErrReceiversFull is returned if the hash has MaxReceivers entries.
var ErrReceiversFull = errors.New("too many paused receivers and limits")

var (
	//go:embed lua/receivers.lua
	receiversSource string
	//go:embed lua/receivercopy.lua
	receiverCopySource string

	// A full Redis must let operators pause receivers, and instances start.
	receiversScript    = wire.NewScript("receivers", receiversSource, false).Anywhere()
	receiverCopyScript = wire.NewScript("receivers", receiverCopySource, false).Anywhere()
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
	delete(values, receiversVersion)
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

// SetReceiver stores a pause or limit of a receiver (a host, or an audience: a name for a customer), and notifies all
// instances. field names the entry, such as host/shop.example/app1 (see package holds). value is the entry's JSON
// object without its first member, the time of the change. An empty value deletes the entry.
//
//	entry  {"at":1750000000000,"until":1750000060000}
//	value                     ,"until":1750000060000}
//
// If expected is not empty and differs from the stored entry, nothing is written and done is false.
func (s *Layout) SetReceiver(ctx context.Context, field, value, expected string) (done bool, err error) {
	if err := s.Known(ctx); err != nil {
		return false, err
	}
	if s.Side().State == SideComing { // it receives the entries of the source
		return false, fmt.Errorf("receivers: %w", wire.ErrMoved)
	}

	n, err := s.w.Int(ctx, receiversScript, []string{s.space.Receivers()}, []any{field, value, MaxReceivers, expected})
	switch {
	case err != nil:
		return false, err
	case n == 0:
		return false, ErrReceiversFull
	case n < 0:
		return false, nil
	}

	if err := s.CopyReceivers(ctx); err != nil {
		return true, err
	}

	return true, s.PublishReceivers(ctx)
}

// PublishReceivers notifies all instances that the hash has changed. The wake channel does at once, the heartbeats
// within a second.
func (s *Layout) PublishReceivers(ctx context.Context) error {
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
		if err != nil && !(s.w.Cluster && errors.Is(err, wire.ErrUnavailable)) {
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

	return far.PublishReceivers(ctx)
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
