package testkit

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Replies replaces Redis in fuzz tests. The reply to each script is made from the next bytes of the input.
type Replies struct {
	Rest []byte // not used yet
	// Learning has the layout learnt: these prefixes are known.
	Learning []string
}

// Answers is a client whose replies are made of bytes.
func Answers(t *testing.T, b []byte) (*redis.Client, *Replies) {
	a := &Replies{Rest: b}
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	c.AddHook(a)
	return c, a
}

func (a *Replies) next() byte {
	if len(a.Rest) == 0 {
		return 0
	}

	b := a.Rest[0]
	a.Rest = a.Rest[1:]
	return b
}

// texts are replies of scripts, and invalid variants of them.
var texts = []string{"", "-", "0", "scheduled", "dead", "delivered", "app1:a:b:1", "1763740800000", "1763740800000.5",
	"1763740800000.0009765625", "nan", "inf", "1e400",
	"1763740800000 0 1763740830000.0009765625", "- -1 x", "-1 99999999999999999999 1",
	`{"due":1763740800000,"made":187654321000000,"json":{"a":1}}`,
	`{"due":1763740800000,"made":-5}`, `{"due":`, "OUT OF ORDER", "1 2", "app1", "app1 i", "\xff\x00"}

func (a *Replies) value(depth int) any {
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

func (a *Replies) answer(cmd redis.Cmder) {
	c, ok := cmd.(interface{ SetVal(v any) }) // a *redis.Cmd, or a command of package wire that embeds one
	if !ok {
		cmd.SetErr(redis.Nil)
		return
	}

	v := a.value(0)
	if _, list := v.([]any); !list && a.next() > 64 { // what scripts answer is a list as a rule
		v = []any{v, a.value(1), a.value(1)}
	}

	c.SetVal(v)
}

// learnt answers what register.lua and the reads beside it do where some prefixes are known.
func (a *Replies) learnt(cmd redis.Cmder) {
	switch cmd := cmd.(type) {
	case *redis.Cmd:
		list := []any{"x", "0", "id", "part"}
		for _, p := range a.Learning {
			list = append(list, p)
		}

		cmd.SetVal(list)
	case *redis.MapStringStringCmd:
		cmd.SetVal(map[string]string{"layout": "3", "shards": "1", "id": "id"})
	case *redis.StringSliceCmd:
		cmd.SetVal(a.Learning)
	case *redis.IntCmd:
		cmd.SetVal(1) // the shard has a layout
	}
}

func (a *Replies) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *Replies) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if a.Learning != nil {
			a.learnt(cmd)
		} else {
			a.answer(cmd)
		}
		return cmd.Err()
	}
}

func (a *Replies) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if a.Learning != nil {
				a.learnt(cmd)
			} else {
				a.answer(cmd)
			}
		}
		return nil
	}
}

// FuzzReplies fuzzes the replies to calls: each call gets its replies from the input, and must return a result or an error.
func FuzzReplies(f *testing.F, calls func(t *testing.T, c *redis.Client, a *Replies) []func() error) {
	f.Add([]byte{200, 2, 0, 5, 0, 1})
	f.Add([]byte{200, 5, 0, 5, 0, 0, 100, 6, 100, 13, 100, 16})
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, a := Answers(t, b)
		for _, call := range calls(t, c, a) {
			a.Learning, a.Rest = nil, b
			_ = call() // an error is as good as a result
		}
	})
}
