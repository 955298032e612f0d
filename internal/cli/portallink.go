package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) portalLink() *cobra.Command {
	var r client.PortalLinkRequest
	var revoke string
	c := &cobra.Command{
		Use:   "portal-link [PREFIX | --prefix PREFIX]",
		Short: "Print a link to the pages for one merchant's support desk",
		Long: `Prints a link. It shows the notices under PREFIX, or only those for one host or one
audience. Pages show the --label in place of the client's name, and no names of routes.
The link allows no changes, except with --resend: then visitors may resend delivered and
dead notices of the --host, at most 10 a minute for all visitors of the link.

The link can be opened any number of times until it expires. Opening it sets a cookie, so that the link itself is not in the browser's history.
It never shows more than the client whose token created it may see, and ends with that
token. --revoke ends a link early, by the id that is printed with it and that notifier
audit shows.`,
		Example: `  notifier portal-link app1:trans --host shop.example --label "Shop Blue" --ttl 8h
  notifier portal-link app1:trans --host shop.example --resend
  notifier portal-link --prefix app1:trans --audience m17
  notifier portal-link --revoke K7QF2M5X6YATBWZC`,
		Args:              takes(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && r.Prefix != "" {
				return usage("want PREFIX once: as an argument or with --prefix")
			}

			if len(args) > 0 {
				r.Prefix = args[0]
			}

			switch {
			case revoke != "" && r != client.PortalLinkRequest{}:
				return usage("--revoke excludes PREFIX: want one of them")
			case revoke == "" && r.Prefix == "":
				return usage("want PREFIX, app, app:module or app:module:type; or --revoke")
			case r.Resend && r.Host == "":
				return usage("--resend needs --host: a link resends notices of one host only")
			}

			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			if revoke != "" {
				return a.revokeLink(cmd.Context(), c, revoke)
			}

			return a.makeLink(cmd.Context(), c, r)
		},
	}
	f := c.Flags()
	f.StringVar(&r.Prefix, "prefix", "", "only notices under this prefix: app, app:module or app:module:type")
	f.StringVar(&r.Host, "host", "", "only notices for this host: shop.example, without scheme, port and path")
	f.StringVar(&r.Audience, "audience", "", "only notices for this audience")
	f.StringVar(&r.Label, "label", "", "the merchant's name on the pages: \"Shop Blue\"")
	f.BoolVar(&r.Resend, "resend", false, "allow visitors to resend notices of --host")
	delayVar(f, &r.TTL, "ttl", "validity, 1m to 720h (default 8h)")
	f.StringVar(&revoke, "revoke", "", "id of a link to end")
	return a.withJSON(c)
}

func (a *command) revokeLink(ctx context.Context, c *client.Client, id string) error {
	if err := c.RevokePortalLink(ctx, id); err != nil {
		return err
	}

	if a.json {
		return a.sayValue(map[string]any{"id": id, "revoked": true})
	}

	a.say("%s: revoked\n", clean(id))
	return nil
}

func (a *command) makeLink(ctx context.Context, c *client.Client, r client.PortalLinkRequest) error {
	l, err := c.PortalLink(ctx, r)
	if err != nil {
		return err
	}

	if l.Warning != "" {
		a.complain("warning: %s", clean(l.Warning))
	}

	if a.json {
		return a.sayJSON(l.JSON)
	}

	a.complain("valid until %s; notifier portal-link --revoke %s ends it early", a.screen.when(l.ExpiresAt), clean(l.ID))
	a.say("%s\n", clean(l.URL))
	return nil
}
