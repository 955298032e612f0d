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
		Short: "Move to another Redis while instances deliver",
		Long: `Moves what is pending, dead and settled from the Redis of the environment of serve to
another one, of the same mode or another, while instances of both deliver. Attempts, ids,
due times and adopted timers stay as they are; pauses, the service's own key, links to the
pages and the audit go along. Your own lists and streams, the charts, and sessions of the
pages do not: people sign in again.

  1. Start instances on the new Redis, with the same routes. They answer calls that
     schedule or change notices with 503 of the type moved until the new side is open.
  2. Run this. What has moved is answered with 503 moved on the old side, all else as
     before. At last the old side takes no such calls any more, what has come meanwhile is
     moved, and the new side opens: seconds at most. Deliveries never stop.
  3. Point producers at the new side. What plain Redis producers still wrote to the old
     one is fetched by running this again.
  4. What awaits a consumer's report stays on the old side until it comes: report there,
     and run this again. Then stop the old side's instances.

It may be killed at any time: run it again at once, since up to 64 notices for each
shard of the old side may be on their way and are delivered by neither side until then.
With the two sides exchanged it moves everything back, at any point of the way. Both
clocks must agree.

The new side's TLS certificates and log-in at sentinels are those of the environment, or,
where they differ, those in NOTIFIER_TO_REDIS_CA_FILE, NOTIFIER_TO_REDIS_CERT_FILE and
NOTIFIER_TO_REDIS_KEY_FILE, and in NOTIFIER_TO_SENTINEL_USERNAME and
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
			defer func() { _ = o.To.Close() }() // as above
			o.Names = [2]string{cfg.Redis.Where(), to.Where()}
			return a.runMigrate(cmd, o)
		},
	}
	f := c.Flags()
	f.StringVar(&address, "to", "", "address of the new Redis, as NOTIFIER_REDIS_URL has it, or @FILE that holds it")
	f.StringVar(&mode, "to-mode", config.Standalone, "its mode: standalone, sentinel or cluster")
	f.IntVar(&o.Shards, "to-shards", 0,
		"how many shards it gets if it is new (default as many as the old one, and one for each master of a cluster at least)")
	delayVar(f, &o.MaxSkew, "max-skew", "how far apart the clocks of both may be (default 50ms)")
	delayVar(f, &o.Wait, "wait", "how long to wait at the end for attempts that are under way (default 30s)")
	f.BoolVar(&o.DryRun, "dry-run", false, "only count, and compare the clocks")
	f.BoolVar(&o.Force, "force", false,
		"go on although instances live that know nothing of migrations, none lives on the new side, or it cannot be seen who lives")
	o.MaxSkew, o.Wait = 50*time.Millisecond, 30*time.Second
	return a.withJSON(c)
}

// fromFile is an address, or what stands in the file that it names.
func fromFile(address string) (string, error) {
	file, ok := strings.CutPrefix(address, "@")
	if !ok {
		if address == "" {
			return "", errors.New("want the address of the new Redis, or @FILE that holds it")
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
	o.Say = func(text string) { a.complain("migrate: %s", clean(text)) }
	onMoved, finish := a.moving()
	o.OnMoved = onMoved
	done, err := move.Migrate(cmd.Context(), o)
	finish()
	switch {
	case err != nil && !done.Begun:
		return err
	case err != nil:
		a.complain("migrate: it is not done; run the same command again at once: what was on its way is delivered by neither side until then")
		return err
	}
	if a.json {
		err = a.sayValue(done)
	} else {
		a.sayMigrated(done, o.DryRun)
	}
	if err == nil && done.MissingN > 0 {
		return fmt.Errorf("%d of the notices that left are not on the new side: %s", done.MissingN, strings.Join(done.Missing, ", "))
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
	a.say("%d that have left were looked for on the new side, %d are missing\n", done.Checked, done.MissingN)
	if done.Reported > 0 {
		a.say("%d await a report on the old side: report them there, and run this again\n", done.Reported)
	}
	if n := done.Claimed + done.Soon; n > 0 {
		a.say("%d are being delivered by the old side: run this again\n", n)
	}
	if done.Both > 0 {
		a.say("%d stay on the old side, since a later notice of their key waits on the new one: each is delivered where it is\n", done.Both)
	}
	if done.Endings > 0 {
		a.say("%d endings on the old side wait for the history: keep its instances until it has them\n", done.Endings)
	}
}
