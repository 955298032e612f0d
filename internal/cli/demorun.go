package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"go.uber.org/zap"

	"notifier/internal/app"
	"notifier/internal/config"
	"notifier/internal/embedded"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/store"
)

// demoOrder is one notice of the demonstration and its receiver's behaviour.
type demoOrder struct {
	key   string
	delay time.Duration
	fails int
	says  string
}

func demoOrders() []demoOrder {
	return []demoOrder{
		{"demo:pay:notice:1001", 200 * time.Millisecond, 0, "accepts at once"},
		{"demo:pay:notice:1002", 300 * time.Millisecond, 2, "answers 500 twice, then accepts"},
		{"demo:pay:notice:1003", 400 * time.Millisecond, 4, "answers 500 until the last step"},
		{"demo:pay:notice:1004", 400 * time.Millisecond, 1, "answers 500 once, then accepts"},
		{"demo:pay:notice:1005", 300 * time.Millisecond, len(demoLadder) + 1, "answers 500 to every attempt"},
		{"demo:order:close:2001", 1500 * time.Millisecond, 0, "closes an unpaid order"},
	}
}

// demoLadder replaces 15s 3m 10m 30m.
var demoLadder = notice.Ladder{150 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond, 800 * time.Millisecond}

// demoLimit bounds the demonstration, which takes about three seconds.
const demoLimit = 25 * time.Second

// attempts returns the expected number of attempts of the order.
func (o demoOrder) attempts() int { return min(o.fails, len(demoLadder)) + 1 }

// outcome returns the expected outcome of the order's notice.
func (o demoOrder) outcome() notice.State {
	if o.fails > len(demoLadder) {
		return notice.Dead
	}
	return notice.Delivered
}

// errDemo means that a notice had another outcome than expected within the limit.
var errDemo = errors.New("not every notice ended as expected")

// runDemo runs the demonstration and returns nil only if every notice had the expected outcome. It returns context.Canceled
// if ctx ended first. With Keep it runs until ctx ends, and then returns nil.
func runDemo(ctx context.Context, o DemoOptions) error {
	if o.Keep {
		return keepDemo(ctx, o)
	}

	err := showDemo(ctx, o)
	if ctx.Err() != nil {
		return ctx.Err()
	}

	return err
}

func showDemo(ctx context.Context, o DemoOptions) error {
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	begin := embedded.Start
	if o.Emulated {
		begin = func(context.Context) (*embedded.Server, error) { return embedded.StartEmulated() }
	}

	redis, err := begin(ctx)
	if err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}

	defer redis.Close()
	list := demoOrders()
	rcv, err := newDemoReceiver(list)
	if err != nil {
		return err
	}

	defer rcv.close()
	printTo(o.Stdout, "redis     %s\nreceiver  %s\nladder    %s (%s) in place of %s (%s)\n", redis.Kind, rcv.url, demoLadder,
		demoLadder.Summary(), notice.DefaultLadder[:4], notice.DefaultLadder[:4].Summary())

	dir, err := os.MkdirTemp("", "notifier-demo")
	if err != nil {
		return fmt.Errorf("create a directory for the history: %w", err)
	}

	defer func() { _ = os.RemoveAll(dir) }() // the system clears its temporary directory
	kept := "sqlite://" + filepath.Join(dir, "history.db")
	p, err := startDemo(demoAddresses{redis.URL, rcv.url, kept}, o.Version)
	if err != nil {
		return err
	}

	run, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- p.Run(run) }()
	defer func() {
		stop()
		<-done
	}()
	select {
	case <-p.Subscribed():
	case err := <-done:
		done <- nil
		return fmt.Errorf("the service ended: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("the service did not start: %w", ctx.Err())
	}

	for _, x := range list {
		r, err := p.Schedule(ctx, store.Request{Key: x.key, Delay: x.delay, Content: notice.Content{Body: []byte(`{"paid":true}`)}})
		if err != nil {
			return fmt.Errorf("schedule %s: %w", x.key, err)
		}

		rcv.expect(x.key, r.Made.Time())
	}

	printTo(o.Stdout, "\nscheduled %d notices; attempts as the receiver sees them:\n\n", len(list))
	rcv.print(ctx, o.Stdout)
	if errors.Is(ctx.Err(), context.Canceled) { // no summary of an interrupted run
		return ctx.Err()
	}
	if err := demoTable(ctx, o.Stdout, p, list, rcv); err != nil {
		return err
	}
	if err := showRemembered(ctx, o.Stdout, kept, list); err != nil {
		return err
	}

	printTo(o.Stdout, "\nnext      notifier demo --keep: the same with steady traffic and a dashboard, until Ctrl-C\n"+
		"          README.md, \"Run it\": the service with your own routes\n")
	return nil
}

