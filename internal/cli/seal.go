package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"notifier/internal/config"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

func (a *command) seal() *cobra.Command {
	var rewrap, existing, dry bool
	rate := ""
	c := &cobra.Command{
		Use:   "seal --rewrap|--existing",
		Short: "Encrypt the keys of sealed notices anew, or notices in clear text",
		Long: `--existing encrypts the notices of routes with SEAL that were stored before that setting, by
deploy/schedule.lua or by workers, in all states. Give all instances the setting first. Delivery
continues. Notices that are being delivered are left: the exit code is then 1, and another run
encrypts them. The history, append-only files and backups of before keep the clear text.

--rewrap encrypts the keys of sealed notices again, with the first of NOTIFIER_SEAL_KEYS, so that the
other service keys can be removed. The notices themselves do not change, and delivery
continues. The command connects to Redis, and with NOTIFIER_HISTORY_URL to the history. It reads
the environment of serve.

It is refused while a running instance does not have the first service key, and stops if such
an instance starts. It may be killed at any time; run it again. --dry-run counts the keys under
each service key and changes nothing.

The exit code is 1 if keys are left under another service key. docs/security.md has the steps of
a rotation. Backups from before need the old service keys.`,
		Example: `  notifier seal --rewrap --dry-run
  notifier seal --rewrap --rate 200/s
  notifier seal --existing`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			perSecond, err := notice.ParseRate(rate)
			switch {
			case rewrap == existing:
				return usage("want --rewrap or --existing")
			case err != nil:
				return usage("--rate: %w", err)
			}

			cfg, err := a.sealConfig()
			if err != nil {
				return err
			}

			if existing {
				return a.sealExisting(cmd.Context(), cfg, jobs.Sealer{Rate: perSecond, DryRun: dry})
			}

			return a.rewrap(cmd.Context(), cfg, vault.Rewrapper{Keys: cfg.SealKeys, Rate: perSecond, DryRun: dry})
		},
	}
	f := c.Flags()
	f.BoolVar(&rewrap, "rewrap", false, "encrypt with the first service key")
	f.BoolVar(&existing, "existing", false, "encrypt notices that are clear text")
	f.BoolVar(&dry, "dry-run", false, "only count")
	f.StringVar(&rate, "rate", "1000/s", "keys or notices in a second, minute or hour")
	return a.withJSON(c)
}

// sealConfig reads the configuration of a command that needs the service keys.
func (a *command) sealConfig() (*config.Config, error) {
	cfg, err := a.configWithoutRoutes()
	if err == nil && cfg.SealKeys == nil {
		err = usage("NOTIFIER_SEAL_KEYS is not set; this command reads the environment of serve")
	}

	return cfg, err
}

// wireOf connects to the Redis of a configuration, and reads how its data are laid out.
func wireOf(ctx context.Context, cfg *config.Config) (w *wire.Client, closeRedis func(), err error) {
	conn, err := open(cfg.Redis)
	if err != nil {
		return nil, nil, fmt.Errorf("NOTIFIER_REDIS_URL: %w", err)
	}

	closeRedis = func() { _ = conn.Close() } // nothing is pending
	cluster := conn.Masters != nil
	space, _, err := store.Discover(ctx, conn, keys.Space{Namespace: cfg.Namespace}, cluster)
	if err == nil {
		w = wire.New(wire.Options{Client: conn.Commander, Space: space, Cluster: cluster, Nodes: conn.Nodes, Conn: conn,
			Confirm: wire.Confirm{Durability: cfg.Durability, Timeout: cfg.DurabilityTimeout}})
		err = w.Detect(ctx)
	}

	if err != nil {
		closeRedis()
	}

	return w, closeRedis, err
}

// rewrap runs r on the Redis of a configuration, and prints the result.
func (a *command) rewrap(ctx context.Context, cfg *config.Config, r vault.Rewrapper) error {
	w, closeRedis, err := wireOf(ctx, cfg)
	if err != nil {
		return err
	}

	defer closeRedis()
	r.Wire = w
	instances := fleet.NewStore(store.NewLayout(r.Wire, store.LayoutOptions{}))
	r.Check = func(ctx context.Context) error { return haveSealKey(ctx, instances, cfg.SealKeys.IDs()[0]) }
	if err := r.Check(ctx); err != nil {
		if !r.DryRun {
			return err
		}

		a.complain("seal: without --dry-run: %v", err)
	}

	db, err := historyWithKeys(ctx, cfg)
	if err != nil {
		return err
	}

	if db != nil {
		defer func() { _ = db.Close() }() // nothing is pending
		r.Table = db
	}

	return a.runRewrap(ctx, cfg, r)
}

