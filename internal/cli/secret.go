package cli

import (
	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) secret() *cobra.Command {
	var r client.Receiver
	c := &cobra.Command{
		Use:   "secret ROUTE --host HOST | --audience NAME",
		Short: "Print what to hand to a receiver to verify signatures with",
		Long: `Prints the keys of one receiver of ROUTE, which signs for each host (the default
where each notice brings its url) or each audience: one line for each of the
route's secrets, the newest first, so more than one while those are changed.

Each receiver has keys of its own, derived from the route's secrets: none can
forge a callback for another. Never hand out the route's secret itself: whoever has
it can derive all the keys. So when receivers had it until now (SIGN_PER=route),
put a new one in front, and hand out the first line only. Needs the token of a
client that has no prefix and is not read-only.`,
		Example: `  notifier secret payments --host shop.example
  notifier secret platform --audience m17`,
		Args:              takes(1, 1),
		ValidArgsFunction: once(a.routeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			r.Route = args[0]
			got, err := c.ReceiverSecret(cmd.Context(), r)
			if err != nil {
				return err
			}
			if a.json {
				return a.sayJSON(got.JSON)
			}
			for _, s := range got.Secrets {
				a.say("%s\n", clean(s))
			}
			return nil
		},
	}
	c.Flags().StringVar(&r.Host, "host", "", "the receiver's host, as in its url: shop.example")
	c.Flags().StringVar(&r.Audience, "audience", "", "whom its notices name: m17")
	a.either(c, true, "host", "audience")
	return a.withJSON(c)
}
