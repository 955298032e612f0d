package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) recur() *cobra.Command {
	c := &cobra.Command{
		Use:   "recur",
		Short: "Create, show and change recurring notices",
		Long: `A recurring notice has the key app:module:type:name. At each tick of its cron expression or
interval it has a notice under this key with ~ and a number.`,
		Example: `  notifier recur create app1:settle:daily:books --cron "0 2 * * *" --zone Asia/Shanghai --body @books.json
  notifier recur create app1:poll:bank:balance --every 15m --to https://bank.example/balance --dry-run
  notifier recur next app1:settle:daily:books`,
	}
	c.AddCommand(a.recurCreate(), a.recurList(),
		a.recurOne("show KEY", "Show a recurring notice", (*client.Client).ReadRecurrence, a.sayRecurrence),
		a.recurOne("next KEY", "Print the next five ticks of a recurring notice", (*client.Client).ReadRecurrence, a.sayNext),
		a.recurDelete(),
		a.recurOne("pause KEY", "Pause a recurring notice", (*client.Client).PauseRecurrence, a.sayTurned("paused")),
		a.recurOne("resume KEY", "Resume a paused recurring notice", (*client.Client).ResumeRecurrence, a.sayTurned("resumed")),
		a.recurRun(), a.recurExport())
	return c
}

// recurCreate is the command recur create.
func (a *command) recurCreate() *cobra.Command {
	var r client.RecurrenceRequest
	var n client.Request
	var content func() error
	var dry bool
	c := &cobra.Command{
		Use:   "create KEY",
		Short: "Create or replace a recurring notice, and print its next five ticks",
		Long: `Creates the recurring notice of KEY, or replaces it. Give --cron, with the time zone in --zone,
or --every. The next five ticks are printed; with --dry-run nothing is stored.

A cron expression has five fields: minute hour day-of-month month day-of-week. A fixed hour that
a change of the clock skips has its tick at the first minute after the gap, and one that occurs
twice has it the first time. Hours with * or a step follow elapsed time.`,
		Example: `  notifier recur create app1:settle:daily:books --cron "0 2 * * *" --zone Asia/Shanghai --body @books.json
  notifier recur create app1:poll:bank:balance --every 15m --missed skip --to https://bank.example/balance`,
		Args:              takes(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.Key = args[0]; r.Cron == "" && r.Every == 0 {
				return usage(`want --cron, such as "0 2 * * *", or --every, such as 15m`)
			}
			if err := content(); err != nil {
				return err
			}

			r.Body, r.BodyText, r.BodyBase64, r.ContentType, r.URL = n.Body, n.BodyText, n.BodyBase64, n.ContentType, n.URL
			r.Audience, r.Headers, r.Method, r.Retry = n.Audience, n.Headers, n.Method, n.Retry
			x, err := fetch(a, func(c *client.Client) (*client.Recurrence, error) {
				if dry {
					return c.PlanRecurrence(cmd.Context(), r)
				}
				return c.PutRecurrence(cmd.Context(), r)
			})
			if err != nil {
				return err
			}

			return a.sayStored(x, dry)
		},
	}
	f := c.Flags()
	f.StringVar(&r.Cron, "cron", "", `minute hour day-of-month month day-of-week: "0 2 * * *", or @daily`)
	f.StringVar(&r.Zone, "zone", "", "time zone of --cron: Asia/Shanghai (default UTC)")
	delayVar(f, &r.Every, "every", "interval in place of --cron: 15m")
	a.instantVar(f, &r.Anchor, "anchor", "one tick of --every: 2026-12-01T00:07:00Z (default: intervals are counted from 1970)")
	a.instantVar(f, &r.From, "from", "no tick before this time")
	a.instantVar(f, &r.Until, "until", "no tick after this time")
	f.IntVar(&r.Times, "times", 0, "maximum number of notices (default no maximum)")
	f.StringVar(&r.Missed, "missed", "", "ticks while nothing ran: skip, latest (the default) or all")
	f.IntVar(&r.MissedMost, "missed-most", 0, "maximum of --missed all (default 10)")
	f.StringVar(&r.Overlap, "overlap", "", "ticks while an earlier notice is pending: allow, skip or wait (default as the route allows)")
	f.BoolVar(&r.Paused, "paused", false, "create it paused")
	content = a.contentFlags(c, &n)
	delayVar(f, &r.Expires, "expires", "how long after its tick a notice may be sent: 1h")
	f.BoolVar(&dry, "dry-run", false, "check it, print its next ticks, and store nothing")
	a.either(c, false, "cron", "every")
	return a.withJSON(c)
}

// sayStored prints a recurrence that was stored, or would be.
func (a *command) sayStored(x *client.Recurrence, dry bool) error {
	if a.json {
		return a.sayJSON(x.JSON)
	}

	said := "replaced, or unchanged"
	switch {
	case dry:
		said = "valid; without --dry-run it would be stored"
	case x.Created:
		said = "created"
	}

	a.say("%s: %s\n", clean(x.Key), said)
	return a.sayNext(x)
}

