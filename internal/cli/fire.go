package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) fire() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:               "fire KEY...",
		Short:             "Make notices due now",
		Example:           "  notifier fire app1:orders:paid:4711",
		Args:              takes(1, -1),
		ValidArgsFunction: a.noticeKeys(client.Scheduled),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd.Context(), args, "fired", func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				return c.Fire(ctx, key)
			})
		},
	})
}
