package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

func (a *command) instances() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "instances",
		Short: "Show the instances that are alive",
		Long: `Shows the instances that serve the same Redis and namespace, latest heartbeat first.
* marks the instance that answers. A leaving instance is shutting down and finishes its
running attempts. A silent instance has missed three heartbeats. ROUTES DIFFER names the
routes whose configuration differs from that of the answering instance. Needs the token of a
client without a prefix.`,
		Example: "  notifier instances\n  notifier instances --json | jq '.items[] | select(.state != \"living\")'",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := fetch(a, func(c *client.Client) (*client.Instances, error) { return c.Instances(cmd.Context()) })
			if err != nil {
				return err
			}
			if a.json {
				return a.sayJSON(l.JSON)
			}

			rows := [][]cell{head("ID\tLABEL\tVERSION\tSTATE\tSTARTED\tLAST SIGN\tTAKEOVER\tLIMITS\tROUTES DIFFER")}
			for _, x := range l.Items {
				id, takeover := x.ID, "lease"
				if x.Self {
					id += " *"
				}

				if x.TakeoverMS > 0 {
					takeover = notice.Short(time.Duration(x.TakeoverMS) * time.Millisecond)
				}

				look := green
				if x.State != "living" {
					look = yellow
				}

				rows = append(rows, row(id, dash(x.Label), dash(x.Version), styled(x.State, look), a.screen.near(x.Started), a.screen.near(x.Seen),
					takeover, dash(x.Limits), styled(dash(strings.Join(x.RoutesDiffer, ",")), yellow)))
			}

			a.screen.table(false, rows...)
			return nil
		},
	})
}