// sayNext prints the next ticks of a recurrence, in the zone of its cron expression too.
func (a *command) sayNext(x *client.Recurrence) error {
	if a.json {
		return a.sayJSON(x.JSON)
	}

	if len(x.Next) == 0 {
		a.say("no further ticks\n")
		return nil
	}

	zone, err := time.LoadLocation(x.Zone)
	for _, t := range x.Next {
		in := ""
		if err == nil && x.Zone != "" {
			in = "  " + t.In(zone).Format("Mon 2006-01-02 15:04:05") + " " + x.Zone
		}

		a.say("next %s%s\n", t.UTC().Format(time.RFC3339), clean(in))
	}

	if x.Paused {
		a.say("it is paused: notifier recur resume %s continues it\n", clean(x.Key))
	}

	return nil
}

// ticksText returns the cron expression with its zone, or the interval.
func ticksText(x *client.Recurrence) string {
	if x.Cron == "" {
		return "every " + x.Every
	}
	return strings.TrimSpace(x.Cron + " " + x.Zone)
}

// sayRecurrence prints a recurrence.
func (a *command) sayRecurrence(x *client.Recurrence) error {
	if a.json {
		return a.sayJSON(x.JSON)
	}

	a.say("%s: %s, route %s\n", clean(x.Key), clean(ticksText(x)), clean(x.Route))
	a.say("notices %d, missed %d, overlapped %d, occupied numbers %d\n", x.Stored, x.MissedTicks, x.Overlapped, x.Occupied)
	switch {
	case !x.ForgottenAt.IsZero():
		a.say("content forgotten %s: its ticks are missed until it is stored again\n", a.screen.when(x.ForgottenAt))
	case x.Sealed:
		a.say("content sealed in Redis, shown to the roles operate and admin\n")
	}

	if x.Last != "" {
		a.say("last %s for %s\n", clean(x.Last), a.screen.when(x.LastTick))
	}

	return a.sayNext(x)
}

// sayTurned returns a function that prints a recurrence that was paused or resumed.
func (a *command) sayTurned(verb string) func(*client.Recurrence) error {
	return func(x *client.Recurrence) error {
		if a.json {
			return a.sayJSON(x.JSON)
		}

		a.say("%s: %s\n", clean(x.Key), verb)
		return nil
	}
}

// recurOne returns a command that makes a call for one recurrence and prints the answer.
func (a *command) recurOne(use, short string, call func(*client.Client, context.Context, string) (*client.Recurrence, error),
	say func(*client.Recurrence) error) *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use: use, Short: short, Args: takes(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  notifier recur " + strings.Replace(use, "KEY", "app1:settle:daily:books", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := fetch(a, func(c *client.Client) (*client.Recurrence, error) { return call(c, cmd.Context(), args[0]) })
			if err != nil {
				return err
			}

			return say(x)
		},
	})
}

// recurDelete is the command recur delete.
func (a *command) recurDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete KEY", Short: "Delete a recurring notice", Args: takes(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Deletes a recurring notice, and withdraws its notice that has not begun. Others stay. If the key
gets a recurring notice again, its numbers go on.`,
		Example: "  notifier recur delete app1:settle:daily:books",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := fetch(a, func(c *client.Client) (struct{}, error) {
				return struct{}{}, c.DeleteRecurrence(cmd.Context(), args[0])
			})
			if err == nil {
				a.say("%s: deleted\n", clean(args[0]))
			}

			return err
		},
	}
}

// recurRun is the command recur run.
func (a *command) recurRun() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use: "run KEY", Short: "Schedule a notice of a recurring notice now", Args: takes(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Schedules a notice that is due now, also while the recurring notice is paused. Its ticks do not
change. Each call schedules one.`,
		Example: "  notifier recur run app1:settle:daily:books",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.one(func(c *client.Client) (*client.Notice, error) { return c.RunRecurrence(cmd.Context(), args[0]) },
				func(*client.Notice) string { return "scheduled" })
		},
	})
}

// recurList is the command recur list.
func (a *command) recurList() *cobra.Command {
	var prefix string
	c := &cobra.Command{
		Use: "list", Short: "List the recurring notices", Args: takes(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  notifier recur list --prefix app1:settle",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			return a.listRecurrences(cmd.Context(), c, prefix)
		},
	}
	c.Flags().StringVar(&prefix, "prefix", "", "only keys with this prefix: app, app:module or app:module:type")
	return a.withJSON(c)
}

// listRecurrences prints all recurring notices under a prefix.
func (a *command) listRecurrences(ctx context.Context, c *client.Client, prefix string) error {
	rows := [][]cell{head("KEY\tTICKS\tNEXT\tNOTICES\tMISSED\tSTATE")}
	for f := (client.RecurrenceFilter{Prefix: prefix}); ; {
		page, err := c.Recurrences(ctx, f)
		if err == nil && a.json {
			err = a.sayJSON(page.JSON)
		}

		if err != nil {
			return err
		}

		for i := range page.Items {
			rows = append(rows, a.recurrenceRow(&page.Items[i]))
		}

		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
	}

	if !a.json {
		a.screen.table(true, rows...)
	}

	return nil
}

func (a *command) recurrenceRow(x *client.Recurrence) []cell {
	next, state := "", "active"
	switch {
	case len(x.Next) == 0:
		state = "over"
	case x.Paused:
		state = "paused"
	}

	if len(x.Next) > 0 {
		next = a.screen.near(x.Next[0])
	}

	return row(x.Key, ticksText(x), next, x.Stored, x.MissedTicks, state)
}
