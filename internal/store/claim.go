package store

import (
	"cmp"
	"context"
	_ "embed"
	"strconv"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

var (
	//go:embed lua/claim.lua
	claimSource string
	//go:embed lua/sweep.lua
	sweepSource string
	//go:embed lua/recover.lua
	recoverSource string
	//go:embed lua/takeover.lua
	takeOverSource string

	// In metrics all are one operation.
	claimScript    = wire.NewScript("claim", WithParts(claimSource), false)
	sweepScript    = wire.NewScript("claim", WithParts(sweepSource), false)
	recoverScript  = wire.NewScript("claim", WithParts(recoverSource), false)
	takeOverScript = wire.NewScript("claim", WithParts(takeOverSource), false)
)

// Claim is a notice that this instance holds for a lease, with the proof that its settle needs.
type Claim struct {
	*notice.Notice
	Lapses int // expired claims since the last settle
	Shard  int
	// Attention is when the notice needed attention: its due time, the end of its postponement, or
	// the end of the expired lease. After Recover it is the due time.
	Attention time.Time
	// Held is why the notice waited until then: the cause of its last postponement, or
	// notice.HeldRedis if the reply to the claim was lost.
	Held   notice.Held
	token  string
	score  string // in the shadow after this claim
	before string // and before it
}

// Claimed is the result of a claim call.
type Claimed struct {
	Won   []Claim
	Lost  int // held by another claim
	Stale int // no longer pending, or not yet due
	// StaleKeys are the keys counted in Stale.
	StaleKeys []string
	// Parked are the notices that wait for another one of their sequence: see lua/lib/order.lua.
	Parked int
	// Left are the due first attempts beyond the Limit of a sweep of keys.
	Left []string
	// Early contains the stale notices that are pending and not due yet.
	Early []Early
	// More reports whether a sweep reached its maximum number or size, or another call its maximum size.
	More bool
	// Answers is the number of notices in the reply. ClaimKeys and ClaimPostponed have the order of their arguments.
	Answers int
	// Next is the cursor of a take-over, empty after the last notice, or that of a sweep that looks for first attempts.
	Next string
	// Now is the time of Redis's clock.
	Now time.Time
	// Rules are the ids and, each after its id, the rules of the redirects that are running in the shard.
	Rules []string
}

// Early is a notice that a caller tried to claim before it needed attention.
type Early struct {
	Key string
	At  time.Time // when it needs attention
}

// Lease contains the token that a settle must prove, and the duration for which no other claim can
// take the notice.
type Lease struct {
	Token string
	For   time.Duration
}

// ClaimKeys claims notices of one partition by key, if they are due. A caller may repeat a call
// whose reply was lost: notices that its token holds are returned again, with a new lease.
func (s *Store) ClaimKeys(ctx context.Context, p keys.Partition, lease Lease, ks []string) (Claimed, error) {
	args := make([]any, 0, 5+len(ks))
	args = append(args, "")
	for i := range ks {
		args = append(args, &ks[i])
	}

	return s.claim(ctx, claimScript, p, lease, args)
}

// Postponed names a postponed notice, with the score that [Settled] returned.
type Postponed struct{ Key, Score string }

// ClaimPostponed claims notices before their postponement ends, for example because a call to their busy host has
// ended. A notice that was rescheduled since its postponement is claimed only if it is due. If the reply is lost, a
// repeated call with the same lease.Token returns the same claims.
func (s *Store) ClaimPostponed(ctx context.Context, p keys.Partition, lease Lease, list []Postponed) (Claimed, error) {
	args := []any{s.Timers.Mode(p.Prefix)}
	for i := range list {
		args = append(args, list[i].Key, list[i].Score)
	}

	c, err := s.claim(ctx, claimScript, p, lease, args)
	if err == nil {
		s.disarm(ctx, p.Prefix, &c)
	}

	return c, err
}

// SweepOptions selects the notices of a sweep.
type SweepOptions struct {
	// Grace is how long notices with a timer are left to the expired event.
	Grace time.Duration
	// Limit is the maximum number of notices.
	Limit int
	// Expired claims notices that have expired instead, due or not. Those whose attempt is running are not claimed; Lost counts them.
	Expired bool
	// Newest claims the latest due notices first.
	Newest bool
	// From is the Next of the last sweep: see sweep.lua.
	From string
	// Keys are the only notices to claim, if any, and Limit is then smaller than their number. First attempts are claimed before
	// others; those beyond the Limit are in Claimed.Left. Claimed.More reports that others are left.
	Keys []string
}

// Sweep claims overdue notices of one partition: those due for longer than the grace, and due ones
// without a timer.
func (s *Store) Sweep(ctx context.Context, p keys.Partition, lease Lease, o SweepOptions) (Claimed, error) {
	if o.Expired {
		c, err := s.claim(ctx, expireScript, p, lease, []any{s.Timers.Mode(p.Prefix), o.Limit})
		if err == nil {
			s.disarm(ctx, p.Prefix, &c)
		}

		return c, err
	}

	if len(o.Keys) > 0 {
		args := make([]any, 0, 1+len(o.Keys))
		args = append(args, "#"+strconv.Itoa(o.Limit))
		for i := range o.Keys {
			args = append(args, &o.Keys[i])
		}

		return s.claim(ctx, claimScript, p, lease, args)
	}

	mode := "o"
	if o.Newest {
		mode = "n"
	}

	c, err := s.claim(ctx, sweepScript, p, lease, []any{o.Grace.Milliseconds(), o.Limit, mode, cmp.Or(o.From, "0")})
	c.More = c.More || c.Next != ""
	return c, err
}

// Recover returns the claims of an earlier call whose reply was lost, and renews their leases. lease.Token is that
// call's token, and ago is the time since it was sent. Recover returns at most n claims, those whose leases end first,
// and may be repeated. Other instances can claim the remaining notices when the leases end.
func (s *Store) Recover(ctx context.Context, p keys.Partition, lease Lease, n int, ago time.Duration) (Claimed, error) {
	return s.claim(ctx, recoverScript, p, lease, []any{n, ago.Milliseconds() + 1000})
}

// TakeOverOptions selects the claims of a take-over.
type TakeOverOptions struct {
	// Holder is the id of the dead instance. The tokens of its claims begin with the id and a '-'.
	Holder string
	// Longest is the longest lease of the dead instance. Claims with a longer lease are left until
	// it expires.
	Longest time.Duration
	// Limit is the maximum number of notices.
	Limit int
	// From is the cursor: the Next of the previous call.
	From string
}

// TakeOver reclaims the claims of a dead instance, as if their leases had expired. Each counts as
// an expired claim, and a settle by the old claim is refused.
func (s *Store) TakeOver(ctx context.Context, p keys.Partition, lease Lease, o TakeOverOptions) (Claimed, error) {
	return s.claim(ctx, takeOverScript, p, lease, []any{o.Limit, o.Holder + "-", o.Longest.Milliseconds(), o.From})
}

// claim calls one of the scripts; own are the arguments after the common ones.
func (s *Store) claim(ctx context.Context, sc *wire.Script, p keys.Partition, lease Lease, own []any) (Claimed, error) {
	v, _, err := s.w.Replies(p.Shard).Reply(wire.MaxBatchBytes, func(bytes int) ([]any, error) {
		args := make([]any, 0, 4+len(own))
		args = append(args, s.space.ClaimPrefix(p.Shard), lease.Token, lease.For.Milliseconds(), bytes)
		return s.Layout.Take(ctx, sc, 2, Taking{p.Prefix, []string{s.space.Shadow(p), s.space.Records(p)}, append(args, own...)})
	})
	if err != nil {
		return Claimed{}, err
	}

	c := Claimed{Now: wire.Micros(v[0]), More: v[1] == int64(1), Answers: (len(v) - 2) / 3}
	c.Next, _ = v[1].(string)
	c.Won = make([]Claim, 0, (len(v)-2)/3)
	for i := 2; i+2 < len(v); i += 3 {
		key, _ := v[i].(string)
		switch a := v[i+1].(type) {
		case string:
			before, rest, _ := strings.Cut(a, " ")
			lapses, score, _ := strings.Cut(rest, " ")
			record, _ := v[i+2].(string)
			n, err := notice.Decode(key, p.Prefix, record)
			if err != nil {
				n = unread(key, p.Prefix, record, before, c.Now)
			}

			held := heldIn(before)
			if before == "-" { // not known; the record has the due time
				before, held = strconv.FormatInt(n.Due.UnixMilli(), 10), notice.HeldRedis
			}

			count, _ := strconv.Atoi(lapses)
			c.Won = append(c.Won, Claim{Notice: n, Lapses: count, Shard: p.Shard, Attention: attention(before), Held: held, token: lease.Token,
				score: score, before: before})
		case []any:
			for _, x := range a {
				rule, _ := x.(string)
				c.Rules = append(c.Rules, rule)
			}
		case int64:
			switch a {
			case 0:
				c.Lost++
			case -2:
				c.Parked++
			case -3:
				c.Left = append(c.Left, key)
			default:
				c.Stale++
				c.StaleKeys = append(c.StaleKeys, key)
				if score, _ := v[i+2].(string); score != "" {
					c.Early = append(c.Early, Early{key, attention(score)})
				}
			}
		}
	}

	return c, nil
}

// unread returns the notice of a record that cannot be decoded. The notice is claimed and becomes
// dead. before is its score, or "-" if unknown.
func unread(key, prefix, record, before string, now time.Time) *notice.Notice {
	n := notice.Unread(key, prefix, record)
	switch {
	case before != "-":
		n.Due = attention(before)
	case n.Due.IsZero():
		n.Due = now
	}

	if n.Made == 0 {
		n.Made = notice.MadeAt(now)
	}

	return n
}

// Partition returns the partition of the notice.
func (c *Claim) Partition() keys.Partition { return keys.Partition{Prefix: c.Route, Shard: c.Shard} }

// Token returns the claim's token: see Lease.
func (c *Claim) Token() string { return c.token }

// SameAs reports whether two claims of a notice are the same claim.
func (c *Claim) SameAs(other *Claim) bool { return c.token == other.token }

// Take makes c settle with the proof of a later claim of the same notice.
func (c *Claim) Take(later *Claim) {
	c.token, c.score, c.before, c.Attention, c.Held = later.token, later.score, later.before, later.Attention, later.Held
}

// attention returns the time in a score of the shadow, without its fraction.
func attention(score string) time.Time {
	f, _ := strconv.ParseFloat(score, 64)
	return time.UnixMilli(int64(f)).UTC()
}

// reportToken is the start of the token of a notice that awaits its consumer's report.
const reportToken = "report:"

// Reported returns the claim to settle with a consumer's report about a pushed entry of f. A report about an earlier
// notice of the same key gets another token, so its settle changes nothing.
func Reported(f Found) Claim {
	// No call claims the notice. settle.lua has stored this token when the entry was pushed.
	token := reportToken + strconv.FormatInt(int64(f.Made), 10) + ":" + strconv.Itoa(f.AttemptsMade)
	score := cmp.Or(f.score, "0")
	return Claim{Notice: f.Notice, Shard: f.Shard, token: token, score: score, before: score}
}
