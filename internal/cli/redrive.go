package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) redrive() *cobra.Command {
	var q client.Query
	var routeName string
	var dryRun bool
	c := &cobra.Command{
		Use:   "redrive [KEY...]",
		Short: "Schedule dead letters again: some, or all of a route",
		Long: `Schedules dead letters again, from the ladder's beginning: those of the KEYs, or
with --route all of a route that fit the filters. --dry-run counts them only.`,
		Example: `  notifier redrive app1:orders:paid:4711
  notifier redrive --route orders --dry-run
  notifier redrive --route orders --reason status_5xx --since 24h`,
		ValidArgsFunction: a.noticeKeys(client.Dead),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case routeName == "" && len(args) == 0:
				return usage("want the keys of dead letters, or --route")
			case routeName != "" && len(args) > 0:
				return usage("want either keys or --route, not both")
			case routeName != "":
				return a.redriveRoute(cmd.Context(), routeName, q, dryRun)
			case dryRun || q != (client.Query{}):
				return usage("--dry-run and the filters go with --route")
			}
			return a.each(cmd.Context(), args, "redriven", func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				return c.Redrive(ctx, key)
			})
		},
	}
	a.filters(c, &q)
	c.Flags().StringVar(&routeName, "route", "", "name of the route whose dead letters are redriven")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "count and change nothing")
	return a.withJSON(c)
}

func (a *command) redriveRoute(ctx context.Context, name string, q client.Query, dryRun bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	var missing []string
	sum := func(dry bool, step func(*client.Redriven)) (matched, redriven int, err error) {
		q := q
		for {
			r, err := c.RedriveRoute(ctx, name, q, dry)
			if err != nil {
				return matched, redriven, err
			}
			matched, redriven = matched+r.Matched, redriven+r.Redriven
			missing = append(missing, r.Missing...)
			if step != nil {
				step(r)
			}
			if q.Cursor = r.Cursor; q.Cursor == "" {
				return matched, redriven, nil
			}
		}
	}
	matched, redriven, err := sum(true, nil)
	if err == nil && !dryRun {
		bar := a.bar(int64(matched), "redriving", "notices")
		matched, redriven, err = sum(false, func(r *client.Redriven) { _ = bar.Add(r.Matched) }) // only drawing can fail
		_ = bar.Finish()
	}
	if err != nil {
		return fmt.Errorf("after %d were redriven: %w", redriven, err)
	}
	a.warnMissing(missing)
	if a.json {
		said := map[string]any{"route": name, "dry_run": dryRun, "matched": matched, "redriven": redriven}
		if len(missing) > 0 {
			slices.Sort(missing)
			said["missing"] = slices.Compact(missing)
		}
		return a.sayValue(said)
	}
	if dryRun {
		a.say("Dry run: %d dead letters of route %s would be redriven\n", matched, name)
		return nil
	}
	a.say("%d of %d dead letters of route %s redriven\n", redriven, matched, name)
	return nil
}
