package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/audit"
	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// answers stands in Redis's place: each script is answered with what is made of some
// bytes.
type answers struct {
	rest  []byte
	learn bool // the layout is learnt
}

func (a *answers) next() byte {
	if len(a.rest) == 0 {
		return 0
	}
	b := a.rest[0]
	a.rest = a.rest[1:]
	return b
}

// texts are what scripts answer, and what is nearly that.
var texts = []string{"", "-", "0", "scheduled", "dead", "delivered", "app1:a:b:1", "1763740800000", "1763740800000.5", "1763740800000.0009765625", "nan", "inf", "1e400",
	"1763740800000 0 1763740830000.0009765625", "- -1 x", "-1 99999999999999999999 1", `{"due":1763740800000,"made":187654321000000,"json":{"a":1}}`,
	`{"due":1763740800000,"made":-5}`, `{"due":`, "OUT OF ORDER", "1 2", "app1", "app1 i", "\xff\x00"}

func (a *answers) value(depth int) any {
	switch kind := a.next(); {
	case kind < 50:
		return int64(int8(a.next()))
	case kind < 60:
		return int64(a.next()) << 52
	case kind < 160:
		return texts[int(a.next())%len(texts)]
	case kind < 240 && depth < 4:
		list := make([]any, a.next()%12)
		for i := range list {
			list[i] = a.value(depth + 1)
		}
		return list
	}
	return nil
}

func (a *answers) answer(cmd redis.Cmder) {
	var c *redis.Cmd
	switch cmd := cmd.(type) {
	case wire.Once:
		c = cmd.Cmd
	case *redis.Cmd:
		c = cmd
	default:
		cmd.SetErr(redis.Nil)
		return
	}
	v := a.value(0)
	if _, list := v.([]any); !list && a.next() > 64 { // what scripts answer is a list as a rule
		v = []any{v, a.value(1), a.value(1)}
	}
	c.SetVal(v)
}

// learnt answers what register.lua and the two reads beside it do where two prefixes are known.
func learnt(cmd redis.Cmder) {
	switch cmd := cmd.(type) {
	case *redis.Cmd:
		cmd.SetVal([]any{"x", "0", prefix, "app1:a"})
	case *redis.MapStringStringCmd:
		cmd.SetVal(map[string]string{"layout": "1", "shards": "1"})
	case *redis.StringSliceCmd:
		cmd.SetVal([]string{prefix, "app1:a"})
	}
}

func (a *answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *answers) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		a.answer(cmd)
		return cmd.Err()
	}
}

func (a *answers) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if a.learn {
				learnt(cmd)
			} else {
				a.answer(cmd)
			}
		}
		return nil
	}
}