// historyWithKeys returns the history of a configuration if it has keys of sealed notices; nil = it does not.
func historyWithKeys(ctx context.Context, cfg *config.Config) (*history.DB, error) {
	if len(cfg.History.URL) == 0 {
		return nil, nil
	}

	db, err := history.Open(history.Options{URL: string(cfg.History.URL)})
	if err != nil {
		return nil, err
	}

	has, err := db.HasKeys(ctx)
	if has {
		return db, nil
	}

	_ = db.Close() // nothing is pending
	return nil, err
}

// runRewrap runs r, and prints the progress and the result.
func (a *command) runRewrap(ctx context.Context, cfg *config.Config, r vault.Rewrapper) error {
	total, err := r.Total(ctx)
	if err != nil {
		return err
	}

	bar := a.bar(total, "wrapping", "keys")
	r.Progress = func(n int) { _ = bar.Add(n) } // only drawing can fail
	done, err := r.Run(ctx)
	_ = bar.Finish()
	if err != nil {
		a.complain("seal: unfinished after %s; run the same command to continue", notice.Count(done.Rewrapped, "key"))
		return err
	}

	return a.sayRewrapped(cfg.SealKeys, r.DryRun, done)
}

// haveSealKey returns an error if an instance has service keys, but not that one. Unresponsive instances count: they may continue.
func haveSealKey(ctx context.Context, l fleet.Lister, id string) error {
	list, err := fleet.List(ctx, l)
	if err != nil {
		return err
	}

	var without []string
	for _, x := range list {
		if len(x.SealKeys) > 0 && !slices.Contains(x.SealKeys, id) {
			without = append(without, fmt.Sprintf("%s (%s)", x.Label, x.ID))
		}
	}

	if len(without) == 0 {
		return nil
	}

	return fmt.Errorf("refused: these instances do not have the service key %s, or have another one of that name: %s; give all instances the "+
		"same NOTIFIER_SEAL_KEYS first; an instance that has crashed counts for at most 10 minutes", seal.NameOf(id),
		clean(strings.Join(without, ", ")))
}

// sayRewrapped prints the result of a rewrap.
func (a *command) sayRewrapped(with *seal.ServiceKeys, dry bool, done vault.Rewrapped) error {
	first := with.Names()[0]
	left := 0
	for name, n := range done.Under {
		if name != first {
			left += n
		}
	}

	if a.json {
		if err := a.sayValue(done); err != nil {
			return err
		}
	} else {
		a.sayWrapped(with, dry, done)
	}

	switch {
	case dry:
		return nil
	case left > 0:
		a.complain("seal: %s left under other service keys, run the command again", notice.Count(left, "key"))
		return errQuiet
	case !a.json && len(with.Names()) > 1:
		a.say("no key needs %s any more, except those in backups\n", strings.Join(with.Names()[1:], ", "))
	}

	return nil
}

func (a *command) sayWrapped(with *seal.ServiceKeys, dry bool, done vault.Rewrapped) {
	verb := map[bool]string{true: "to be encrypted", false: "encrypted"}[dry]
	a.say("%s %s with %s\n", notice.Count(done.Rewrapped, "key"), verb, with.Names()[0])
	for _, name := range slices.Sorted(maps.Keys(done.Under)) {
		note := ""
		if !slices.Contains(with.Names(), name) {
			note = ", which NOTIFIER_SEAL_KEYS does not have"
		}

		a.say("  %s under %s%s\n", notice.Count(done.Under[name], "key"), clean(name), note)
	}

	if done.InTable > 0 {
		a.say("  %s of them in the history\n", notice.Count(done.InTable, "key"))
	}

	if done.Unreadable > 0 {
		a.say("  %s of them cannot be decrypted: NOTIFIER_SEAL_KEYS has another key of that name, or the value was changed\n",
			notice.Count(done.Unreadable, "key"))
	}
}
