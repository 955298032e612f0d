package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/cobra"

	"notifier/internal/config"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

func (a *command) migrate() *cobra.Command {
	o := move.MigrateOptions{}
	var address, mode string
	c := &cobra.Command{
		Use:   "migrate --to URL",
		Short: "Move all notices to another Redis during operation",
		Long: `Moves pending, dead and settled notices from the Redis of the environment of serve to
another one, of the same mode or another, while the instances of both deliver. Attempts, ids,
due times and adopted timers are kept. Pauses, the service's own key, links to the pages and
the audit move too. Your own lists and streams, the charts, and sessions of the pages do not:
people sign in again.

  1. Start instances on the new Redis with the same routes. They answer calls that schedule
     or change notices with 503 and the type moved until the new side is open.
  2. Run this command. The old side answers calls for moved notices with 503 moved, and all
     others as before. At the end the old side refuses all such calls, the notices scheduled
     since are moved, and the new side opens. That takes seconds at most. Deliveries never
     stop.
  3. Point producers at the new side. To move timers that plain Redis producers still wrote
     to the old side, run the command again.
  4. Notices that await a consumer's report stay on the old side until it comes. Report
     there, and run the command again. Then stop the old side's instances.

The command may be killed at any time. Run it again at once: up to 64 notices of each shard
of the old side may be in transfer, and neither side delivers them until then. With the two
sides exchanged it moves everything back, at any step. Both clocks must agree.

The new side's TLS certificates and log-in at sentinels are those of the environment. If they
differ, set NOTIFIER_TO_REDIS_CA_FILE, NOTIFIER_TO_REDIS_CERT_FILE and
NOTIFIER_TO_REDIS_KEY_FILE, and NOTIFIER_TO_SENTINEL_USERNAME and
NOTIFIER_TO_SENTINEL_PASSWORD (or _FILE).`,
		Example: `  notifier migrate --to redis://10.0.0.9:6379/0 --dry-run
  notifier migrate --to @/run/secrets/new-redis-url
  notifier migrate --to 'redis://10.0.0.1:6379?addr=10.0.0.2:6379' --to-mode cluster --to-shards 6
  notifier migrate --to 'redis://10.0.0.5:26379?master_name=pay' --to-mode sentinel`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := fromFile(address)
			if err != nil {
				return usage("--to: %w", err)
			}
			if o.Shards < 0 || o.Shards > mostShards {
				return usage("--to-shards %d; want 1 to %d", o.Shards, mostShards)
			}

			cfg, err := a.configWithoutRoutes()
			if err != nil {
				return err
			}

			o.Namespace, o.Confirm = cfg.Namespace, wire.Confirm{Durability: cfg.Durability, Timeout: cfg.DurabilityTimeout}
			to, err := config.LoadTo(url, cmp.Or(mode, config.Standalone), cfg.Redis, envconfig.MapLookuper(a.env), os.ReadFile)
			if err != nil {
				return usage("%w", err)
			}
			if o.From, err = open(cfg.Redis); err != nil {
				return fmt.Errorf("NOTIFIER_REDIS_URL: %w", err)
			}

			defer func() { _ = o.From.Close() }() // nothing is pending
			if o.To, err = open(to); err != nil {
				return usage("--to: %w", err)
			}

			defer func() { _ = o.To.Close() }() // nothing is pending
			o.Names = [2]string{cfg.Redis.Where(), to.Where()}
			return a.runMigrate(cmd, o)
		},
	}
	f := c.Flags()
	f.StringVar(&address, "to", "", "address of the new Redis in the form of NOTIFIER_REDIS_URL, or @FILE that contains it")
	f.StringVar(&mode, "to-mode", config.Standalone, "its mode: standalone, sentinel or cluster")
	f.IntVar(&o.Shards, "to-shards", 0,
		"number of shards of an empty new Redis (default that of the old one, at least one for each master of a cluster)")
	delayVar(f, &o.MaxSkew, "max-skew", "maximum difference of the two clocks (default 50ms)")
	delayVar(f, &o.Wait, "wait", "how long to wait at the end for attempts in flight (default 30s)")
	f.BoolVar(&o.DryRun, "dry-run", false, "only count, and compare the clocks")
	f.BoolVar(&o.Force, "force", false,
		"continue although an instance's version does not support migrations, no instance is alive on the new side, or the instances cannot be "+
			"read")
	o.MaxSkew, o.Wait = 50*time.Millisecond, 30*time.Second
	return a.withJSON(c)
}

// fromFile returns an address, or the content of the file that it names.
func fromFile(address string) (string, error) {
	file, ok := strings.CutPrefix(address, "@")
	if !ok {
		if address == "" {
			return "", errors.New("want the address of the new Redis, or @FILE that contains it")
		}
		return address, nil
	}

	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}

	return strings.TrimSpace(string(raw)), nil
}

func (a *command) runMigrate(cmd *cobra.Command, o move.MigrateOptions) error {
	progress := &moving{command: a, name: "migrate"}
	o.Progress = progress
	done, err := move.Migrate(cmd.Context(), o)
	progress.finish()

	switch {
	case err != nil && !done.Begun:
		return err
	case err != nil:
		a.complain("migrate: unfinished; run the same command again at once: neither side delivers the notices in transfer until then")
		return err
	}

	if a.json {
		err = a.sayValue(done)
	} else {
		a.sayMigrated(done, o.DryRun)
	}

	if err == nil && done.MissingN > 0 {
		return fmt.Errorf("%d of the moved notices are missing on the new side: %s", done.MissingN, strings.Join(done.Missing, ", "))
	}

	return err
}

func (a *command) sayMigrated(done move.Migrated, dry bool) {
	counts := func(side string, list []move.Count) {
		for _, c := range list {
			paused := ""
			if c.Paused {
				paused = ", paused"
			}

			a.say("%s  %-30s %d pending, %d dead, %d settled%s\n", side, clean(c.Prefix), c.Pending, c.Dead, c.Settled, paused)
		}
	}
	if dry {
		counts("old", done.Old)
		counts("new", done.New)
		a.say("the clocks are %d ms apart; nothing was moved\n", done.SkewMS)
		return
	}

	a.say("%s moved; the new side is open\n", notice.Count(done.Moved, "notice"))
	counts("old", done.Old)
	counts("new", done.New)
	a.say("%d moved notices checked on the new side, %d missing\n", done.Checked, done.MissingN)
	if done.Reported > 0 {
		a.say("%d await a report on the old side; report them there, and run this again\n", done.Reported)
	}

	if n := done.Claimed + done.Soon; n > 0 {
		a.say("%d are in flight on the old side; run this again\n", n)
	}

	if done.Both > 0 {
		a.say("%d stay on the old side, because a later notice of the same key is on the new side; both are delivered\n", done.Both)
	}

	if done.Outbox > 0 {
		a.say("%d finalized notices on the old side wait for the history; keep its instances until they are written\n", done.Outbox)
	}
}
