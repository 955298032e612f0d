package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) pause() *cobra.Command {
	var r receiverTimes
	c := a.turn("pause", "Pause a route or a receiver: notices are kept and not sent",
		func(ctx context.Context, c *client.Client, name string) (*client.Route, error) {
			return c.Pause(ctx, name)
		}, func(cmd *cobra.Command, args []string) (bool, error) {
			receiver, err := named(r.ReceiverName, args)
			if err != nil || !receiver {
				return false, err
			}

			return true, a.pauseReceiver(cmd, r)
		})
	c.Long = `Pauses a route, or one receiver of all routes: a host, one port of it, an audience, or an
audience at a host.
Running attempts complete. --until ends the pause of a receiver by itself.`
	c.Example += "\n  notifier pause --host shop.example --until 06:00\n  notifier pause --host shop.example:8443\n  notifier pause " +
		"--audience m17"
	receiverVar(c.Flags(), &r.ReceiverName, true)
	a.instantVar(c.Flags(), &r.until, "until", "end of the pause of a receiver: 2026-12-24T18:00:00Z, 18:00 (the next, in the zone of TZ)")
	delayVar(c.Flags(), &r.over, "over", "after --until, spread the held notices over this time")
	return a.withJSON(c)
}

// turn returns a command that changes a route with call. receiver makes the command on a receiver instead, and reports
// whether it did.
func (a *command) turn(verb, about string, call func(context.Context, *client.Client, string) (*client.Route, error),
	receiver func(cmd *cobra.Command, args []string) (done bool, err error)) *cobra.Command {
	return &cobra.Command{
		Use:               verb + " [ROUTE]",
		Short:             about,
		Example:           "  notifier " + verb + " orders",
		Args:              takes(0, 1),
		ValidArgsFunction: once(a.routeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if done, err := receiver(cmd, args); done || err != nil {
				return err
			}

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
