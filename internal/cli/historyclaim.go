package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"notifier/internal/config"
	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/wire"
)

func (a *command) historyClaim() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "claim --from ID",
		Short: "Make this service the owner of a history",
		Long: `A history belongs to one namespace and one data identity, which is stored in Redis. Other
services cannot use it; doctor and the log name its owner. This command makes the service of
this environment the owner of the history and all its entries. Use it when new data replaced
the old: Redis was lost and started empty, or the namespace changed. The command connects to
Redis and to the database, and reads the environment of serve.

Unfinished replays fail. If the other service still runs, it can no longer use the history.`,
		Example: `  notifier history claim --from 4JWEZ2QXK5LRY7TS3UVB6MHNCA`,
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return usage("want --from ID, the data identity that doctor and the log name")
			}

			env, err := a.historyEnvironment()
			if err != nil {
				return err
			}

			defer env.close()
			return a.claimHistory(cmd.Context(), env, from)
		},
	}
	c.Flags().StringVar(&from, "from", "", "the data identity of the present owner")
	return a.withJSON(c)
}

// historyEnvironment holds the connections to Redis and to the database of the environment of serve.
type historyEnvironment struct {
	cfg  *config.Config
	conn *wire.Conn
	db   *history.DB
}

func (a *command) historyEnvironment() (*historyEnvironment, error) {
	cfg, err := a.configWithoutRoutes()
	if err != nil {
		return nil, err
	}
	if len(cfg.History.URL) == 0 {
		return nil, usage("NOTIFIER_HISTORY_URL is not set; this command reads the environment of serve")
	}

	db, err := history.Open(history.Options{URL: string(cfg.History.URL)})
	if err != nil {
		return nil, usage("%w", err)
	}

	conn, err := open(cfg.Redis)
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("NOTIFIER_REDIS_URL: %w", err)
	}

	return &historyEnvironment{cfg, conn, db}, nil
}

func (e *historyEnvironment) close() {
	_ = e.db.Close() // nothing is pending
	_ = e.conn.Close()
}

// owner returns the service of this environment.
func (e *historyEnvironment) owner(ctx context.Context) (history.Owner, error) {
	s := store.New(store.Options{Client: e.conn.Commander, Space: keys.Space{Namespace: e.cfg.Namespace, Shards: 1}})
	id, err := s.Layout.Identity(ctx)
	return history.Owner{Namespace: e.cfg.Namespace, ID: id}, err
}

func (a *command) claimHistory(ctx context.Context, env *historyEnvironment, from string) error {
	mine, err := env.owner(ctx)
	if err != nil {
		return err
	}

	changed, err := env.db.Claim(ctx, from, mine)
	if err != nil {
		return err
	}
	if a.json {
		return a.sayValue(map[string]any{"namespace": mine.Namespace, "id": mine.ID, "changed": changed})
	}

	if !changed {
		a.say("the history already belongs to this service\n")
		return nil
	}

	a.say("the history now belongs to namespace %s with the data identity %s\n", mine.Namespace, mine.ID)
	return nil
}
