package consume

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/client"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/retry"
)

// API is where results are reported; see client.Client.
type API interface {
	Ack(ctx context.Context, key string, r client.Report) (*client.Notice, error)
	Nack(ctx context.Context, key string, r client.Report) (*client.Notice, error)
	Defer(ctx context.Context, key string, r client.Report) (*client.Notice, error)
	Get(ctx context.Context, key string) (*client.Notice, error)
}

// Worker works on entries. *[Command] is one.
type Worker interface {
	// Run works on an entry. What it did is delivered, what failed is a retry, and what is
	// to come again without having used an attempt is deferred.
	Run(ctx context.Context, e *Entry) notice.Result
}

// Options of a Consumer.
type Options struct {
	Redis  redis.UniversalClient
	Stream bool
	Key    string // of the list or stream
	// Group and Consumer are of streams: the group's name, and this
	// consumer's within it.
	Group, Consumer string
	// Idle is how long nobody may have worked on an entry of a stream before
	// it is taken over; zero = 1 m.
	Idle time.Duration
	// Report: the service awaits a report within Timeout.
	Report  bool
	Timeout time.Duration
	// Concurrency is how many entries are worked on at a time; zero = 1.
	Concurrency int
	// Drain is how long a stop waits for running work.
	Drain time.Duration
	// After is how long what is put off stays away; 0 = as the service
	// likes.
	After  time.Duration
	Worker Worker
	API    API
	Logger *zap.Logger

	// Block is how long one call waits for entries; zero = 2 s.
	Block time.Duration
}

// Consumer works on entries. Use New.
type Consumer struct {
	o    Options
	work context.Context // the life of all work, which outlives Run's by the drain
	end  context.CancelFunc
	wg   sync.WaitGroup
}

// New makes a Consumer. Run starts it.
func New(o Options) *Consumer {
	if o.Concurrency == 0 {
		o.Concurrency = 1
	}
	if o.Idle == 0 {
		o.Idle = time.Minute
	}
	if o.Block == 0 {
		o.Block = 2 * time.Second
	}
	return &Consumer{o: o}
}

// Run works until ctx ends; then it takes nothing more, waits for running work
// for the drain, and returns nil.
func (c *Consumer) Run(ctx context.Context) error {
	c.work, c.end = context.WithCancel(context.WithoutCancel(ctx))
	defer c.end()
	if c.o.Stream {
		c.stream(ctx)
	} else {
		var wg sync.WaitGroup
		for range c.o.Concurrency {
			wg.Go(func() { c.list(ctx) })
		}
		context.AfterFunc(ctx, func() { c.endAfter(c.o.Drain) })
		wg.Wait()
		return nil
	}
	c.endAfter(c.o.Drain)
	c.wg.Wait()
	return nil
}

// endAfter ends running work when the drain is over.
func (c *Consumer) endAfter(d time.Duration) {
	t := time.AfterFunc(d, c.end)
	context.AfterFunc(c.work, func() { t.Stop() })
}

// list takes entries one by one.
func (c *Consumer) list(ctx context.Context) {
	again := c.again("take from the list")
	for ctx.Err() == nil {
		// The call is not ended by ctx: an entry that is on its way to a call
		// that was given up would be lost to this consumer.
		v, err := c.o.Redis.BLPop(context.WithoutCancel(ctx), c.o.Block, c.o.Key).Result()
		if errors.Is(err, redis.Nil) {
			again.Succeed()
			continue
		}
		if err != nil {
			again.Wait(ctx, err)
			continue
		}
		again.Succeed()
		e, err := queue.ParseEnvelope(v[1])
		if err != nil {
			c.o.Logger.Error("an entry cannot be read; it is dropped", zap.String("list", c.o.Key), zap.String("entry", short(v[1])), zap.Error(err))
			continue
		}
		c.one(&Entry{Entry: *e})
	}
}

// one works on an entry and reports; false means that no report arrived.
func (c *Consumer) one(e *Entry) bool {
	if (e.takenOver || c.o.Report) && !c.stands(e) {
		c.o.Logger.Info("passed over an entry: its attempt is over", zap.String("key", e.Key), zap.Int("attempt", e.Attempt))
		return true
	}
	began := time.Now()
	res := c.o.Worker.Run(c.work, e)
	c.o.Logger.Info("worked", zap.String("key", e.Key), zap.Int("attempt", e.Attempt), zap.String("outcome", string(res.Outcome)),
		zap.Duration("took", time.Since(began)), zap.String("detail", res.Response))
	if res.Outcome == notice.OutcomeDelivered && !c.o.Report {
		return true
	}
	return c.report(e, res)
}

// report tells the API, again and again while that makes sense.
func (c *Consumer) report(e *Entry, res notice.Result) bool {
	// A stop ends the work and not its report, which is the point of it.
	limit := max(c.o.Timeout, 10*time.Second)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.work), limit)
	defer cancel()
	r := client.Report{Attempt: e.Attempt, ID: e.ID, Response: res.Response}
	again := c.again("report")
	for {
		var err error
		switch res.Outcome {
		case notice.OutcomeDelivered:
			_, err = c.o.API.Ack(ctx, e.Key, r)
		case notice.OutcomeDeferred:
			r.After = c.o.After
			_, err = c.o.API.Defer(ctx, e.Key, r)
		default:
			_, err = c.o.API.Nack(ctx, e.Key, r)
		}
		if err == nil {
			again.Succeed()
			return true
		}
		var problem *client.Problem
		if errors.As(err, &problem) && problem.Status/100 == 4 && problem.Status != http.StatusTooManyRequests {
			c.o.Logger.Error("the service refuses a report", zap.String("key", e.Key), zap.Error(err))
			// Of a notice that is there no more nothing can be said.
			return problem.Status == http.StatusNotFound || problem.Status == http.StatusConflict
		}
		if ctx.Err() != nil {
			c.o.Logger.Error("a report did not arrive", zap.String("key", e.Key), zap.Bool("comes_again", c.o.Report || c.o.Stream), zap.Error(err))
			return false
		}
		again.Wait(ctx, err)
	}
}

// stands reports whether an entry's attempt is still to be made: a dead consumer
// may have left it, or it may have waited for longer than the timeout. When in
// doubt it is.
func (c *Consumer) stands(e *Entry) bool {
	ctx, cancel := context.WithTimeout(c.work, 10*time.Second)
	defer cancel()
	n, err := c.o.API.Get(ctx, e.Key)
	if err != nil {
		return !client.IsStatus(err, http.StatusNotFound)
	}
	waits := "delivered"
	if c.o.Report {
		waits = "claimed"
	}
	// In a cluster the entry comes first and the notice says so a moment later.
	return n.ID == e.ID && (n.State == waits && n.AttemptsMade == e.Attempt || n.State == "claimed" && n.AttemptsMade == e.Attempt-1)
}

// again paces the repetition of an operation, which the log calls what.
func (c *Consumer) again(what string) *retry.Loop {
	return &retry.Loop{Min: 50 * time.Millisecond, Max: 2 * time.Second,
		Logger: c.o.Logger, Failure: "cannot " + what + ", retrying", Recovered: "can " + what + " again"}
}

func short(s string) string {
	if len(s) > 200 {
		s = s[:200]
	}
	return fmt.Sprintf("%q", s)
}
