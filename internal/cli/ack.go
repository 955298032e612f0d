package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) ack() *cobra.Command {
	return a.report("ack", "Report a notice taken from a list or stream as done", "acknowledged", nil,
		func(ctx context.Context, c *client.Client, key string, r client.Report) (*client.Notice, error) {
			return c.Ack(ctx, key, r)
		})
}
