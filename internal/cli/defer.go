package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) putOff() *cobra.Command {
	return a.report("defer", "Defer a notice taken from a list or stream; uses no attempt", "deferred",
		func(c *cobra.Command, r *client.Report) {
			delayVar(c.Flags(), &r.After, "after", "delay: 30s, 5m")
		},
		func(ctx context.Context, c *client.Client, key string, r client.Report) (*client.Notice, error) {
			return c.Defer(ctx, key, r)
		})
}
