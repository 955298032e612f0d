package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) problems() *cobra.Command {
	var route string
	c := &cobra.Command{
		Use:   "problems",
		Short: "List the problems that the service has now",
		Long: `Lists what is late, failing or refused at present, worst first, in the words of the
page Now of the dashboard, each with a command that shows or ends it. --json also has
the first receivers of each problem, and its page of the dashboard.`,
		Example: `  notifier problems
  notifier problems --route orders
  notifier problems --json | jq '.items[] | select(.severity == "error")'`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := fetch(a, func(c *client.Client) (*client.Problems, error) { return c.Problems(cmd.Context(), route) })
			if err != nil {
				return err
			}

			if a.json {
				return a.sayJSON(p.JSON)
			}

			a.sayProblems(p)
			return nil
		},
	}
	c.Flags().StringVar(&route, "route", "", "name of a route")
	return a.withJSON(c)
}

// sayProblems prints a row for each problem, and its details and command below it.
func (a *command) sayProblems(p *client.Problems) {
	if p.Outdated != "" {
		a.complain("some figures are old: %s", p.Outdated)
	}

	if p.Unread {
		a.complain("could not read all figures (%s), run the command again", strings.Join(p.Missing, ", "))
	}

	if len(p.Items) == 0 {
		a.say("No problems found\n")
		return
	}

	rows := [][]cell{head("SEVERITY\tKIND\tCOUNT\tSINCE\tPROBLEM")}
	for _, x := range p.Items {
		look, count := yellow, "-"
		if x.Severity == "error" {
			look = red
		}

		if x.Count > 0 {
			count = strconv.FormatInt(x.Count, 10)
		}

		rows = append(rows, row(styled(x.Severity, look), x.Kind, cell{text: count, right: true}, a.screen.near(x.Since), x.Title))
		for _, s := range []string{x.Details, x.Command} {
			if s != "" {
				rows = append(rows, row("", "", "", "", styled(s, faint)))
			}
		}
	}

	a.screen.table(false, rows...)
}
