package adapter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// natsPeer is a NATS stream with scheduled messages.
type natsPeer struct {
	served
	nc     *nats.Conn
	js     jetstream.JetStream
	worker jetstream.ConsumeContext
}

const (
	natsStream = "NOTICES"
	natsWork   = "work"
	natsModule = "github.com/nats-io/nats-server/v2"
)

func natsEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "nats", Title: "NATS scheduled messages", Version: moduleVersion("github.com/nats-io/nats.go") + ", server v2 as " +
			"go.mod pins it", Kind: peer.System,
		Settings: "one stream in memory, Nats-Schedule @at, one subject a job, explicit acknowledgement; its timer has a floor of " +
			"250 ms",
		Traits: peer.Traits{Crash: "nothing (acknowledgement wait 30 s)", Race: "safe", Ladder: "delayed nak by the caller",
			Cancel: "purge of the subject"},
		Refused: "the handler answers with a negative acknowledgement and a delay of 15 s, without end (no MaxDeliver)",
		Batch:   128, BytesOf: bytesRSS, CommandsOf: "it does not say",
		Needs: []peer.Need{{Program: "go", Package: "golang"}},
	}, New: func() peer.Peer { return &natsPeer{} }}
}

func (n *natsPeer) Start(ctx context.Context, env peer.Env) error {
	err := n.open(env, func() (*server.Process, error) {
		path, err := server.Build(ctx, env.Bin, "nats-server", server.ModuleDir(), natsModule)
		if err != nil {
			return nil, err
		}

		return server.NATS(ctx, path, env.Dir)
	})
	if err != nil {
		return err
	}

	if n.nc, err = nats.Connect("nats://"+n.addr, nats.Timeout(10*time.Second)); err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	if n.js, err = jetstream.New(n.nc, jetstream.WithPublishAsyncMaxPending(4096)); err != nil {
		return fmt.Errorf("make the JetStream context: %w", err)
	}

	_, err = n.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: natsStream, Subjects: []string{"later.>", natsWork}, Storage: jetstream.MemoryStorage, AllowMsgSchedules: true,
		AllowMsgTTL: true, NoAck: false,
	})
	if err != nil {
		return fmt.Errorf("make the stream: %w", err)
	}

	return nil
}

func natsMsg(j peer.Job) *nats.Msg {
	return &nats.Msg{Subject: "later." + strings.TrimPrefix(j.ID, "app1:trans:notice:"), Data: pack(j), Header: nats.Header{
		"Nats-Schedule": {"@at " + j.Due.UTC().Format(time.RFC3339Nano)}, "Nats-Schedule-Target": {natsWork},
	}}
}

func (n *natsPeer) Schedule(ctx context.Context, jobs ...peer.Job) error {
	if len(jobs) == 1 {
		_, err := n.js.PublishMsg(ctx, natsMsg(jobs[0]))
		return err
	}

	acks := make([]jetstream.PubAckFuture, 0, len(jobs))
	for _, j := range jobs {
		ack, err := n.js.PublishMsgAsync(natsMsg(j))
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}

		acks = append(acks, ack)
	}

	for _, a := range acks {
		select {
		case <-a.Ok():
		case err := <-a.Err():
			return fmt.Errorf("publish: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	return nil
}

func (n *natsPeer) Work(ctx context.Context, handlers int, call peer.Call) error {
	cons, err := n.js.CreateOrUpdateConsumer(ctx, natsStream, jetstream.ConsumerConfig{
		Durable: "bench", FilterSubject: natsWork, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 100_000,
	})
	if err != nil {
		return fmt.Errorf("make the consumer: %w", err)
	}

	msgs := make(chan jetstream.Msg, 1)
	receive(n.workers, handlers, msgs, func(ctx context.Context, m jetstream.Msg) error { return callOne(ctx, m, call) })
	n.worker, err = cons.Consume(func(m jetstream.Msg) {
		select {
		case msgs <- m:
		case <-n.workers.ctx.Done():
		}
	}, jetstream.PullMaxMessages(4096))
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}

	return nil
}

// callOne delivers one job and acknowledges it, or has it delivered again after a refusal.
func callOne(ctx context.Context, m jetstream.Msg, call peer.Call) error {
	j, err := unpackJob(m.Data())
	if err != nil {
		return err
	}

	end := m.Ack
	if call(ctx, j) != nil {
		end = func() error { return m.NakWithDelay(retryAfter) }
	}

	if err := end(); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}

	return nil
}

func (n *natsPeer) Stop() error {
	if n.worker != nil {
		n.worker.Stop()
	}

	n.workers.stop()
	if n.nc != nil {
		n.nc.Close()
	}

	return n.srv.Stop()
}
