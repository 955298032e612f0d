package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
)

// What clients do with adopted timers while no event tells of it.
func TestADeletedTimerIsCancelledThoughItsEventWasLost(t *testing.T) {
	t.Parallel()
	g := newGot(1000)
	w, c := adopting(t, g)
	ctx := context.Background()
	gone := map[string]func(k string) error{
		"del":     func(k string) error { return c.Del(ctx, k).Err() },
		"rename":  func(k string) error { return c.Rename(ctx, k, "elsewhere:"+k).Err() },
		"persist": func(k string) error { return c.Persist(ctx, k).Err() },
		"hash": func(k string) error {
			p := c.TxPipeline()
			p.Del(ctx, k)
			p.HSet(ctx, k, "f", "v")
			_, err := p.Exec(ctx)
			return err
		},
	}
	flags := c.ConfigGet(ctx, "notify-keyspace-events").Val()["notify-keyspace-events"]
	const n = 20
	for how, do := range gone {
		set := func(i int, life time.Duration) string {
			k := fmt.Sprintf("app1:%s:k:%d", how, i)
			if err := c.Set(ctx, k, "p", life).Err(); err != nil {
				t.Fatal(err)
			}
			w.until(t, k, notice.Scheduled)
			return k
		}
		for i := range n {
			k := set(i, time.Hour)
			c.ConfigSet(ctx, "notify-keyspace-events", "")
			if err := do(k); err != nil {
				t.Fatal(how, err)
			}
			c.ConfigSet(ctx, "notify-keyspace-events", flags)
		}
		w.adopter.Scan() // as a subscription does when it begins
		for i := range n {
			w.until(t, fmt.Sprintf("app1:%s:k:%d", how, i), notice.Cancelled)
		}
		// Shortly before they are due, nobody asks for that.
		var ks []string
		for i := range n {
			ks = append(ks, set(n+i, 12*time.Second))
		}
		c.ConfigSet(ctx, "notify-keyspace-events", "")
		for _, k := range ks {
			if err := do(k); err != nil {
				t.Fatal(how, err)
			}
		}
		c.ConfigSet(ctx, "notify-keyspace-events", flags)
	}
	c.Set(ctx, "app1:a:kept:1", "p", 2*time.Hour)
	for how := range gone {
		for i := range n {
			w.until(t, fmt.Sprintf("app1:%s:k:%d", how, n+i), notice.Cancelled)
		}
	}
	if s := w.state("app1:a:kept:1"); s != notice.Scheduled {
		t.Errorf("a timer that is there: %s", s)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) > 0 {
		t.Errorf("%d notices were delivered", len(g.all))
	}
}

// The same with its event: another type stands in the timer's place at once.
func TestATimerThatBecomesAHashIsCancelled(t *testing.T) {
	t.Parallel()
	w, c := adopting(t, newGot(10))
	ctx := context.Background()
	for i := range 20 {
		k := key(i)
		c.Set(ctx, k, "p", time.Hour)
		w.until(t, k, notice.Scheduled)
		p := c.TxPipeline()
		p.Del(ctx, k)
		p.HSet(ctx, k, "f", "v")
		if _, err := p.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		w.until(t, k, notice.Cancelled)
	}
}
