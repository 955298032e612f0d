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
	//go:embed lua/win.lua
	winSource string
	//go:embed lua/claim.lua
	claimSource string
	//go:embed lua/sweep.lua
	sweepSource string
	//go:embed lua/recover.lua
	recoverSource string
	//go:embed lua/takeover.lua
	takeOverSource string

	winCode = wire.Prelude(winSource)

	// All are one operation in metrics.
	claimScript    = wire.NewScript("claim", winCode+claimSource, false)
	sweepScript    = wire.NewScript("claim", winCode+sweepSource, false)
	recoverScript  = wire.NewScript("claim", winCode+recoverSource, false)
	takeOverScript = wire.NewScript("claim", winCode+takeOverSource, false)
)

// maxClaimBytes bounds the records one claim call brings.
const maxClaimBytes = 4 << 20

// Claim is a notice won for a lease, and what its settle must prove.
type Claim struct {
	*notice.Notice
	Lapses int // claims since the last settle that nobody settled
	Shard  int
	// Attention is when the claim call found the notice to need attention: its due time, the end of
	// its postponement, or the end of the lease that lapsed. Of a claim that was found again it is the due time.
	Attention time.Time
	// Held is what the notice waited for until then: the cause of its last postponement, or
	// redis where the answer to the claim was lost.
	Held   notice.Held
	token  string
	score  string // in the shadow, as this claim left it
	before string // and as it found it
}

// Claimed answers a claim call.
type Claimed struct {
	Won   []Claim
	Lost  int // somebody else claimed them
	Stale int // no longer pending, or not yet due
	// StaleKeys are the keys counted in Stale.
	StaleKeys []string
	// Early are those among them that are pending and not yet due.
	Early []Early
	// More: a sweep was cut off by its bound.
	More bool
	// Next is where a take-over goes on; empty = that was all.
	Next string
	// Now is the time by Redis.
	Now time.Time
}

// Early is a notice that was asked for before it needs attention.
type Early struct {
	Key string
	At  time.Time // when it does
}

// Lease is what a claim is asked for with: the token that its settle must prove,
// and how long nobody else may claim the notice.
type Lease struct {
	Token string
	For   time.Duration
}

// ClaimKeys claims notices of one partition by key, if they are due. The
// same call may be made again when its reply was lost: what its token has won
// is won again, and the lease begins anew.
func (s *Store) ClaimKeys(ctx context.Context, p keys.Partition, lease Lease, ks []string) (Claimed, error) {
	args := make([]any, 0, 5+len(ks))
	args = append(args, "")
	for i := range ks {
		args = append(args, &ks[i])
	}
	return s.claim(ctx, claimScript, p, lease, args)
}

// Postponed is a notice with the score that its postponement wrote: see [Settled].
type Postponed struct{ Key, Score string }

// ClaimPostponed claims postponed notices of one partition before their postponement ends, if
// their scores are still exactly those: nobody has claimed, rescheduled or cancelled
// them since. Their timers are deleted. A call may be made again as that of ClaimKeys.
func (s *Store) ClaimPostponed(ctx context.Context, p keys.Partition, lease Lease, list []Postponed) (Claimed, error) {
	args := []any{s.timing(p.Prefix)}
	for i := range list {
		args = append(args, list[i].Key, list[i].Score)
	}
	c, err := s.claim(ctx, claimScript, p, lease, args)
	if err != nil || !s.o.Cluster || s.adopts(p.Prefix) {
		return c, err
	}
	timers := make([]timer, len(c.Won))
	for i := range c.Won {
		timers[i] = timer{key: c.Won[i].Key, over: remove}
	}
	s.arm(ctx, p.Prefix, timers, c.Now)
	return c, nil
}

// SweepOptions say what a sweep claims.
type SweepOptions struct {
	// Grace is how long notices that have a timer are left to its event.
	Grace time.Duration
	// Limit is how many are claimed at most.
	Limit int
	// Newest begins with those that are due last, instead of first.
	Newest bool
}

// Sweep claims overdue notices of one partition: those due for longer than the
// grace, and those that have no timer.
func (s *Store) Sweep(ctx context.Context, p keys.Partition, lease Lease, o SweepOptions) (Claimed, error) {
	mode := "o"
	if o.Newest {
		mode = "n"
	}
	return s.claim(ctx, sweepScript, p, lease, []any{o.Grace.Milliseconds(), o.Limit, mode})
}

