package adapter

import (
	"context"
	"fmt"
	"io"
	stdlog "log"

	"github.com/RichardKnop/machinery/v2"
	"github.com/RichardKnop/machinery/v2/backends/null"
	redisbroker "github.com/RichardKnop/machinery/v2/brokers/redis"
	"github.com/RichardKnop/machinery/v2/config"
	"github.com/RichardKnop/machinery/v2/locks/eager"
	"github.com/RichardKnop/machinery/v2/log"
	"github.com/RichardKnop/machinery/v2/tasks"

	"notifier/bench/peer"
)

// machine is RichardKnop/machinery.
type machine struct {
	onRedis
	srv    *machinery.Server
	worker *machinery.Worker
	ended  chan error
}

const machineryTask = "notice"

func machineryEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "machinery", Title: "machinery, 1 ms", Version: moduleVersion("github.com/RichardKnop/machinery/v2"), Kind: peer.System,
		Needs: redisNeeds,
		Settings: "DelayedTasksPollPeriod 1 ms (its best); one job a poll, newest due first, so above about 800/s the old ones " +
			"starve",
		Traits:  peer.Traits{Crash: "what was popped", Race: "safe", Ladder: "a delay a task", Cancel: "no"},
		BytesOf: bytesRedis, CommandsOf: commandsRedis,
	}, New: func() peer.Peer { return &machine{} }}
}

func (m *machine) Start(ctx context.Context, env peer.Env) error {
	if err := m.start(ctx, env); err != nil {
		return err
	}
	silent := stdlog.New(io.Discard, "", 0)
	log.Set(silent)
	conf := &config.Config{DefaultQueue: "notices", NoUnixSignals: true, Redis: &config.RedisConfig{
		MaxIdle: callers, IdleTimeout: 240, ReadTimeout: 15, WriteTimeout: 15, ConnectTimeout: 15, NormalTasksPollPeriod: 1000,
		DelayedTasksPollPeriod: 1,
	}}
	m.srv = machinery.NewServer(conf, redisbroker.NewGR(conf, []string{m.addr}, 0), null.New(), eager.New())
	return nil
}

func (m *machine) Schedule(ctx context.Context, j peer.Job) error {
	_, err := m.srv.SendTaskWithContext(ctx, &tasks.Signature{
		Name: machineryTask, UUID: j.ID, ETA: &j.Due,
		Args: []tasks.Arg{{Type: "string", Value: j.ID}, {Type: "string", Value: string(j.Body)}},
	})
	return err
}

func (*machine) ScheduleBatch(context.Context, []peer.Job) error { return peer.ErrNoBatch }

func (m *machine) Work(_ context.Context, handlers int, handle peer.Handle) error {
	err := m.srv.RegisterTask(machineryTask, func(id, _ string) error {
		handle(id)
		return nil
	})
	if err != nil {
		return fmt.Errorf("register the task: %w", err)
	}
	m.ended = make(chan error, 1)
	m.worker = m.srv.NewWorker("bench", handlers)
	m.worker.LaunchAsync(m.ended)
	return nil
}

func (m *machine) Stop() error {
	if m.worker != nil {
		m.worker.Quit()
		<-m.ended
	}
	return m.onRedis.Stop()
}
