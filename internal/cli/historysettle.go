package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

func (a *command) historySettle() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "settle",
		Short: "After a restore of Redis, settle the notices that the history has as delivered",
		Long: `A Redis restored from a backup has notices as pending that were delivered after the
backup. This command compares each pending notice and dead letter with the history. Notices
that the history has as delivered are settled as delivered and not sent again. Those that it
has as cancelled or replaced are settled as cancelled. Audiences and ids that were forgotten
after the backup are forgotten again. The command connects to Redis and to
the database, and reads the environment of serve.

Pause all routes first, and resume them afterwards. The command may be repeated.`,
		Example: `  notifier history settle --dry-run
  notifier history settle`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := a.historyEnvironment()
			if err != nil {
				return err
			}

			defer env.close()
			return a.settleHistory(cmd.Context(), env, dryRun)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only count")
	return a.withJSON(c)
}

// store opens the Redis of this environment with the stored layout.
func (e *historyEnvironment) store(ctx context.Context) (*store.Store, error) {
	cluster := e.conn.Masters != nil
	n, err := e.conn.Exists(ctx, keys.Space{Namespace: e.cfg.Namespace}.Meta()).Result()
	if err != nil {
		return nil, wire.Wrap("meta", err)
	}

	if n == 0 {
		return nil, fmt.Errorf("no instance has started on %s in the namespace %s, so there is nothing to settle", e.cfg.Redis.Where(),
			e.cfg.Namespace)
	}

	space, _, err := store.Discover(ctx, e.conn, keys.Space{Namespace: e.cfg.Namespace}, cluster)
	if err != nil {
		return nil, err
	}

	adopts := map[string]bool{}
	for _, r := range e.cfg.Routes {
		adopts[r.Prefix] = r.Adopt
	}

	s := store.New(store.Options{Client: e.conn.Commander, Space: space, Cluster: cluster, Nodes: e.conn.Nodes, Conn: e.conn,
		Confirm:   wire.Confirm{Durability: e.cfg.Durability, Timeout: e.cfg.DurabilityTimeout},
		Retention: e.cfg.Retention, Retain: int(e.cfg.Retain),
		Adopts: func(prefix string) bool { return adopts[prefix] || len(adopts) == 0 }})
	if err := s.Wire().Detect(ctx); err != nil {
		return nil, err
	}

	return s, s.Layout.Learn(ctx)
}

func (a *command) settleHistory(ctx context.Context, env *historyEnvironment, dryRun bool) error {
	s, err := env.store(ctx)
	if err != nil {
		return err
	}

	env.db.Serve(func(ctx context.Context) (history.Owner, error) {
		id, err := s.Layout.Identity(ctx)
		return history.Owner{Namespace: env.cfg.Namespace, ID: id}, err
	})
	done, err := env.db.Settle(ctx, s, dryRun)
	if err != nil {
		if done.Delivered+done.Cancelled > 0 && !errors.Is(err, history.ErrNotPaused) {
			a.complain("unfinished; run the same command to continue")
		}
		return err
	}

	if a.json {
		return a.sayValue(done)
	}

	verb := "settled"
	if dryRun {
		verb = "to settle"
	}

	a.say("%d notices checked; %s: %d as delivered, %d as cancelled\n", done.Checked, verb, done.Delivered, done.Cancelled)
	if done.Forgotten > 0 {
		again := "forgotten again"
		if dryRun {
			again = "to forget again"
		}

		a.say("%s %s\n", notice.Count(done.Forgotten, "subject"), again)
	}

	if done.Died > 0 {
		a.say("%d died after the backup; they stay pending and are retried\n", done.Died)
	}

	if done.Changed > 0 {
		a.complain("%d changed during the run and were skipped; run this again", done.Changed)
	}

	return nil
}
