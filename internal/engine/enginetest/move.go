package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/dispatch"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// check ends the test on an error of Redis.
func (e *Engine) check(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// claim claims a notice, whenever it is due.
func (e *Engine) claim(key string) (*route.Route, store.Claim) {
	e.t.Helper()
	ctx, r := e.t.Context(), e.table.Match(key)
	if c, err := e.Engine.Fire(ctx, key); err != nil || !c.Done {
		e.t.Fatalf("%s cannot be moved: %+v, %v", key, c, err)
	}

	e.mu.Lock()
	e.claims++
	token := fmt.Sprintf("test-%d", e.claims)
	e.mu.Unlock()
	c, err := e.Store().ClaimKeys(ctx, keys.Partition{Prefix: r.Prefix}, store.Lease{Token: token, For: r.Lease()}, []string{key})
	if err != nil || len(c.Won) != 1 {
		e.t.Fatalf("%s cannot be claimed: %+v, %v", key, c, err)
	}

	return r, c.Won[0]
}

func (e *Engine) end(r *route.Route, c store.Claim, res notice.Result) {
	e.t.Helper()
	s := dispatch.End(r, &c, res, notice.Attempt{At: time.Now(), Duration: 12 * time.Millisecond}, notice.Waits{})
	out, err := e.Store().Settle(e.t.Context(), keys.Partition{Prefix: r.Prefix}, []store.Settlement{s})
	if err != nil || out[0].Stale || out[0].Refused != "" {
		e.t.Fatalf("%s cannot be settled: %+v, %v", c.Key, out, err)
	}
}

// Move puts a scheduled notice into a state, as a delivery would; Cancelled as a call would.
func (e *Engine) Move(key string, to notice.State, reason notice.Reason) {
	e.t.Helper()
	if to == notice.Cancelled {
		if c, err := e.Engine.Cancel(e.t.Context(), key); err != nil || !c.Done {
			e.t.Fatalf("%s cannot be cancelled: %+v, %v", key, c, err)
		}
		return
	}

	r, c := e.claim(key)
	e.mu.Lock()
	answer := e.answer
	e.mu.Unlock()
	switch to {
	case notice.Claimed:
	case notice.Delivered:
		res := notice.DeliveredResult(200)
		res.Response = answer
		e.end(r, c, res)
	case notice.Dead:
		e.end(r, c, notice.DeadResult(reason, answer))
	default:
		e.t.Fatalf("nothing moves to %s", to)
	}
}

// End claims a scheduled notice and ends its attempt with a result. due is when the attempt was due.
func (e *Engine) End(key string, res notice.Result) (due time.Time) {
	e.t.Helper()
	r, c := e.claim(key)
	due = c.Due
	e.end(r, c, res)
	return due
}

// Hand hands a notice to a consumer, whose report is awaited, and returns its id.
func (e *Engine) Hand(key string) string {
	e.t.Helper()
	r, c := e.claim(key)
	e.end(r, c, notice.Result{Outcome: notice.OutcomeDelivered, Push: &notice.Push{Key: r.Target.Key}})
	return c.ID()
}

// Trim trims a notice, which is delivered first if it is scheduled, and leaves a tombstone.
func (e *Engine) Trim(key string) {
	e.t.Helper()
	if f, err := e.Engine.Find(e.t.Context(), key); err == nil && f.State == notice.Scheduled {
		e.Move(key, notice.Delivered, "")
	}

	prefix := e.table.Match(key).Prefix
	s := store.New(store.Options{Client: e.conn.Commander, Space: e.space, Prefixes: []string{prefix}, Retention: time.Hour,
		RepeatWindow: time.Hour, RepeatBytes: 1 << 20})
	if n, _, err := s.Trim(e.t.Context(), 0, []store.Trim{{Prefix: prefix}}, 10); err != nil || n == 0 {
		e.t.Fatalf("%s is not trimmed: %d, %v", key, n, err)
	}
}

// All returns each notice by its key.
func (e *Engine) All() map[string]store.Found {
	e.t.Helper()
	out := map[string]store.Found{}
	q := store.Query{Limit: 1000, Routes: e.Store().Layout.Prefixes()}
	for more := true; more; more = q.Cursor != "" {
		p, err := e.Engine.List(context.Background(), q)
		e.check(err)
		for i := range p.Items {
			out[p.Items[i].Key] = p.Items[i]
		}

		q.Cursor = p.Cursor
	}

	return out
}

// Len is the number of notices kept.
func (e *Engine) Len() int { return len(e.All()) }

// Add stores a notice as it is given, without a timer.
func (e *Engine) Add(f store.Found) {
	e.t.Helper()
	p, c, ctx := keys.Partition{Prefix: f.Route}, e.redis.Client(), context.Background()
	due := f.Due
	if due.IsZero() { // of a record that cannot be read
		due = time.Now()
	}

	record := f.Raw
	if record == nil {
		record = f.AppendTail(fmt.Appendf(nil, `{"due":%d,"made":%d`, due.UnixMilli(), f.Made))
	}

	e.check(c.HSet(ctx, e.space.Records(p), f.Key, record).Err())

	set, score := e.space.Shadow(p), float64(due.UnixMilli())+.5
	switch f.State {
	case notice.Claimed:
		e.check(c.Set(ctx, e.space.Claim(f.Key), "test", time.Hour).Err())
	case notice.Delivered:
		set, score = e.space.Settled(p), float64(f.SettledAt.UnixMilli())
	case notice.Cancelled:
		set, score = e.space.Settled(p), float64(f.SettledAt.UnixMilli())+.5
	case notice.Dead:
		set, score = e.space.Dead(p), store.DeadScore(f.SettledAt, f.Cause())
	case notice.Scheduled, notice.Settled:
	}

	e.check(c.ZAdd(ctx, set, redis.Z{Score: score, Member: f.Key}).Err())
}

// Drop deletes a notice, as a Redis that lost its data.
func (e *Engine) Drop(key string) {
	e.t.Helper()
	p, c, ctx := keys.Partition{Prefix: e.table.Match(key).Prefix}, e.redis.Client(), context.Background()
	e.check(c.HDel(ctx, e.space.Records(p), key).Err())
	for _, set := range []string{e.space.Shadow(p), e.space.Dead(p), e.space.Settled(p)} {
		e.check(c.ZRem(ctx, set, key).Err())
	}

	e.check(c.Del(ctx, key, e.space.Claim(key)).Err())
}

// Clear deletes all notices.
func (e *Engine) Clear() {
	e.t.Helper()
	for key := range e.All() {
		e.Drop(key)
	}
}

// Leave stores a notice under a prefix that no route has, as one whose route was taken out of the configuration.
func (e *Engine) Leave(prefix, key string) {
	e.t.Helper()
	ctx, now := context.Background(), time.Now().UTC().Truncate(time.Millisecond)
	e.check(e.redis.Client().SAdd(ctx, e.space.Routes(), prefix).Err())
	e.check(e.redis.Client().SAdd(ctx, e.space.ShardRoutes(0), prefix).Err())
	e.Add(store.Found{Notice: &notice.Notice{Key: key, Route: prefix, Made: notice.MadeAt(now), Due: now}, State: notice.Scheduled})
	e.check(e.Store().Layout.Learn(ctx))
}

// ForgetAudit deletes all entries of the audit.
func (e *Engine) ForgetAudit() {
	e.t.Helper()
	ctx := context.Background()
	all, err := e.redis.Client().Keys(ctx, e.space.Namespace+":{audit}:*").Result()
	e.check(err)
	if len(all) > 0 {
		e.check(e.redis.Client().Del(ctx, all...).Err())
	}
}

// Tell sets the figures that the instance publishes, and other instances.
func (e *Engine) Tell(own fleet.Figures, others ...fleet.Instance) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.figures, e.others = slices.Clone(json.RawMessage(own.Encode())), others
}

// SetMinutes stores the work of all instances, minute by minute.
func (e *Engine) SetMinutes(list ...fleet.Minute) {
	e.t.Helper()
	for _, m := range list {
		text, err := m.Encode()
		e.check(err)
		e.check(fleet.NewStore(e.Store().Layout).AddMinute(context.Background(), text, fleet.MinutesKept))
	}
}
