package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) cancel() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:               "cancel KEY...",
		Short:             "Cancel notices",
		Long:              "Cancels notices. Prints a note if an attempt was running, which may still reach the receiver.",
		Example:           "  notifier cancel app1:orders:paid:4711",
		Args:              takes(1, -1),
		ValidArgsFunction: a.noticeKeys(client.Scheduled),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd.Context(), args, "cancelled", func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				return c.Cancel(ctx, key)
			})
		},
	})
}
