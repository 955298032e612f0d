package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) resume() *cobra.Command {
	return a.withJSON(a.turn("resume", "Resume a route: due notices are delivered within its rate and concurrency",
		func(ctx context.Context, c *client.Client, name string) (*client.Route, error) {
			return c.Resume(ctx, name)
		}))
}
