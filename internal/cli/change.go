package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"notifier/internal/client"
)

// each makes a call for each key and says how it went; one that fails does not
// stop the others.
func (a *command) each(ctx context.Context, keys []string, verb string, call func(context.Context, *client.Client,
	string) (*client.Notice, error)) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	failed := 0
	for _, key := range keys {
		n, err := call(ctx, c, key)
		switch {
		case err != nil:
			failed++
			a.complain("%s: %v", clean(key), err)
		case a.json:
			if err := a.sayJSON(n.JSON); err != nil {
				return err
			}
		case !n.Changed:
			a.say("%s: is %s already\n", clean(key), n.State)
		default:
			note := ""
			if n.InFlight {
				note = "; an attempt was running and may still reach the receiver"
			}
			if n.State == "scheduled" {
				note += ", due " + when(n.Due)
			}
			a.say("%s: %s%s\n", clean(key), verb, note)
		}
	}
	if failed > 0 {
		return errQuiet
	}
	return nil
}

func (a *command) cancel() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:     "cancel KEY...",
		Short:   "Cancel notices",
		Long:    "Cancels notices. It says if an attempt was running, which may still reach the receiver.",
		Example: "  notifier cancel app1:orders:paid:4711",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd.Context(), args, "cancelled", func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				return c.Cancel(ctx, key)
			})
		},
	})
}

func (a *command) fire() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:     "fire KEY...",
		Short:   "Make notices due now",
		Example: "  notifier fire app1:orders:paid:4711",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd.Context(), args, "fired", func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				return c.Fire(ctx, key)
			})
		},
	})
}

func (a *command) reschedule() *cobra.Command {
	var delay, due string
	c := &cobra.Command{
		Use:   "reschedule KEY...",
		Short: "Give notices another due time",
		Example: `  notifier reschedule app1:orders:paid:4711 --delay 2h
  notifier reschedule app1:orders:paid:4711 --due 2026-12-24T18:00:00Z`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd.Context(), args, "rescheduled", func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				return c.Reschedule(ctx, key, delay, due)
			})
		},
	}
	c.Flags().StringVar(&delay, "delay", "", "time from now: 15s, 3m, 1h30m")
	c.Flags().StringVar(&due, "due", "", "time it is due: 2026-12-24T18:00:00Z")
	c.MarkFlagsMutuallyExclusive("delay", "due")
	c.MarkFlagsOneRequired("delay", "due")
	return a.withJSON(c)
}

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
	filters(c, &q)
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
	q.Since, q.Until = instant(q.Since), instant(q.Until)
	sum := func(dry bool, step func(*client.Redriven)) (matched, redriven int, err error) {
		q := q
		for {
			r, err := c.RedriveRoute(ctx, name, q, dry)
			if err != nil {
				return matched, redriven, err
			}
			matched, redriven = matched+r.Matched, redriven+r.Redriven
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
		bar := a.bar(int64(matched), "redriving")
		matched, redriven, err = sum(false, func(r *client.Redriven) { _ = bar.Add(r.Matched) }) // only drawing can fail
		_ = bar.Finish()
	}
	if err != nil {
		return fmt.Errorf("after %d were redriven: %w", redriven, err)
	}
	if a.json {
		return a.sayValue(map[string]any{"route": name, "dry_run": dryRun, "matched": matched, "redriven": redriven})
	}
	if dryRun {
		a.say("%d dead letters of route %s fit; without --dry-run they are redriven\n", matched, name)
		return nil
	}
	a.say("%d of %d dead letters of route %s redriven\n", redriven, matched, name)
	return nil
}

func (a *command) pause() *cobra.Command {
	return a.withJSON(a.turn("pause", "Pause a route: everything is kept, nothing is sent",
		func(ctx context.Context, c *client.Client, name string) (*client.Route, error) {
			return c.Pause(ctx, name)
		}))
}

