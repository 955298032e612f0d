package store

import (
	"context"
	_ "embed"
	"strconv"
	"strings"
	"time"

	"notifier/internal/notice"
)

//go:embed lua/claim.lua
var claimSource string

var claimScript = newScript("claim", claimSource, false)

// maxClaimBytes bounds the records one claim call brings.
const maxClaimBytes = 4 << 20

// Claim is a notice won for a lease, and what its settle must prove.
type Claim struct {
	*notice.Notice
	Lapses int // claims since the last settle that nobody settled
	Shard  int
	token  string
	score  string // in the shadow, as this claim left it
	before string // and as it found it: see Attention
}

// Claimed answers a claim call.
type Claimed struct {
	Won   []Claim
	Lost  int // somebody else claimed them
	Stale int // no longer pending, or not yet due
	// StaleKeys are the keys counted in Stale.
	StaleKeys []string
	// Broken are keys whose record was missing (dropped from the shadow) or
	// could not be read (left to lapse again).
	Broken []string
	// More: a sweep was cut off by its bound.
	More bool
	// Now is the time by Redis.
	Now time.Time
}

// ClaimKeys claims notices of one route and shard by key, if they are due.
func (s *Store) ClaimKeys(ctx context.Context, prefix string, shard int, token string, lease time.Duration, keys []string) (Claimed, error) {
	args := make([]any, 0, 6+len(keys))
	args = append(args, s.space.ClaimPrefix(shard), token, lease.Milliseconds(), maxClaimBytes, 0, "k")
	for i := range keys {
		args = append(args, &keys[i])
	}
	return s.claim(ctx, prefix, shard, token, args)
}

// Sweep claims at most n overdue notices of one route and shard: those due for
// longer than the grace, and those that have no timer. Newest tells from which
// end of the backlog.
func (s *Store) Sweep(ctx context.Context, prefix string, shard int, token string, lease, grace time.Duration, n int, newest bool) (Claimed, error) {
	mode := "o"
	if newest {
		mode = "n"
	}
	args := []any{s.space.ClaimPrefix(shard), token, lease.Milliseconds(), maxClaimBytes, grace.Milliseconds(), mode, n}
	return s.claim(ctx, prefix, shard, token, args)
}

// Recover finds what a claim call with this token has won although its reply
// was lost: n is what that call asked for, and ago how long ago it began.
func (s *Store) Recover(ctx context.Context, prefix string, shard int, token string, lease time.Duration, n int, ago time.Duration) (Claimed, error) {
	args := []any{s.space.ClaimPrefix(shard), token, lease.Milliseconds(), maxClaimBytes, 0, "t", n, ago.Milliseconds() + 1000}
	c, err := s.claim(ctx, prefix, shard, token, args)
	for i := range c.Won {
		// What the score was before is not known any more; the record tells the due time.
		c.Won[i].before = strconv.FormatInt(c.Won[i].Due.UnixMilli(), 10)
	}
	c.Stale, c.StaleKeys = 0, nil
	return c, err
}

func (s *Store) claim(ctx context.Context, prefix string, shard int, token string, args []any) (Claimed, error) {
	v, err := s.run(ctx, claimScript, []string{s.space.Shadow(shard, prefix), s.space.Records(shard, prefix)}, args)
	if err != nil {
		return Claimed{}, err
	}
	c := Claimed{Now: micros(v[0]), More: v[1] == int64(1)}
	c.Won = make([]Claim, 0, (len(v)-2)/3)
	for i := 2; i+2 < len(v); i += 3 {
		key, _ := v[i].(string)
		switch a := v[i+1].(type) {
		case string:
			before, rest, _ := strings.Cut(a, " ")
			lapses, score, _ := strings.Cut(rest, " ")
			record, _ := v[i+2].(string)
			n, err := notice.Decode(key, prefix, record)
			if err != nil {
				c.Broken = append(c.Broken, key)
				continue
			}
			count, _ := strconv.Atoi(lapses)
			c.Won = append(c.Won, Claim{Notice: n, Lapses: count, Shard: shard, token: token, score: score, before: before})
		case int64:
			switch a {
			case 0:
				c.Lost++
			case -2:
				c.Broken = append(c.Broken, key)
			default:
				c.Stale++
				c.StaleKeys = append(c.StaleKeys, key)
			}
		}
	}
	return c, nil
}

// Attention is when the claim call found the notice to need attention: its due
// time, or the end of the lease that lapsed.
func (c *Claim) Attention() time.Time {
	f, _ := strconv.ParseFloat(c.before, 64)
	return time.UnixMilli(int64(f)).UTC()
}

// Reported is the claim of a notice that awaits its consumer's report.
func Reported(f Found, shard int) Claim {
	return Claim{Notice: f.Notice, Shard: shard, token: "report:" + strconv.Itoa(f.Used), score: "0", before: "0"}
}
