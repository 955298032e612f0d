package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"notifier/client"
	"notifier/internal/keys"
	"notifier/internal/notice"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	prefix, to              string
	delay                   time.Duration
	count, callers, perCall int
	bodySize                int
	cancel                  bool
}

func (a *command) bench() *cobra.Command {
	var o benchOptions
	c := &cobra.Command{
		Use:   "bench --prefix APP:MODULE:TYPE",
		Short: "Schedule many notices against the API and print the rates",
		Long: `Schedules --count notices with keys under --prefix, which should belong to a separate
route with the target log. Prints the calls and notices per second and the duration of the
calls. The notices are cancelled afterwards unless --keep is given.`,
		Example: `  notifier bench --prefix bench:load:test
  notifier bench --prefix bench:load:test --count 200000 --batch 500 --callers 8
  notifier bench --prefix bench:load:test --delay 10s --keep    # and watch notifier stats`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			keep, err := cmd.Flags().GetBool("keep")
			if err != nil {
				return err
			}

			o.cancel = !keep
			if err := o.check(); err != nil {
				return err
			}

			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			return a.runBench(cmd.Context(), c, o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.prefix, "prefix", "", "prefix of the keys: app:module:type")
	f.IntVar(&o.count, "count", 10_000, "notices")
	f.IntVar(&o.callers, "callers", 16, "simultaneous calls")
	f.IntVar(&o.perCall, "batch", 1, "notices a call, 1 to 1000; 1 uses POST /v1/notices")
	f.IntVar(&o.bodySize, "body", 200, "bytes of the body")
	o.delay = time.Hour
	delayVar(f, &o.delay, "delay", "time from now when they are due")
	f.StringVar(&o.to, "to", "", "address to call, if the route's target is notice")
	f.Bool("keep", false, "do not cancel them afterwards")
	_ = c.MarkFlagRequired("prefix") // it is defined above
	return a.withJSON(c)
}

func (o *benchOptions) check() error {
	if strings.Count(o.prefix, ":") != 2 || keys.CheckPrefix(o.prefix) != nil {
		return usage("--prefix %q: want app:module:type", o.prefix)
	}

	for _, n := range []struct{ value, least, most int }{{o.count, 1, 10_000_000}, {o.callers, 1, 1024}, {o.perCall, 1, 1000},
		{o.bodySize, 2, 1 << 20}} {
		if n.value < n.least || n.value > n.most {
			return usage("want 1 to 10,000,000 --count, 1 to 1024 --callers, 1 to 1000 --batch and 2 to 1,048,576 --body")
		}
	}

	return nil
}

// benchResult is the printed result.
type benchResult struct {
	Notices        int     `json:"notices"`
	Calls          int     `json:"calls"`
	Seconds        float64 `json:"seconds"`
	NoticesASecond float64 `json:"notices_per_second"`
	CallsASecond   float64 `json:"calls_per_second"`
	P50MS          float64 `json:"p50_ms"`
	P99MS          float64 `json:"p99_ms"`
	MaxMS          float64 `json:"max_ms"`
}

func (a *command) runBench(ctx context.Context, c *client.Client, o benchOptions) error {
	body, err := json.Marshal(strings.Repeat("x", o.bodySize-2))
	if err != nil {
		return err
	}

	run := benchRun{benchOptions: o, c: c, name: strings.ToLower(rand.Text()[:8]), body: body}
	calls := (o.count + o.perCall - 1) / o.perCall
	bar := a.bar(int64(o.count), "scheduling", "notices")
	var mu sync.Mutex
	took := make([]time.Duration, 0, calls)
	began := time.Now()
	err = spread(ctx, o.callers, calls, func(ctx context.Context, call int) error {
		from, to := call*o.perCall, min((call+1)*o.perCall, o.count)
		t := time.Now()
		if err := run.send(ctx, from, to); err != nil {
			return err
		}

		mu.Lock()
		took = append(took, time.Since(t))
		mu.Unlock()
		_ = bar.Add(to - from) // only drawing can fail
		return nil
	})
	elapsed := time.Since(began)
	_ = bar.Finish()
	if err == nil {
		err = a.sayBench(o, took, elapsed)
	}

	if !o.cancel {
		return err
	}

	// Notices are cancelled after a failure or an interruption too.
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
	defer stop()
	bar = a.bar(int64(o.count), "cancelling", "notices")
	gone := spread(end, o.callers, o.count, func(ctx context.Context, i int) error {
		_, err := c.Cancel(ctx, run.key(i))
		_ = bar.Add(1)
		if client.IsStatus(err, 404) || client.IsStatus(err, 409) {
			return nil // never scheduled, or delivered already
		}

		return err
	})
	_ = bar.Finish()
	if gone != nil {
		return fmt.Errorf("cancel the notices under %s:%s-: %w", o.prefix, run.name, gone)
	}

	return err
}

// benchRun is one run. The keys of its notices contain its name, so that two runs do not collide.
type benchRun struct {
	benchOptions
	c    *client.Client
	name string
	body []byte
}

func (b *benchRun) key(i int) string { return fmt.Sprintf("%s:%s-%d", b.prefix, b.name, i) }

func (b *benchRun) request(i int) client.Request {
	return client.Request{Key: b.key(i), Delay: b.delay, URL: b.to, Body: b.body}
}

// send schedules the notices from, …, to-1 in one call.
func (b *benchRun) send(ctx context.Context, from, to int) error {
	if b.perCall == 1 {
		_, err := b.c.Schedule(ctx, b.request(from))
		return err
	}

	lines := make([][]byte, 0, to-from)
	for i := from; i < to; i++ {
		line, err := b.request(i).Line()
		if err != nil {
			return err
		}

		lines = append(lines, line)
	}

	results, err := b.c.ScheduleLines(ctx, lines, client.Repeatable())
	if err != nil {
		return err
	}

	for _, r := range results {
		if r.Problem != nil {
			return fmt.Errorf("%s: %w", r.Key, r.Problem)
		}
	}

	return nil
}

// spread runs do for 0 … n-1 in several goroutines; the first error stops it.
func spread(ctx context.Context, workers, n int, do func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(workers, n) {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
		})
	}

	return g.Wait()
}

func (a *command) sayBench(o benchOptions, took []time.Duration, elapsed time.Duration) error {
	slices.Sort(took)
	ms := func(q float64) float64 {
		return float64(took[min(int(q*float64(len(took))), len(took)-1)].Microseconds()) / 1000
	}
	r := benchResult{Notices: o.count, Calls: len(took), Seconds: elapsed.Seconds(), NoticesASecond: float64(o.count) / elapsed.Seconds(),
		CallsASecond: float64(len(took)) / elapsed.Seconds(), P50MS: ms(0.5), P99MS: ms(0.99), MaxMS: ms(1)}
	if a.json {
		return a.sayValue(r)
	}

	a.say("%s in %s by %s: %.2fs, %.0f notices/s, %.0f calls/s\n", notice.Count(r.Notices, "notice"), notice.Count(r.Calls, "call"),
		notice.Count(o.callers, "caller"), r.Seconds, r.NoticesASecond, r.CallsASecond)
	a.say("duration of a call: p50 %.2fms, p99 %.2fms, max %.2fms\n", r.P50MS, r.P99MS, r.MaxMS)
	return nil
}