func (a *command) resume() *cobra.Command {
	return a.withJSON(a.turn("resume", "Resume a route: what became due is spread by its rate and concurrency",
		func(ctx context.Context, c *client.Client, name string) (*client.Route, error) {
			return c.Resume(ctx, name)
		}))
}

func (a *command) turn(verb, about string, call func(context.Context, *client.Client, string) (*client.Route, error)) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " ROUTE",
		Short:   about,
		Example: "  notifier " + verb + " orders",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			r, err := call(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.sayJSON(r.JSON)
			}
			a.say("route %s is %s\n", r.Name, map[bool]string{true: "paused", false: "running"}[r.Paused])
			return nil
		},
	}
}

func (a *command) report(verb, about, done string, extra func(*cobra.Command, *client.Report),
	call func(context.Context, *client.Client, string, client.Report) (*client.Notice, error),
) *cobra.Command {
	var r client.Report
	c := &cobra.Command{
		Use:     verb + " KEY --attempt N",
		Short:   about,
		Example: "  notifier " + verb + " app1:jobs:mail:4711 --attempt 1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd.Context(), args, done, func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				return call(ctx, c, key, r)
			})
		},
	}
	c.Flags().IntVar(&r.Attempt, "attempt", 0, "the attempt's number, from the entry")
	c.Flags().StringVar(&r.Response, "response", "", "what to keep with the attempt")
	_ = c.MarkFlagRequired("attempt") // it is defined one line above
	if extra != nil {
		extra(c, &r)
	}
	return a.withJSON(c)
}

func (a *command) ack() *cobra.Command {
	return a.report("ack", "Report a notice taken from a list or stream as done", "acknowledged", nil,
		func(ctx context.Context, c *client.Client, key string, r client.Report) (*client.Notice, error) {
			return c.Ack(ctx, key, r)
		})
}

func (a *command) nack() *cobra.Command {
	return a.report("nack", "Report a notice taken from a list or stream as failed", "reported as failed",
		func(c *cobra.Command, r *client.Report) {
			c.Flags().BoolVar(&r.Permanent, "permanent", false, "no further attempt: it is dead")
		},
		func(ctx context.Context, c *client.Client, key string, r client.Report) (*client.Notice, error) {
			return c.Nack(ctx, key, r)
		})
}

func (a *command) putOff() *cobra.Command {
	return a.report("defer", "Put off a notice taken from a list or stream; uses no attempt", "put off",
		func(c *cobra.Command, r *client.Report) {
			c.Flags().StringVar(&r.After, "after", "", "how much later: 30s, 5m")
		},
		func(ctx context.Context, c *client.Client, key string, r client.Report) (*client.Notice, error) {
			return c.Defer(ctx, key, r)
		})
}

func (a *command) stats() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "stats",
		Short: "Show the numbers of each route",
		Long: `Shows the numbers of each route. Counts are of the whole service; delivered,
retried and lateness are of the instance that answers, since its start.`,
		Example: "  notifier stats\n  watch -n 2 notifier stats",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			s, err := c.Stats(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.sayJSON(s.JSON)
			}
			sayStats(a.Stdout, s)
			return nil
		},
	})
}

func sayStats(w io.Writer, s *client.Stats) {
	rows := []string{"ROUTE\tPENDING\tOVERDUE\tIN FLIGHT\tDEAD\tSETTLED\tDELIVERED\tRETRIED\tLATE P50\tP99\tNEXT DUE"}
	for _, r := range s.Routes {
		name := r.Route
		switch {
		case !r.Configured:
			name += " (not configured)"
		case r.Paused:
			name += " (paused)"
		}
		rows = append(rows, row(name, r.Pending, r.Overdue, r.Claimed, r.Dead, r.Settled, r.Outcomes["delivered"], r.Outcomes["retry"],
			fmt.Sprintf("%.1fms", r.LatenessP50MS), fmt.Sprintf("%.1fms", r.LatenessP99MS), when(r.NextDue)))
	}
	table(w, rows...)
}
