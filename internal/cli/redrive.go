package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
	"notifier/internal/store"
)

func (a *command) redrive() *cobra.Command {
	var b client.Bulk
	var routeName string
	var expires time.Duration
	var job bool
	c := &cobra.Command{
		Use:   "redrive [KEY...]",
		Short: "Schedule dead letters again: some, or all of a route",
		Long: `Schedules dead letters again from the beginning of the ladder: the given KEYs, or with
--route all of a route that match the filters. --dry-run only counts them.
--rate makes them due one after the other.

Use resend for one delivered notice, and replay for all notices of a window.`,
		Example: `  notifier redrive app1:orders:paid:4711
  notifier redrive --route orders --dry-run
  notifier redrive --route orders --reason status_5xx --since 24h
  notifier redrive --route orders --host shop.example --rate 5/s`,
		ValidArgsFunction: a.noticeKeys(client.Dead),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case routeName == "" && len(args) == 0:
				return usage("want the keys of dead letters, or --route")
			case routeName != "" && len(args) > 0:
				return usage("want either keys or --route, not both")
			case routeName != "" && expires != 0:
				return usage("--expires is for keys; dead letters of a route that have expired are skipped")
			case routeName != "" && job:
				return a.beginJob(cmd.Context(), jobOf(client.JobRedrive, routeName, b), true, false)
			case routeName != "":
				return a.bulk(cmd.Context(), routeName, b, redriving)
			case b != (client.Bulk{}):
				return usage("--dry-run, --rate and the filters need --route")
			}
			return a.each(cmd.Context(), args, "redriven", func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				return c.Redrive(ctx, key, expiring(expires)...)
			})
		},
	}
	a.bulkFlags(c, &b, &routeName)
	delayVar(c.Flags(), &expires, "expires", "new expiry, counted from now: 10m; required for expired notices")
	c.Flags().StringVar(&b.Rate, "rate", "", "redrive at a rate such as 5/s (default: all at once; with --job 100/s)")
	jobVar(c, &job)
	return a.withJSON(c)
}

// expiring are the options of a call that sends a notice again.
func expiring(expires time.Duration) []client.AgainOption {
	if expires == 0 {
		return nil
	}
	return []client.AgainOption{client.ExpiresIn(expires)}
}

func (a *command) purge() *cobra.Command {
	var b client.Bulk
	var routeName string
	var job bool
	c := &cobra.Command{
		Use:   "purge --route NAME",
		Short: "Cancel the dead letters of a route",
		Long: `Cancels the dead letters of a route that match the filters. They stay readable
for the retention. --dry-run counts them only.`,
		Example: `  notifier purge --route orders --dry-run
  notifier purge --route orders --host gone.example --until 720h`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case routeName == "":
				return usage("want --route")
			case job:
				return a.beginJob(cmd.Context(), jobOf(client.JobPurge, routeName, b), true, false)
			}

			return a.bulk(cmd.Context(), routeName, b, purging)
		},
	}
	a.bulkFlags(c, &b, &routeName)
	jobVar(c, &job)
	return a.withJSON(c)
}

// jobVar adds the flag --job.
func jobVar(c *cobra.Command, job *bool) {
	c.Flags().BoolVar(job, "job", false, "as a job, which the service continues if the command ends: see notifier jobs")
}

// bulkFlags adds the flags that redrive and purge share.
func (a *command) bulkFlags(c *cobra.Command, b *client.Bulk, routeName *string) {
	a.filters(c, filter{&b.Prefix, &b.Reason, &b.Host, &b.Status, &b.Since, &b.Until})
	c.Flags().StringVar(routeName, "route", "", "name of the route of the dead letters")
	c.Flags().BoolVar(&b.DryRun, "dry-run", false, "count and change nothing")
}

// step is what one step of a bulk call did.
type step struct {
	matched, changed int
	cursor           string
	missing          []string
}

// bulkCall is a bulk redrive or a bulk purge.
type bulkCall struct {
	doing, done string
	step        func(ctx context.Context, c *client.Client, route string, b client.Bulk) (step, error)
}

var (
	redriving = bulkCall{"redriving", "redriven", func(ctx context.Context, c *client.Client, route string, b client.Bulk) (step, error) {
		r, err := c.RedriveRoute(ctx, route, b)
		return step{r.Matched, r.Redriven, r.Cursor, r.Missing}, err
	}}
	purging = bulkCall{"purging", "purged", func(ctx context.Context, c *client.Client, route string, b client.Bulk) (step, error) {
		r, err := c.Purge(ctx, route, b)
		return step{r.Matched, r.Purged, r.Cursor, r.Missing}, err
	}}
)

// bulk counts the dead letters and, unless it is a dry run, changes them.
func (a *command) bulk(ctx context.Context, name string, b client.Bulk, call bulkCall) error {
	c, err := a.client()
	if err != nil {
		return err
	}

	defer c.Close()

	dry := b.DryRun
	b.DryRun = true
	t, err := call.all(ctx, c, name, b, nil)
	missing := t.missing
	if err == nil && !dry {
		bar := a.bar(int64(t.matched), call.doing, "notices")
		b.DryRun = false
		t, err = call.all(ctx, c, name, b, func(n int) { _ = bar.Add(n) }) // only drawing can fail
		missing = append(missing, t.missing...)
		_ = bar.Finish()
	}

	matched, changed := t.matched, t.changed
	if err != nil {
		return fmt.Errorf("after %d were %s: %w", changed, call.done, err)
	}

	a.warnMissing(missing)
	if a.json {
		said := map[string]any{"route": name, "dry_run": dry, "matched": matched, call.done: changed}
		if len(missing) > 0 {
			slices.Sort(missing)
			said["missing"] = slices.Compact(missing)
		}

		return a.sayValue(said)
	}

	if dry {
		a.say("Dry run: %d dead letters of route %s would be %s%s\n", matched, name, call.done, overTime(matched, b.Rate))
		return nil
	}

	a.say("%d of %d dead letters of route %s %s%s\n", changed, matched, name, call.done, overTime(changed, b.Rate))
	if changed < matched && call.done == redriving.done {
		a.complain("the others have expired, or were changed meanwhile; notifier redrive KEY --expires 10m redrives an expired one")
	}

	return nil
}

// all repeats a step until no dead letter is left, and adds the answers up. each, unless nil, gets the number of each step.
func (call bulkCall) all(ctx context.Context, c *client.Client, name string, b client.Bulk, each func(matched int)) (sum step, err error) {
	for ; ; b.Cursor = sum.cursor {
		s, err := call.step(ctx, c, name, b)
		if err != nil {
			return sum, err
		}

		sum = step{sum.matched + s.matched, sum.changed + s.changed, s.cursor, append(sum.missing, s.missing...)}
		if each != nil {
			each(s.matched)
		}

		if sum.cursor == "" {
			return sum, nil
		}
	}
}

// overTime says how long a redrive of n notices takes at a rate; empty = at once.
func overTime(n int, rate string) string {
	perSecond, err := notice.ParseRate(rate)
	if err != nil {
		return ""
	}

	return fmt.Sprintf(", over %s at %s", notice.Short(store.Paced(n, perSecond).Round(time.Second)), rate)
}