// demoAddresses are the addresses that the process uses.
type demoAddresses struct{ redis, target, history string }

func printTo(w io.Writer, format string, a ...any) { _, _ = fmt.Fprintf(w, format, a...) }

// startDemo returns the process with a configuration from environment variables.
func startDemo(at demoAddresses, version string) (*app.Process, error) {
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	to, err := route.ParseTarget(at.target)
	if err != nil {
		return nil, err
	}

	secret := sign.SecretOf([]byte("a secret of the demonstration 32"))
	c := &config.Config{Redis: config.Redis{URL: at.redis, Mode: config.Standalone}, Namespace: "notifier", Shards: 1, Instance: "demo",
		Listen: listen.Addr().String(), Concurrency: 64, Grace: 50 * time.Millisecond, MaxBody: 1 << 16, Retention: time.Hour, Retain: 1000,
		ConfigureRedis: true, ShutdownTimeout: 5 * time.Second,
		History: config.History{URL: config.Secret(at.history), Bodies: string(history.BodiesKeep), Backlog: 1000},
		Routes: []*route.Route{{Name: "demo", Prefix: "demo", Target: to, Ladder: demoLadder,
			Timeout: 2 * time.Second, Ack: route.Ack{Kind: route.Ack2xx}, Concurrency: 16, HostConcurrency: 16, Secrets: []sign.Secret{secret}}}}
	return app.New(app.Options{Config: c, Version: version, Logger: zap.NewNop(), Listener: listen, Throwaway: true})
}

// demoTable prints the summary: notice, attempts, lateness of each, outcome.
func demoTable(ctx context.Context, out io.Writer, p *app.Process, list []demoOrder, rcv *demoReceiver) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	printTo(w, "\nNOTICE\tATTEMPTS\tLATENESS OF EACH\tOUTCOME\tRECEIVER\n")
	bad := 0
	var worst, sum time.Duration
	attempts := 0
	for _, x := range list {
		late := rcv.lateness(x.key)
		text := ""
		for i, d := range late {
			if i > 0 {
				text += " "
			}

			text += fmt.Sprintf("%.1f", float64(d.Microseconds())/1000)
			worst, sum, attempts = max(worst, d), sum+d, attempts+1
			if d < 0 {
				bad++ // early is wrong, however little
			}
		}

		outcome := demoOutcome(ctx, p, x.key)
		if outcome != string(x.outcome()) || len(late) != x.attempts() {
			bad++
		}

		printTo(w, "%s\t%d\t%s ms\t%s\t%s\n", x.key, len(late), text, outcome, x.says)
	}

	_ = w.Flush()
	if attempts > 0 {
		printTo(out, "\n%d attempts, mean %.1f ms late, worst %.1f ms, from the due instant to the arrival at the receiver; none may be early\n",
			attempts, float64(sum.Microseconds())/1000/float64(attempts), float64(worst.Microseconds())/1000)
	}

	if bad > 0 {
		return errDemo
	}

	return nil
}

// demoOutcome waits until a notice that its receiver has accepted is settled, and returns its state.
func demoOutcome(ctx context.Context, p *app.Process, key string) string {
	for {
		f, err := p.Find(ctx, key)
		switch {
		case err != nil:
			return err.Error()
		case f.State == notice.Delivered || f.State == notice.Dead || f.State == notice.Cancelled:
			return string(f.State)
		}

		select {
		case <-ctx.Done():
			return string(f.State)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
