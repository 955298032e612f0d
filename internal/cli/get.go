package cli

import (
	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) get() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "get KEY",
		Short: "Show a notice: state, due time, and each attempt with its answer",
		Example: `  notifier get app1:orders:paid:4711
  notifier get app1:orders:paid:4711 --json | jq .attempts`,
		Args:              takes(1, 1),
		ValidArgsFunction: once(a.noticeKeys("")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.one(func(c *client.Client) (*client.Notice, error) { return c.Get(cmd.Context(), args[0]) }, nil)
		},
	})
}
