package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) resume() *cobra.Command {
	var r receiverTimes
	c := a.turn("resume", "Resume a route or a receiver",
		func(ctx context.Context, c *client.Client, name string) (*client.Route, error) {
			return c.Resume(ctx, name)
		}, func(cmd *cobra.Command, args []string) (bool, error) {
			receiver, err := named(r.ReceiverName, args)
			if err != nil || !receiver {
				return false, err
			}

			return true, a.resumeReceiver(cmd, r)
		})
	c.Long = `Resumes a route or a receiver. Due notices are delivered within the limits of rate and
concurrency. --over spreads the held notices of a receiver evenly. Name a receiver as it was paused.`
	c.Example += "\n  notifier resume --host shop.example --over 30m"
	receiverVar(c.Flags(), &r.ReceiverName, true)
	delayVar(c.Flags(), &r.over, "over", "spread the held notices of a receiver over this time (default: at once)")
	return a.withJSON(c)
}
