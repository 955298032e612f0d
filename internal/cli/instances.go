package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/internal/notice"
)

func (a *command) instances() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "instances",
		Short: "Show the instances that are alive",
		Long: `Shows the instances that serve the same Redis and namespace, the latest sign of life
first; * marks the one that answers. One that is leaving has been told to stop and
finishes what it has begun; one that is silent has given no sign of life for three
beats. ROUTES DIFFER names the routes whose configuration differs from that of the
instance that answers. Needs the token of a client without a prefix.`,
		Example: "  notifier instances\n  notifier instances --json | jq '.items[] | select(.state != \"living\")'",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			l, err := c.Instances(cmd.Context())
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
