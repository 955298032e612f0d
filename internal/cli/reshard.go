package cli

import (
	"errors"
	"fmt"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"notifier/internal/config"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// mostShards is the maximum of NOTIFIER_SHARDS.
const mostShards = 1024

func (a *command) reshard() *cobra.Command {
	o := move.Options{}
	c := &cobra.Command{
		Use:   "reshard --to N",
		Short: "Change the number of shards during operation",
		Long: `Changes the number of shards to N and moves all notices to the new shards. Delivery
continues: instances read the new number from Redis and deliver from the old shards until
these are empty. Notices in flight, or awaiting a report, are moved by the instances when
their attempt has ended. The command connects to Redis and reads the environment of serve.

The command may be killed at any time; run it again. Only one may run at a time. It is
refused while an instance's version does not support reshards. In a cluster the shards are
spread over the slots as at a first start. N may be the present number, to spread the shards
again after nodes were added or removed.

Afterwards remove NOTIFIER_SHARDS, or set it to N; until then each start warns. Cursors of
older listings are refused, running replays end, and deploy/schedule.lua names the tag that
has its keys now (docs/plain-redis.md).`,
		Example: `  notifier reshard --to 6`,
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.To < 1 || o.To > mostShards {
				return usage("--to %d; want 1 to %d", o.To, mostShards)
			}

			cfg, err := a.configWithoutRoutes()
			if err != nil {
				return err
			}

			o.Namespace, o.Confirm = cfg.Namespace, wire.Confirm{Durability: cfg.Durability, Timeout: cfg.DurabilityTimeout}
			if o.Conn, err = open(cfg.Redis); err != nil {
				return fmt.Errorf("NOTIFIER_REDIS_URL: %w", err)
			}

			defer func() { _ = o.Conn.Close() }() // nothing is pending
			progress := &moving{command: a, name: "reshard"}
			o.Progress = progress
			tracer, export := a.tracer(cfg)
			defer export()
			o.Tracer = tracer
			done, err := move.Reshard(cmd.Context(), o)
			progress.finish()
			if err != nil {
				if !errors.Is(err, move.ErrRefused) && done.Shards > 0 { // the move has started
					a.complain("reshard: unfinished; run the same command to continue; delivery continues")
				}
				return err
			}

			return a.sayResharded(done)
		},
	}
	f := c.Flags()
	f.IntVar(&o.To, "to", 0, "new number of shards")
	f.BoolVar(&o.Force, "force", false, "continue although an instance's version does not support reshards, or the instances cannot be read")
	return a.withJSON(c)
}

// open connects to Redis.
func open(r config.Redis) (*wire.Conn, error) {
	return wire.Open(wire.Address{Mode: r.Mode, URL: r.URL, TLS: r.TLS, SentinelUsername: r.SentinelUsername,
		SentinelPassword: string(r.SentinelPassword)})
}

// moving shows the steps of a command and the number of moved notices.
type moving struct {
	*command
	name string
	bar  *progressbar.ProgressBar
}

// Say implements move.Progress.
func (m *moving) Say(text string) { m.complain("%s: %s", m.name, clean(text)) }

// Moved implements move.Progress.
func (m *moving) Moved(n int, of int64) {
	if m.bar == nil {
		m.bar = m.command.bar(of, "moving", "notices")
	}
	_ = m.bar.Add(n) // only drawing can fail
}

func (m *moving) finish() {
	if m.bar != nil {
		_ = m.bar.Finish()
	}
}

// sayResharded prints the result of a reshard.
func (a *command) sayResharded(done move.Done) error {
	if a.json {
		return a.sayValue(done)
	}

	if done.Changed || done.Moved > 0 {
		a.say("%s; %s moved\n", notice.Count(done.Shards, "shard"), notice.Count(done.Moved, "notice"))
	} else {
		a.say("%s, unchanged; nothing to move\n", notice.Count(done.Shards, "shard"))
	}

	if done.Held > 0 {
		a.say("%d stay in their old shard until their attempt ends or their report comes; then the instances move them\n", done.Held)
	}

	return nil
}
