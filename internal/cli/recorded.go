package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

// recorded lists the prefixes that are recorded for workers.
func (a *command) recorded() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "recorded",
		Short: "List the prefixes that are recorded for workers",
		Long: `Workers are programs with handlers for notices. The service delivers no notice of a prefix
that a worker has recorded, also while no worker is running. Then the notices wait.`,
		Example: "  notifier routes recorded\n  notifier routes recorded --json | jq '.recorded[] | select(.workers == 0)'",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := fetch(a, func(c *client.Client) (*client.Recorded, error) { return c.Recorded(cmd.Context()) })
			if err != nil {
				return err
			}

			a.warnMissing(l.Missing)
			if a.json {
				return a.sayJSON(l.JSON)
			}

			a.sayRecorded(l.Items)
			return nil
		},
	})
}

func (a *command) sayRecorded(list []client.RecordedPrefix) {
	if len(list) == 0 {
		a.say("No prefix is recorded for workers\n")
		return
	}

	rows := [][]cell{head("PREFIX\tHANDLED BY\tLAST REPORT\tPENDING\tOVERDUE\tNEXT DUE")}
	for _, x := range list {
		by := styled(notice.Count(x.Workers, "worker"), plain)
		switch {
		case x.Workers < 0:
			by = styled("unknown", yellow)
		case x.Workers == 0:
			if by = styled("nobody", yellow); x.Overdue > 0 {
				by.look = red
			}
		}

		number := func(n int64) cell { return cell{text: strconv.FormatInt(n, 10), right: true} }
		rows = append(rows, row(x.Prefix, by, a.screen.near(x.Handled), number(x.Pending), number(x.Overdue), a.screen.near(x.NextDue)))
	}

	a.screen.table(false, rows...)
}

// release ends the record of a prefix.
func (a *command) release() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "release PREFIX",
		Short: "Release a prefix from workers to the service",
		Long: `Ends the record of a prefix, after its handler was removed or renamed. Its notices, also
the pending ones, then belong to the route that matches their keys. Refused while a running
worker handles the prefix. A worker that starts later records the prefix again.`,
		Example:           "  notifier routes release shop:orders:close",
		Args:              takes(1, 1),
		ValidArgsFunction: once(a.recordedPrefixes),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := fetch(a, func(c *client.Client) (*client.Released, error) { return c.Release(cmd.Context(), args[0]) })
			if err != nil {
				return err
			}
			if a.json {
				return a.sayJSON(r.JSON)
			}

			if r.Route == "" {
				a.say("%s is released; no route matches it, so its notices are not delivered until one does\n", r.Prefix)
				return nil
			}

			a.say("%s is released; its notices go to route %s\n", r.Prefix, r.Route)
			return nil
		},
	})
}

// recordedPrefixes completes the recorded prefixes.
func (a *command) recordedPrefixes(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list []cobra.Completion
	a.ask(c.Context(), func(ctx context.Context, api *client.Client) error {
		l, err := api.Recorded(ctx)
		for _, x := range l.Items {
			if strings.HasPrefix(x.Prefix, begun) {
				list = append(list, x.Prefix)
			}
		}

		return err
	})
	return fitting(list, args, begun), cobra.ShellCompDirectiveNoFileComp
}
