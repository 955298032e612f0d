package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) resend() *cobra.Command {
	var expires time.Duration
	c := &cobra.Command{
		Use:   "resend KEY...",
		Short: "Send delivered or dead notices once more",
		Long: `Sends delivered or dead notices once more, with the same webhook-id, the attempts
counted on and the ladder from the start. Callbacks carry the header
notifier-resend with the number of resends. A notice that Redis does not keep any
more is sent from the history.

Use redrive for all dead letters of a route, and replay for all notices of a
window.`,
		Example:           "  notifier resend app1:orders:paid:4711",
		Args:              takes(1, -1),
		ValidArgsFunction: a.noticeKeys(client.Delivered),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd.Context(), args, "resent", func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				n, err := c.Get(ctx, key)
				if err != nil {
					return nil, err
				}
				if n.Ending == 0 {
					return nil, fmt.Errorf("it is %s and was never delivered or dead; fire sends a scheduled notice now", n.State)
				}

				return c.Resend(ctx, n, expiring(expires)...)
			})
		},
	}
	delayVar(c.Flags(), &expires, "expires", "new expiry, counted from now: 10m; required for expired notices")
	return a.withJSON(c)
}
