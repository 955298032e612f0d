package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) putOff() *cobra.Command {
	return a.report("defer", "Put off a notice taken from a list or stream; uses no attempt", "put off",
		func(c *cobra.Command, r *client.Report) {
			delayVar(c.Flags(), &r.After, "after", "how much later: 30s, 5m")
		},
		func(ctx context.Context, c *client.Client, key string, r client.Report) (*client.Notice, error) {
			return c.Defer(ctx, key, r)
		})
}
