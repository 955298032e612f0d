package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) stats() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "stats",
		Short: "Show the numbers of each route",
		Long: `Prints the numbers of each route, and of prefixes with notices but without a route. Counts
are of the whole service. IN FLIGHT, DELIVERED, RETRIED and the lateness are of the
answering instance, the last three since its start.`,
		Example: "  notifier stats\n  watch -n 2 notifier stats",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := fetch(a, func(c *client.Client) (*client.Stats, error) { return c.Stats(cmd.Context()) })
			if err != nil {
				return err
			}

			a.warnMissing(s.Missing)
			if a.json {
				return a.sayJSON(s.JSON)
			}

			a.sayStats(s)
			return nil
		},
	})
}

// sayStats prints a row for each route. Values that need attention are coloured.
func (a *command) sayStats(s *client.Stats) {
	rows := [][]cell{head("ROUTE\tPENDING\tOVERDUE\tIN FLIGHT\tDEAD\tSETTLED\tDELIVERED\tRETRIED\tLATE P50\tP99\tNEXT DUE")}
	number := func(n int64, look style) cell {
		if n == 0 {
			look = faint
		}
		return cell{text: strconv.FormatInt(n, 10), look: look, right: true}
	}
	for _, r := range s.Routes {
		name := styled(r.Route, plain)
		switch {
		case !r.Configured:
			if name = styled(r.Route+" (not configured)", faint); r.Pending+r.Dead > 0 {
				name.look = red // not delivered
			}
		case r.Paused:
			name = styled(r.Route+" (paused)", yellow)
		case r.Recorded:
			name.text += " (workers)"
		}

		p50, p99 := "-", "-" // no exchange yet
		if r.LatenessP99MS > 0 {
			p50, p99 = millis(r.LatenessP50MS), millis(r.LatenessP99MS)
		}

		rows = append(rows, row(name, number(r.Pending, plain), number(r.Overdue, yellow), number(int64(r.InFlight), plain), number(r.Dead, red),
			number(r.Settled, plain), number(r.Outcomes["delivered"], green), number(r.Outcomes["retry"], plain),
			cell{text: p50, right: true}, cell{text: p99, right: true}, a.screen.near(r.NextDue)))
	}

	a.screen.table(false, rows...)
}