// FuzzReplies: whatever a script answers, an error or an answer comes of it. A Redis of
// another kind, a proxy or a script that was changed may answer anything; a process
// that ended by it would end again at each start.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{200, 1, 0, 5})
	f.Add([]byte{200, 2, 0, 5, 0, 1})
	f.Add([]byte{200, 5, 0, 5, 0, 0, 100, 6, 100, 13, 100, 16})
	f.Add([]byte{200, 3, 0, 5, 200, 7, 100, 3, 0, 1, 0, 0, 100, 16, 100, 8, 100, 0, 100, 0})
	f.Add([]byte{200, 6, 0, 1, 0, 1, 200, 2, 0, 0, 0, 1, 200, 2, 100, 6, 100, 9, 200, 2, 100, 6, 100, 8})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx := t.Context()
		a := &answers{rest: b}
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer func() { _ = c.Close() }()
		c.AddHook(a)
		s := New(Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}, Prefixes: []string{prefix}, Retention: time.Hour, Retain: 10,
			Adopts: func(string) bool { return true }})
		a.learn = true
		if err := s.Learn(ctx); err != nil {
			t.Fatal(err)
		}
		a.learn = false
		const key = "app1:a:b:1"
		l := Lease{"mine", lease}
		n := notice.Notice{Key: key, Route: prefix, Made: notice.MadeAt(time.Now()), Due: time.Now()}
		end := Settlement{Claim: Claim{Notice: &n, token: "mine", score: "1", before: "1"}, Ending: EndRetry, After: time.Second}
		for _, call := range []func() error{
			func() error { _, err := s.Schedule(ctx, partition, []Request{{Key: key}}); return err },
			func() error { _, err := s.ClaimKeys(ctx, partition, l, []string{key}); return err },
			func() error { _, err := s.Sweep(ctx, partition, l, SweepOptions{Limit: 5}); return err },
			func() error { _, err := s.Recover(ctx, partition, l, 5, time.Second); return err },
			func() error {
				_, err := s.TakeOver(ctx, partition, l, TakeOverOptions{Holder: "i", Longest: lease, Limit: 5})
				return err
			},
			func() error { _, err := s.Settle(ctx, partition, []Settlement{end}); return err },
			func() error { _, err := s.Amend(ctx, prefix, key, Redrive, When{}); return err },
			func() error {
				_, err := s.Reopen(ctx, Found{Notice: &n}, end)
				return err
			},
			func() error { _, err := s.Find(ctx, prefix, key); return err },
			func() error { _, err := s.FindMany(ctx, partition, []string{key, "app1:a:b:2"}); return err },
			func() error {
				_, err := s.List(ctx, Query{Routes: []string{prefix}, State: notice.Scheduled, Limit: 3})
				return err
			},
			func() error {
				_, err := s.RedriveAll(ctx, Query{Routes: []string{prefix}, Limit: 3}, false)
				return err
			},
			func() error { _, _, err := s.Counts(ctx, []string{prefix}); return err },
			func() error { _, err := s.Look(ctx, []Look{{Partition: partition, Limit: 3}}); return err },
			func() error { _, _, _, err := s.Peek(ctx, partition, []string{key}, 100); return err },
			func() error {
				_, err := s.Adopt(ctx, partition, []Adoption{{Seen: Seen{Key: key, Length: NoKey}, Op: OpAdopt}})
				return err
			},
			func() error { _, _, err := s.Strays(ctx, partition, "0"); return err },
			func() error { _, _, err := s.StraysDue(ctx, partition, time.Second); return err },
			func() error { _, _, err := s.Unknown(ctx, partition, []string{key}, time.Second); return err },
			func() error { _, _, err := s.Rehome(ctx, partition, "app1:a", []string{key}); return err },
			func() error { _, _, err := s.Trim(ctx, 0, []Trim{{Prefix: prefix}}, 5); return err },
			func() error { _, _, err := s.Forget(ctx, partition, []string{key}); return err },
			func() error { _, _, err := s.Forecast(ctx, prefix, time.Now(), time.Second, 3); return err },
			func() error { _, err := s.Hold(ctx, 0, l, Confirmed{}); return err },
			func() error { _, err := s.Shed(ctx, 0, 5); return err },
			func() error { _, err := s.Beat(ctx, Beat{ID: "i", Ask: []string{"j"}}); return err },
			func() error { _, err := s.CountOut(ctx, Sign{ID: "j", score: "1"}, "i"); return err },
			func() error { _, err := s.Serve(ctx, "i", []string{prefix}, time.Second); return err },
			func() error { return s.Learn(ctx) },
			func() error {
				_, err := s.Restore(ctx, partition, []Letter{{&n, n.Due}, {&n, time.Time{}}})
				return err
			},
			func() error {
				_, err := s.Replay(ctx, Replay{Mark: "m"}, []ReplayItem{{Number: 1, Notice: &n}, {Number: 2, Result: "gone"}})
				return err
			},
			func() error { _, _, err := s.AmendMany(ctx, Cancel, []Amended{{Prefix: prefix, Key: key}}); return err },
			func() error {
				m, _, err := s.TakeOut(ctx, layout.Moving{From: partition}, nil, []string{key}, func(*layout.View) bool { return true })
				if len(m.What)%2 != 0 {
					t.Errorf("half a notice is on its way: %q", m.What)
				}
				_, arrived := s.Arrive(ctx, m)
				return errors.Join(err, arrived, s.MoveEnd(ctx, m, nil))
			},
			func() error {
				_, err := s.SetSide(ctx, s.Side(), layout.Side{State: layout.SideLeaving, ID: "m", Other: "x"})
				return err
			},
			func() error { _, err := s.Resharding(ctx, "mine", time.Second); return err },
			func() error { return s.BeginSession(ctx, "c", "l", "x", time.Second) },
			func() error { return s.DropLink(ctx, "l") },
			func() error { return s.Audit(ctx, audit.Entry{Action: audit.Pause}) },
			func() error { return s.TendAudit(ctx, []string{"c"}) },
			func() error { _, err := s.Audited(ctx, audit.Range{}, 10); return err },
		} {
			a.rest = b
			_ = call() // an error is as good as an answer
		}
	})
}
