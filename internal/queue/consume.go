package queue

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
	"notifier/internal/pace"
)

// API reports results to the service; see client.Client.
type API interface {
	Ack(ctx context.Context, key string, r client.Report) (*client.Notice, error)
	Nack(ctx context.Context, key string, r client.Report) (*client.Notice, error)
	Defer(ctx context.Context, key string, r client.Report) (*client.Notice, error)
	Get(ctx context.Context, key string) (*client.Notice, error)
	Open(ctx context.Context, key, sealed string) (*client.Opened, error)
}

// Worker processes entries, as [Command] does.
type Worker interface {
	// Run processes an entry. Its outcome is delivered, retry after a failure, or deferred: the entry comes again
	// without using an attempt.
	Run(ctx context.Context, e *Received) notice.Result
}

// ConsumerOptions configure a [Consumer].
type ConsumerOptions struct {
	Redis  redis.Cmdable
	Stream bool
	Key    string // of the list or stream
	// Group and Consumer are the names of the stream's group and of this consumer in it.
	Group, Consumer string
	// Idle is the time without activity after which an entry of a stream is claimed from another consumer; zero = 1 m.
	Idle time.Duration
	// Report is set if the service awaits a report within Timeout.
	Report  bool
	Timeout time.Duration
	// Concurrency is the number of entries processed at the same time; zero = 1.
	Concurrency int
	// Drain is the time that running work has after a stop.
	Drain time.Duration
	// After is the delay of deferred entries; 0 = the service decides.
	After  time.Duration
	Worker Worker
	API    API
	Logger *zap.Logger

	// Block bounds one call that waits for entries; zero = 2 s.
	Block time.Duration
}

// Consumer processes the entries of a list or stream. Use [NewConsumer].
type Consumer struct {
	o    ConsumerOptions
	work context.Context // context of the work; ends after the drain
	end  context.CancelFunc
	wg   sync.WaitGroup
}

// NewConsumer returns a Consumer. Run starts it.
func NewConsumer(o ConsumerOptions) *Consumer {
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

// Run processes entries until ctx ends. Then it takes no more entries, waits up to the drain for running work, and
// returns nil.
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

// endAfter cancels running work after d.
func (c *Consumer) endAfter(d time.Duration) {
	t := time.AfterFunc(d, c.end)
	context.AfterFunc(c.work, func() { t.Stop() })
}

// list takes entries of a list one by one.
func (c *Consumer) list(ctx context.Context) {
	again := c.again(&pace.Loop{Failure: "cannot take from the list, retrying", Recovered: "taking from the list again"})
	for ctx.Err() == nil {
		// Cancelling the call could lose an entry that Redis has popped for it.
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
		e, err := ParseEnvelope(v[1])
		if err != nil {
			c.o.Logger.Error("cannot read an entry of the list, dropping it", zap.String("list", c.o.Key),
				zap.String("entry", short(v[1])), zap.Error(err))
			continue
		}

		c.one(&Received{Entry: *e})
	}
}

// one processes an entry and reports the result; false means that no report was accepted.
func (c *Consumer) one(e *Received) bool {
	if (e.takenOver || c.o.Report) && !c.pending(e) {
		c.o.Logger.Info("skipped an entry: its attempt is over", zap.String("key", e.Key), zap.Int("attempt", e.Attempt))
		return true
	}

	began := time.Now()
	res, ok := c.opened(e)
	if ok {
		res = c.o.Worker.Run(c.work, e)
	}

	fields := []zap.Field{zap.String("key", e.Key), zap.Int("attempt", e.Attempt), zap.String("outcome", string(res.Outcome)),
		zap.Duration("took", time.Since(began))}
	if e.Sealed == "" || !ok { // the output of the worker may have content
		fields = append(fields, zap.String("detail", res.Response))
	}

	c.o.Logger.Info("worked", fields...)
	if res.Outcome == notice.OutcomeDelivered && !c.o.Report {
		return true
	}

	return c.report(e, res)
}

// report reports the result to the API and retries while that can succeed.
func (c *Consumer) report(e *Received, res notice.Result) bool {
	// A stop cancels the work but not its report.
	limit := max(c.o.Timeout, 10*time.Second)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.work), limit)
	defer cancel()
	r := client.Report{Attempt: e.Attempt, ID: e.ID, Response: res.Response}
	again := c.again(&pace.Loop{Failure: "cannot report a result, retrying", Recovered: "reporting again"})
	for {
		err := c.send(ctx, e.Key, r, res.Outcome)
		if err == nil {
			again.Succeed()
			return true
		}

		var problem *client.Problem
		if errors.As(err, &problem) && problem.Status/100 == 4 && problem.Status != http.StatusTooManyRequests {
			c.o.Logger.Error("the service refused a report", zap.String("key", e.Key), zap.Error(err))
			// The notice no longer exists or no longer awaits the report, so retrying is useless.
			return problem.Status == http.StatusNotFound || problem.Status == http.StatusConflict
		}

		if ctx.Err() != nil {
			c.o.Logger.Error("could not report a result", zap.String("key", e.Key),
				zap.Bool("comes_again", c.o.Report || c.o.Stream), zap.Error(err))
			return false
		}

		again.Wait(ctx, err)
	}
}

// pending reports whether the attempt of an entry is still to be made. A dead consumer may have left the entry, or it
// may have waited longer than the timeout. If the API cannot be reached, pending returns true.
func (c *Consumer) pending(e *Received) bool {
	ctx, cancel := context.WithTimeout(c.work, 10*time.Second)
	defer cancel()
	n, err := c.o.API.Get(ctx, e.Key)
	if err != nil {
		return !client.IsStatus(err, http.StatusNotFound)
	}

	waits := client.Delivered
	if c.o.Report {
		waits = client.Claimed
	}

	// In a cluster the entry can arrive a moment before the notice's state changes.
	return n.ID == e.ID && (n.State == waits && n.AttemptsMade == e.Attempt || n.State == client.Claimed && n.AttemptsMade == e.Attempt-1)
}

// send makes the call that reports an outcome.
func (c *Consumer) send(ctx context.Context, key string, r client.Report, outcome notice.Outcome) (err error) {
	switch outcome {
	case notice.OutcomeDelivered:
		_, err = c.o.API.Ack(ctx, key, r)
	case notice.OutcomeDeferred:
		r.After = c.o.After
		_, err = c.o.API.Defer(ctx, key, r)
	default:
		r.Permanent = outcome == notice.OutcomeDead
		_, err = c.o.API.Nack(ctx, key, r)
	}
	return err
}

// again sets the delays and the logger of a loop that has only messages.
func (c *Consumer) again(loop *pace.Loop) *pace.Loop {
	loop.Min, loop.Max, loop.Logger = 50*time.Millisecond, 2*time.Second, c.o.Logger
	return loop
}

func short(s string) string {
	if len(s) > 200 {
		s = s[:200]
	}
	return fmt.Sprintf("%q", s)
}
