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

// mostShards is what NOTIFIER_SHARDS may be.
const mostShards = 1024

func (a *command) reshard() *cobra.Command {
	o := move.Options{}
	c := &cobra.Command{
		Use:   "reshard --to N",
		Short: "Change the number of shards while instances deliver",
		Long: `Puts N shards in the place of those there are, and moves to them what is pending,
dead and settled. Instances go on delivering from where a notice lies; they learn the
new count from Redis. What is being delivered, or awaits a report, is moved by them when
that has ended. It talks to Redis and reads the environment of serve.

It may be killed at any time: run it again. A second one beside it is refused, and so is
it while an instance of a version lives that knows nothing of reshards. In a cluster the
shards are spread over the slots as at a first start; N may be as before, if nodes came
or went and the shards lie unevenly.

Afterwards NOTIFIER_SHARDS may be removed, or set to N; until then each start warns of it.
Cursors of listings from before are refused, replays that are under way end, and
deploy/schedule.lua names the tag that holds its keys now (docs/plain-redis.md).`,
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
			o.Say = func(text string) { a.complain("reshard: %s", clean(text)) }
			onMoved, finish := a.moving()
			o.OnMoved = onMoved
			tracer, export := a.tracer(cfg)
			defer export()
			o.Tracer = tracer
			done, err := move.Reshard(cmd.Context(), o)
			finish()
			if err != nil {
				if !errors.Is(err, move.ErrRefused) && done.Shards > 0 { // it has begun
					a.complain("reshard: it is not done; the same command goes on from there, and instances deliver meanwhile")
				}
				return err
			}
			if a.json {
				return a.sayValue(done)
			}
			switch {
			case done.Changed || done.Moved > 0:
				a.say("%s; %s moved\n", notice.Count(done.Shards, "shard"), notice.Count(done.Moved, "notice"))
			default:
				a.say("%s, as before; there was nothing to move\n", notice.Count(done.Shards, "shard"))
			}
			if done.Held > 0 {
				a.say("%d stay where they are until their attempt ends or their report comes; the instances move them then\n", done.Held)
			}
			return nil
		},
	}
	f := c.Flags()
	f.IntVar(&o.To, "to", 0, "how many shards there shall be")
	f.BoolVar(&o.Force, "force", false, "go on although instances live that know nothing of reshards, or it cannot be seen who lives")
	return a.withJSON(c)
}

// open makes a connection to Redis.
func open(r config.Redis) (*wire.Conn, error) {
	return wire.Open(wire.Address{Mode: r.Mode, URL: r.URL, TLS: r.TLS, SentinelUsername: r.SentinelUsername,
		SentinelPassword: string(r.SentinelPassword)})
}

// moving shows how many notices have gone, from the first on, until finish is called.
func (a *command) moving() (onMoved func(n int, of int64), finish func()) {
	var bar *progressbar.ProgressBar
	return func(n int, of int64) {
			if bar == nil {
				bar = a.bar(of, "moving", "notices")
			}
			_ = bar.Add(n) // only drawing can fail
		}, func() {
			if bar != nil {
				_ = bar.Finish()
			}
		}
}
