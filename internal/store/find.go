package store

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// Found is a stored notice with its state and location.
type Found struct {
	*notice.Notice
	State notice.State
	// SettledAt is when the notice was delivered, cancelled or dead.
	SettledAt time.Time
	// Shard is the place in which the notice is stored.
	Shard int
	// Waits reports whether the notice is parked: another one of its sequence comes first. WaitsFor is that
	// notice's key, empty if it has just ended. Both are set by AddWaits.
	Waits    bool
	WaitsFor string
	// Forgotten is when the subject of a sealed notice was forgotten, so that its content is gone; zero = it was not, or nobody has
	// tried to open the notice. It is not stored with the notice.
	Forgotten time.Time
	// next is the time in the score of a scheduled notice: see NextAttemptAt.
	next time.Time
	// record is the stored text: see Store.Reopen and Store.Resend. score is the score in the shadow of
	// a pending notice: see Reported.
	record, score string
}

// Score returns the score of a pending notice in the shadow; "" = it is not pending.
func (f *Found) Score() string { return f.score }

// Record returns the stored text of the notice; "" = it has none.
func (f *Found) Record() string { return f.record }

// Untimed reports whether the notice is pending without a timer.
func (f *Found) Untimed() bool {
	score, err := strconv.ParseFloat(f.score, 64)
	return err == nil && !HasTimer(score)
}

// HasRecord reports whether the notice has a record, even one that cannot be read.
func (f *Found) HasRecord() bool { return f.record != "" }

// NextAttemptAt returns when a scheduled notice is claimed for its next attempt. After a postponement that is later
// than its due time. It is zero in other states, and for a notice that waits for another notice of its sequence.
func (f *Found) NextAttemptAt() time.Time {
	switch {
	case f.State != notice.Scheduled || f.Waits:
		return time.Time{}
	case f.next.Before(f.Due): // not read from the shadow
		return f.Due
	}
	return f.next
}

// HeldLocal returns how long a scheduled notice has been deferred because the machines of instances lack a resource.
func (f *Found) HeldLocal(now time.Time) time.Duration {
	w := f.Notice.Waits.Since(f.Due)
	if heldIn(f.score) != notice.HeldLocal {
		return 0
	}

	w.Add(notice.HeldLocal, now)
	return w.For[notice.HeldLocal.Index()]
}

// Ending returns how often the notice has been finalized.
func (f *Found) Ending() int {
	switch f.State {
	case notice.Scheduled, notice.Claimed:
		return f.Endings
	case notice.Cancelled:
		if f.Reason != "" && f.record != "" { // dead before, which a history entry counts in Endings
			return f.Endings + 2
		}
	}
	return f.Endings + 1
}

//go:embed lua/find.lua
var findSource string

var findScript = wire.NewScript("find", findSource, false)

// Find returns one notice. prefix is that of its route, or "" without a route. The notice may also
// be stored under another prefix that covers its key; Found.Route is the actual one.
func (s *Store) Find(ctx context.Context, prefix, key string) (Found, error) {
	var f Found
	err := s.follow(ctx, key, func(shard int) (err error) {
		if f, err = s.findIn(ctx, shard, prefix, key); err == nil && f.State == "" {
			f.State = notice.Lost
		}

		return err
	})
	return f, err
}

// findIn is Find in one shard.
func (s *Store) findIn(ctx context.Context, shard int, prefix, key string) (Found, error) {
	if prefix != "" {
		f, err := s.FindMany(ctx, keys.Partition{Prefix: prefix, Shard: shard}, []string{key})
		if err != nil {
			return Found{}, err
		}
		if f[0].Notice != nil {
			return f[0], nil
		}
	}

	all, err := s.Layout.lookUnder(ctx, shard, prefix, key)
	if err != nil {
		return Found{}, err
	}

	if len(all) > 0 {
		// In one script, because the notice may be moved from one prefix to another.
		var ks []string
		for _, p := range all {
			ks = append(ks, s.space.States(keys.Partition{Prefix: p, Shard: shard})...)
		}

		v, err := s.Layout.Parts(ctx, findScript, 1, ks, []any{s.space.ClaimPrefix(shard), key})
		if err != nil {
			return Found{}, err
		}

		if a, under := splitPrefix(v[0], all[0], all[1:]); len(a) > 0 && a[0] != "" {
			f, err := ReadFound(key, under, a)
			f.Shard = shard
			return f, err
		}
	}

	return Found{}, fmt.Errorf("%s: %w", key, ErrNotFound)
}

// FindMany returns notices of one partition; a missing one has a nil Notice.
func (s *Store) FindMany(ctx context.Context, p keys.Partition, ks []string) ([]Found, error) {
	args := append([]any{s.space.ClaimPrefix(p.Shard)}, wire.Texts(ks)...)
	v, err := s.Layout.Parts(ctx, findScript, len(ks), s.space.States(p), args)
	if err != nil {
		return nil, err
	}

	out := make([]Found, len(ks))
	for i, k := range ks {
		if isAbsent(v[i]) {
			continue
		}
		if out[i], err = ReadFound(k, p.Prefix, v[i]); err != nil {
			return nil, err
		}

		out[i].Shard = p.Shard
	}

	return out, nil
}

// isAbsent reports whether a reply of find.lua for a key means that there is no notice.
func isAbsent(v any) bool {
	a, ok := v.([]any)
	return ok && len(a) == 5 && a[0] == "" && a[1] == "" && a[3] == "" && a[4] == ""
}

// ReadFound reads the reply of find.lua for a key: {record, shadow, claimed, dead, settled}. If the
// record cannot be decoded, the result has a notice.Unread, without an error.
func ReadFound(key, prefix string, v any) (Found, error) {
	a, ok := v.([]any)
	if !ok || len(a) != 5 {
		return Found{}, wire.BadReply("find", "unexpected answer %T", v)
	}

	text, _ := a[0].(string)
	n, err := notice.Decode(key, prefix, text)
	if err != nil {
		n = notice.Unread(key, prefix, text)
	}

	f := Found{Notice: n, record: text}
	score := func(v any) (float64, bool) {
		s, _ := v.(string)
		x, err := strconv.ParseFloat(s, 64)
		return x, err == nil
	}
	due, pending := score(a[1])
	if pending {
		f.State, f.next = notice.Scheduled, time.UnixMilli(int64(due)).UTC()
		f.score, _ = a[1].(string)
		if a[2] == int64(1) {
			f.State = notice.Claimed
		}
	} else if x, ok := score(a[3]); ok {
		f.State, f.SettledAt = notice.Dead, time.UnixMilli(int64(x)).UTC()
	} else if x, ok := score(a[4]); ok {
		f.State, f.SettledAt = notice.Delivered, time.UnixMilli(int64(x)).UTC()
		if x != float64(int64(x)) {
			f.State = notice.Cancelled
		}
	}

	if n.Due.IsZero() { // unknown from the record; use the time of the state
		if n.Due = f.SettledAt; pending {
			n.Due = time.UnixMilli(int64(due)).UTC()
		}
	}

	return f, nil
}

// splitPrefix parses a script's reply on a notice that was looked up under several prefixes: the
// notice's part, and the prefix under which it is stored.
func splitPrefix(answer any, first string, others []string) (a []any, under string) {
	a, _ = answer.([]any)
	if len(a) == 6 {
		if n, _ := a[5].(int64); n > 0 && int(n) <= len(others) {
			return a[:5], others[n-1]
		}
	}

	return a, first
}
