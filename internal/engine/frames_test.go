package engine

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/client"
	"notifier/internal/route"
	"notifier/internal/testkit"
)

// stacks records the stacks of all goroutines when the function in sends its first script.
type stacks struct {
	in   string
	once sync.Once
	all  string
}

func (h *stacks) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *stacks) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *stacks) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		buf := make([]byte, 1<<20)
		if own := string(buf[:runtime.Stack(buf, false)]); cmd.Name() == "evalsha" && strings.Contains(own, h.in) {
			h.once.Do(func() { h.all = string(buf[:runtime.Stack(buf, true)]) })
		}

		return next(ctx, cmd)
	}
}

// own returns the functions of this module on the stack of the goroutine that runs the function first, down to it.
func (h *stacks) own(first string) (list []string) {
	for _, one := range strings.Split(h.all, "\n\n") {
		if !strings.Contains(one, "\n"+first+"(") {
			continue
		}
		for line := range strings.Lines(one) {
			if name, ok := strings.CutPrefix(line, "notifier/internal/"); ok && !strings.Contains(line, "engine.(*stacks)") {
				list = append(list, name[:strings.LastIndexByte(name, '(')]) // without the arguments
			}
			if strings.HasPrefix(line, first+"(") {
				return list
			}
		}
	}
	return nil
}

// Two goroutines run a schedule call: one serves it, the other sends its script, with those of concurrent calls. Together
// they have few functions of this module on their stacks. The test is not parallel: calls of others have the same functions.
func TestFewFunctionsBetweenHandlerAndScript(t *testing.T) {
	const most = 12
	r := testRoute("r", "app1")
	r.Target = route.Target{Kind: route.KindList, Key: "work"}
	w := working(t, testkit.SharedRedis(t), r)
	h := &stacks{in: "store.(*Store).ScheduleAll("}
	w.store.Wire().Redis.AddHook(h)
	if _, err := w.api.Schedule(t.Context(), client.Request{Key: key(0), Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	serves, sends := h.own("notifier/internal/api.(*api).schedule"), h.own("notifier/internal/pace.(*Batcher[...]).run")
	all := append(sends, serves...)
	if len(serves) == 0 || len(sends) == 0 || len(all) > most {
		t.Errorf("%d functions, want at most %d:\n%s", len(all), most, strings.Join(all, "\n"))
	}
}
