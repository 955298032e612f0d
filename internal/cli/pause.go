package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) pause() *cobra.Command {
	return a.withJSON(a.turn("pause", "Pause a route: notices are kept and not sent",
		func(ctx context.Context, c *client.Client, name string) (*client.Route, error) {
			return c.Pause(ctx, name)
		}))
}

func (a *command) turn(verb, about string, call func(context.Context, *client.Client, string) (*client.Route, error)) *cobra.Command {
	return &cobra.Command{
		Use:               verb + " ROUTE",
		Short:             about,
		Example:           "  notifier " + verb + " orders",
		Args:              takes(1, 1),
		ValidArgsFunction: once(a.routeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			r, err := call(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.sayJSON(r.JSON)
			}
			a.say("route %s is %s\n", r.Name, map[bool]string{true: "paused", false: "running"}[r.Paused])
			return nil
		},
	}
}
