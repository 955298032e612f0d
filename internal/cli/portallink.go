package cli

import (
	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) portalLink() *cobra.Command {
	var r client.PortalLinkRequest
	var revoke string
	c := &cobra.Command{
		Use:   "portal-link [PREFIX]",
		Short: "Print a link to the pages for one merchant's support desk",
		Long: `Prints a link. Whoever opens it sees the notices under PREFIX, and of them, if given,
those that go to one host or are for one audience, and can change nothing. It may be
opened any number of times until it ends; what opens it is a cookie, so that the link
itself stays in no history. It is no wider than the client whose token makes it,
and ends with that token. --revoke ends one early, by the id that is printed with it and
that notifier audit shows.`,
		Example: `  notifier portal-link app1:trans --host shop.example --ttl 8h
  notifier portal-link app1:trans --audience m17
  notifier portal-link --revoke K7QF2M5X6YATBWZC`,
		Args:              takes(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case revoke != "" && (len(args) > 0 || r != client.PortalLinkRequest{}):
				return usage("--revoke goes alone: want either it, or PREFIX")
			case revoke == "" && len(args) == 0:
				return usage("want PREFIX, app, app:module or app:module:type; or --revoke")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			if revoke != "" {
				if err := c.RevokePortalLink(cmd.Context(), revoke); err != nil {
					return err
				}
				if a.json {
					return a.sayValue(map[string]any{"id": revoke, "revoked": true})
				}
				a.say("%s: revoked\n", clean(revoke))
				return nil
			}
			r.Prefix = args[0]
			l, err := c.PortalLink(cmd.Context(), r)
			if err != nil {
				return err
			}
			if l.Warning != "" {
				a.complain("warning: %s", clean(l.Warning))
			}
			if a.json {
				return a.sayJSON(l.JSON)
			}
			a.complain("good until %s; notifier portal-link --revoke %s ends it early", a.screen.when(l.ExpiresAt), clean(l.ID))
			a.say("%s\n", clean(l.URL))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&r.Host, "host", "", "only notices that go to this host: shop.example, without scheme, port and path")
	f.StringVar(&r.Audience, "audience", "", "only notices that are for this audience")
	delayVar(f, &r.TTL, "ttl", "how long it is good, 1m to 720h (default 8h)")
	f.StringVar(&revoke, "revoke", "", "id of a link to end")
	return a.withJSON(c)
}
