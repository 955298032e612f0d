package cli

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"notifier/internal/config"
	"notifier/internal/fleet"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// sealExisting runs s on the Redis of a configuration, and prints the result.
func (a *command) sealExisting(ctx context.Context, cfg *config.Config, s jobs.Sealer) (err error) {
	if s.Routes, err = route.NewTable(cfg.Routes); err != nil {
		return err
	}
	if !slices.ContainsFunc(cfg.Routes, func(r *route.Route) bool { return r.Seal != "" }) {
		return usage("no route of NOTIFIER_ROUTES has SEAL; this command reads the environment of serve")
	}

	w, closeRedis, err := wireOf(ctx, cfg)
	if err != nil {
		return err
	}

	defer closeRedis()
	s.Store = store.New(store.Options{Client: w.Redis, Space: w.Space, Cluster: w.Cluster, Nodes: w.Nodes, Conn: w.Conn,
		Confirm: wire.Confirm{Durability: cfg.Durability, Timeout: cfg.DurabilityTimeout}})
	if err := s.Store.Layout.Learn(ctx); err != nil {
		return err
	}

	instances := fleet.NewStore(s.Store.Layout)
	if err := haveSealKey(ctx, instances, cfg.SealKeys.IDs()[0]); err != nil && !s.DryRun {
		return err
	}

	s.Vault = vault.New(cfg.SealKeys, s.Store.Wire())
	s.Vault.Follow(func(ctx context.Context) (lists [][]string, err error) { return fleet.SealKeys(ctx, instances) }, zap.NewNop())
	total := int64(0)
	for place := range w.Space.Places() {
		n, err := s.Store.Layout.Records(ctx, place)
		if err != nil {
			return err
		}

		total += n
	}

	bar := a.bar(total, "sealing", "notices")
	s.Progress = func(n int) { _ = bar.Add(n) } // only drawing can fail
	done, err := s.Run(ctx)
	_ = bar.Finish()
	if err != nil {
		a.complain("seal: unfinished after %s; run the same command to continue", notice.Count(done.Sealed, "notice"))
		return err
	}

	return a.saySealed(s.DryRun, done)
}

// saySealed prints the result of sealing existing notices.
func (a *command) saySealed(dry bool, done jobs.SealedExisting) error {
	if a.json {
		if err := a.sayValue(done); err != nil {
			return err
		}
	} else {
		verb := map[bool]string{true: "to be encrypted", false: "encrypted"}[dry]
		a.say("%s %s\n", notice.Count(done.Sealed, "notice"), verb)
		if done.Refused > 0 {
			a.say("  left in clear text, because the audience is missing, or it or the id was forgotten: %s; cancel or purge them\n",
				notice.Count(done.Refused, "notice"))
		}
	}

	if done.Left > 0 {
		a.complain("seal: %s left, because of an attempt or a change at the same time; run the command again", notice.Count(done.Left, "notice"))
		return errQuiet
	}

	return nil
}
