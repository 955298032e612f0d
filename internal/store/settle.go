package store

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"notifier/internal/notice"
)

//go:embed lua/settle.lua
var settleSource string

var settleScript = newScript("settle", settleSource, false)

// Ending says how a claim ends.
type Ending string

// The endings; the values are settle.lua's.
const (
	EndDelivered Ending = "d"
	EndDead      Ending = "x"
	EndRetry     Ending = "r" // After the ladder's step
	EndDeferred  Ending = "f" // After a while, no attempt used
	EndHanded    Ending = "w" // pushed; a consumer reports within After
)

// Settlement ends one claim. Its notice already holds what is to be written.
type Settlement struct {
	Claim  Claim
	Ending Ending
	After  time.Duration
	Push   *notice.Push
	// Untouched: only the due time changes (of EndDeferred).
	Untouched bool
}

// Settled answers one Settlement.
type Settled struct {
	// Stale: the claim was no longer ours and nothing was written.
	Stale bool
	// Refused is why the list or stream did not take the entry: nothing was
	// written, and the claim waits for another ending.
	Refused string
	// Due is when it is due again; zero if it is settled or handed.
	Due time.Time
}

// Settle ends claims of one route and shard in one call. After an error it is
// unknown which were written; calling again is safe: what was written the first
// time, pushes included, is stale the second time.
func (s *Store) Settle(ctx context.Context, prefix string, shard int, list []Settlement) ([]Settled, error) {
	ks := s.four(shard, prefix)
	args := make([]any, 0, 6+10*len(list))
	args = append(args, s.space.ClaimPrefix(shard), s.space.Wake(), wakeInfo(shard, prefix), s.timers, s.keep, len(list))
	for i := range list {
		args = append(args, list[i].Claim.Key)
	}
	buf := make([]byte, 0, 420*len(list))
	for i := range list {
		t := &list[i]
		n := t.Claim.Notice
		made := strconv.FormatInt(n.Made.UnixMilli(), 10)
		from := len(buf)
		if !t.Untouched {
			switch t.Ending {
			case EndDelivered, EndDead, EndHanded:
				buf = append(buf, `{"due":`...)
				buf = strconv.AppendInt(buf, n.Due.UnixMilli(), 10)
			}
			buf = append(append(buf, `,"made":`...), made...)
			buf = n.AppendTail(buf)
		}
		coming := n.Coming()
		if t.Ending == EndHanded {
			coming = n.Used // the report is on the attempt just counted
		}
		push := ""
		if p := t.Push; pushes(p) {
			var at int
			ks, at = addKey(ks, p.Key)
			push = strconv.Itoa(at-4) + " L"
			if p.Stream {
				push = strconv.Itoa(at-4) + " S " + strconv.FormatInt(p.MaxLen, 10)
			}
		}
		args = append(args, t.Claim.token, t.Claim.score, t.Claim.before, made, string(t.Ending), (t.After.Nanoseconds()+999_999)/1_000_000,
			coming, buf[from:len(buf):len(buf)], push)
		if p := t.Push; pushes(p) {
			args = append(args, len(p.Entry))
			for _, e := range p.Entry {
				args = append(args, e)
			}
		}
	}
	v, err := s.run(ctx, settleScript, ks, args)
	if err != nil {
		return nil, err
	}
	if len(v) != len(list)+1 {
		return nil, fmt.Errorf("settle: %d answers to %d settlements", len(v)-1, len(list))
	}
	now := micros(v[0])
	out := make([]Settled, len(list))
	var timers []timer
	for i := range list {
		switch ms, counted := v[i+1].(int64); {
		case !counted:
			out[i].Refused = fmt.Sprint(v[i+1])
		case ms < 0:
			out[i].Stale = true
		case ms > 0:
			out[i].Due = time.UnixMilli(ms).UTC()
			if s.o.Cluster {
				timers = append(timers, timer{list[i].Claim.Key, ms, list[i].Claim.Coming()})
			}
		}
	}
	s.arm(ctx, timers, now)
	return out, nil
}

// pushes tells whether the settle has something to push: one without an entry
// was pushed before.
func pushes(p *notice.Push) bool { return p != nil && len(p.Entry) > 0 }

// addKey appends k to ks unless it is there, and says where it is, from 1.
func addKey(ks []string, k string) ([]string, int) {
	for i := 4; i < len(ks); i++ {
		if ks[i] == k {
			return ks, i + 1
		}
	}
	return append(ks, k), len(ks) + 1
}
