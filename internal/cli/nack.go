package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) nack() *cobra.Command {
	return a.report("nack", "Report a notice taken from a list or stream as failed", "reported as failed",
		func(c *cobra.Command, r *client.Report) {
			c.Flags().BoolVar(&r.Permanent, "permanent", false, "no further attempt: the notice is dead")
		},
		func(ctx context.Context, c *client.Client, key string, r client.Report) (*client.Notice, error) {
			return c.Nack(ctx, key, r)
		})
}
