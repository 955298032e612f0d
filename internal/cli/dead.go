package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) dead() *cobra.Command {
	var q client.DeadQuery
	c := &cobra.Command{
		Use:   "dead",
		Short: "Count the dead letters of each route by cause",
		Long: `Counts all dead letters of each route by reason and HTTP status, the largest group
first. Use list --state dead to see them, and redrive to schedule them again; both
take --reason and --status.`,
		Example: `  notifier dead
  notifier dead --route orders --since 1h
  notifier redrive --route orders --reason status_5xx --status 503 --rate 100/s`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := fetch(a, func(c *client.Client) (*client.DeadCounts, error) { return c.CountDead(cmd.Context(), q) })
			if err != nil {
				return err
			}

			a.warnMissing(d.Missing)
			if a.json {
				return a.sayJSON(d.JSON)
			}

			a.sayDead(d)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&q.Route, "route", "", "name of a route")
	f.StringVar(&q.Reason, "reason", "", "reason of death: status_5xx, timeout, connect, …")
	a.agoVar(f, &q.Since, "since", "that died from this time, or this long ago: 2026-11-21T00:00:00Z, 14:00, yesterday, 24h")
	return a.withJSON(c)
}

// sayDead prints a row for each group, and the total.
func (a *command) sayDead(d *client.DeadCounts) {
	if len(d.Items) == 0 {
		a.say("No dead letters\n")
		return
	}

	rows := [][]cell{head("ROUTE\tDEAD\tREASON\tSTATUS\tFIRST\tLAST")}
	count := func(n int64) cell { return cell{text: strconv.FormatInt(n, 10), look: red, right: true} }
	for _, g := range d.Items {
		reason, status := g.Reason, "-"
		if reason == "" {
			reason = "-"
		}

		if g.Status > 0 {
			status = strconv.Itoa(g.Status)
		}

		rows = append(rows, row(g.Route, count(g.Count), reason, status, a.screen.near(g.First), a.screen.near(g.Last)))
	}

	if len(d.Items) > 1 {
		rows = append(rows, row(styled("total", faint), count(d.Total), "", "", "", ""))
	}

	a.screen.table(false, rows...)
}
