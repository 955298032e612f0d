package adapter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// rabbit measures RabbitMQ as a delay queue, with message TTLs and a dead-letter exchange. RabbitMQ expires a message
// only when it is at the head of its queue. So a message waits for those ahead of it that expire later. To limit this
// delay, the messages of each due second have a separate queue. Messages due in more than a minute share a queue per
// minute, and those due in more than an hour one per hour.
type rabbit struct {
	served
	conn *amqp.Connection
	put  *held[*amqp.Channel]

	mu    sync.Mutex
	known map[string]bool // delay queues that exist
}

const rabbitWork = "work"

func rabbitmqEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "rabbitmq", Title: "RabbitMQ, TTL + dead-letter exchange",
		Version: "RabbitMQ of Debian, amqp091-go " + moduleVersion("github.com/rabbitmq/amqp091-go"),
		Settings: "transient messages, publisher confirms; a delay queue a due second (minute, hour, if due later than a minute, " +
			"an hour): within it a message waits for those before it",
		Kind: peer.System, Batch: 128, BytesOf: bytesRSS, CommandsOf: "it does not say",
		Needs: []peer.Need{{Program: "rabbitmq-server", Paths: server.RabbitPaths, Package: "rabbitmq-server"},
			{Program: "epmd", Paths: []string{"/usr/lib/erlang/erts-*/bin/epmd"}, Package: "rabbitmq-server"}},
		Traits: peer.Traits{Crash: "nothing (unacknowledged returns)", Race: "safe", Ladder: "a queue a step", Cancel: "no"},
	}, New: func() peer.Peer { return &rabbit{known: map[string]bool{}} }}
}

func (r *rabbit) Start(ctx context.Context, env peer.Env) error {
	if err := r.open(env, func() (*server.Process, error) { return server.RabbitMQ(ctx, env.Dir) }); err != nil {
		return err
	}
	if err := r.dial(ctx); err != nil {
		return fmt.Errorf("connect to RabbitMQ: %w", err)
	}

	ch, err := r.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}

	defer ch.Close()
	if _, err := ch.QueueDeclare(rabbitWork, false, false, false, false, nil); err != nil {
		return fmt.Errorf("declare the work queue: %w", err)
	}

	r.put, err = hold(callers, func() (*amqp.Channel, error) {
		ch, err := r.conn.Channel()
		if err != nil {
			return nil, err
		}

		return ch, ch.Confirm(false)
	})
	return err
}

// dial tries again for a while: the port answers before the node is ready.
func (r *rabbit) dial(ctx context.Context) error {
	for end := time.Now().Add(30 * time.Second); ; {
		conn, err := amqp.Dial("amqp://guest:guest@" + r.addr + "/")
		if err == nil {
			r.conn = conn
			return nil
		}

		if time.Now().After(end) {
			return err
		}
		if err := peer.Pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// delayQueue names the queue of a due time and says when it may go.
func delayQueue(due time.Time) (name string, expires time.Duration) {
	left := time.Until(due)
	grain := time.Second
	switch {
	case left > time.Hour:
		grain = time.Hour
	case left > time.Minute:
		grain = time.Minute
	}

	return "delay." + grain.String() + "." + strconv.FormatInt(due.Truncate(grain).Unix(), 10), left + grain + time.Minute
}

func (r *rabbit) declare(ch *amqp.Channel, due time.Time) (string, error) {
	name, expires := delayQueue(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[name] {
		return name, nil
	}

	_, err := ch.QueueDeclare(name, false, false, false, false, amqp.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": rabbitWork, "x-expires": max(expires, time.Minute).Milliseconds(),
	})
	if err != nil {
		return "", fmt.Errorf("declare a delay queue: %w", err)
	}

	r.known[name] = true
	return name, nil
}

func (r *rabbit) publish(ctx context.Context, ch *amqp.Channel, j peer.Job) (*amqp.DeferredConfirmation, error) {
	name, err := r.declare(ch, j.Due)
	if err != nil {
		return nil, err
	}

	// Rounded up: a millisecond late at worst, never early.
	ttl := max(0, (time.Until(j.Due) + time.Millisecond - 1).Milliseconds())
	return ch.PublishWithDeferredConfirmWithContext(ctx, "", name, false, false,
		amqp.Publishing{DeliveryMode: amqp.Transient, Expiration: strconv.FormatInt(ttl, 10), MessageId: j.ID, Body: j.Body})
}

func (r *rabbit) Schedule(ctx context.Context, jobs ...peer.Job) error {
	return r.put.with(ctx, func(ch *amqp.Channel) error {
		confirms := make([]*amqp.DeferredConfirmation, 0, len(jobs))
		for _, j := range jobs {
			c, err := r.publish(ctx, ch, j)
			if err != nil {
				return fmt.Errorf("publish: %w", err)
			}

			confirms = append(confirms, c)
		}

		for _, c := range confirms {
			ok, err := c.WaitContext(ctx)
			if err != nil {
				return fmt.Errorf("wait for the confirmation: %w", err)
			}
			if !ok {
				return errors.New("RabbitMQ refused a message")
			}
		}

		return nil
	})
}

func (r *rabbit) Work(_ context.Context, handlers int, call peer.Call) error {
	ch, err := r.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err := ch.Qos(4*handlers, 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}

	msgs, err := ch.Consume(rabbitWork, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}

	receive(r.workers, handlers, msgs, func(ctx context.Context, m amqp.Delivery) error {
		if err := call(ctx, peer.Job{ID: m.MessageId}); err != nil {
			return err
		}
		if err := m.Ack(false); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}

		return nil
	})
	return nil
}

func (r *rabbit) Stop() error {
	r.workers.stop()
	if r.conn != nil && !r.conn.IsClosed() {
		_ = r.conn.Close() // the node is stopped next
	}

	return r.srv.Stop()
}