// Recover finds what a claim call with this token has won although its reply
// was lost, and begins its lease anew: n is how many are asked for, those first whose
// lease ends first, and ago is how long ago that call began. So calls for a few, one
// after another, find all.
func (s *Store) Recover(ctx context.Context, p keys.Partition, lease Lease, n int, ago time.Duration) (Claimed, error) {
	return s.claim(ctx, recoverScript, p, lease, []any{n, ago.Milliseconds() + 1000})
}

// TakeOverOptions say what a take-over claims.
type TakeOverOptions struct {
	// Holder is the id of the instance that is dead: its claims' tokens begin
	// with it and a '-'.
	Holder string
	// Longest is how long the dead one's leases may be: claims of longer ones
	// are left until they lapse.
	Longest time.Duration
	// Limit is how many are claimed at most.
	Limit int
	// From is where to go on: the Next of the call before.
	From string
}

// TakeOver claims what an instance that is surely dead has claimed, as if those
// leases had lapsed: each counts as one more lapse, and a settle by the old
// claim is refused.
func (s *Store) TakeOver(ctx context.Context, p keys.Partition, lease Lease, o TakeOverOptions) (Claimed, error) {
	return s.claim(ctx, takeOverScript, p, lease, []any{o.Limit, o.Holder + "-", o.Longest.Milliseconds(), o.From})
}

// claim makes a call of one of the scripts, which takes own behind what all of them take.
func (s *Store) claim(ctx context.Context, sc *wire.Script, p keys.Partition, lease Lease, own []any) (Claimed, error) {
	args := make([]any, 0, 4+len(own))
	args = append(args, s.space.ClaimPrefix(p.Shard), lease.Token, lease.For.Milliseconds(), maxClaimBytes)
	args = append(args, own...)
	v, err := s.w.Parts(ctx, sc, 2, []string{s.space.Shadow(p), s.space.Records(p)}, args)
	if err != nil {
		return Claimed{}, err
	}
	c := Claimed{Now: wire.Micros(v[0]), More: v[1] == int64(1)}
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
				// It is claimed like any other, and dies.
				n = notice.Unread(key, p.Prefix, record)
				if before != "-" {
					n.Due = attention(before)
				} else if n.Due.IsZero() {
					n.Due = c.Now
				}
				if n.Made == 0 {
					n.Made = notice.MadeAt(c.Now)
				}
			}
			held := heldIn(before)
			if before == "-" { // not known any more; the record tells the due time
				before, held = strconv.FormatInt(n.Due.UnixMilli(), 10), notice.HeldRedis
			}
			count, _ := strconv.Atoi(lapses)
			c.Won = append(c.Won, Claim{Notice: n, Lapses: count, Shard: p.Shard, Attention: attention(before), Held: held, token: lease.Token, score: score, before: before})
		case int64:
			switch a {
			case 0:
				c.Lost++
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

// Partition is where the notice was claimed, and is settled.
func (c *Claim) Partition() keys.Partition { return keys.Partition{Prefix: c.Route, Shard: c.Shard} }

// Token is what the claim was made under: see Lease.
func (c *Claim) Token() string { return c.token }

// SameAs reports whether two claims of a notice are one.
func (c *Claim) SameAs(other *Claim) bool { return c.token == other.token }

// Take makes c settle by a later claim of the same notice.
func (c *Claim) Take(later *Claim) {
	c.token, c.score, c.before, c.Attention, c.Held = later.token, later.score, later.before, later.Attention, later.Held
}

// attention is the instant a score in the shadow stands for; its fraction says
// other things.
func attention(score string) time.Time {
	f, _ := strconv.ParseFloat(score, 64)
	return time.UnixMilli(int64(f)).UTC()
}

// Reported is the claim of a notice that awaits its consumer's report. Its
// token names the making and the attempt, as settle.lua wrote them when the
// entry was pushed: a notice that has taken this one's place has another.
func Reported(f Found) Claim {
	token := "report:" + strconv.FormatInt(int64(f.Made), 10) + ":" + strconv.Itoa(f.AttemptsMade)
	score := cmp.Or(f.score, "0")
	return Claim{Notice: f.Notice, Shard: f.Shard, token: token, score: score, before: score}
}
