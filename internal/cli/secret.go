package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) secret() *cobra.Command {
	var r client.Receiver
	c := &cobra.Command{
		Use:   "secret ROUTE [--host HOST | --audience NAME]",
		Short: "Print what to hand to a receiver to verify signatures with",
		Long: `Prints what a receiver of ROUTE needs to verify callbacks, for each scheme of the
route: headers, the signed text, the algorithm and the keys. For a route that signs
with standard alone it prints one key on each line: one for each of the route's
secrets, the newest first, so more than one while those are changed.

A route that signs with standard, stripe or github for each host (the default where
each notice brings its url) needs --host, one that signs for each audience
--audience. The other schemes have public keys, the same for all receivers.

Each receiver has keys of its own, derived from the route's secrets: none can
forge a callback for another. Never hand out the route's secret itself: whoever has
it can derive all the keys. So when receivers had it until now (SIGN_PER=route),
put a new one in front, and hand out the first line only. Needs the token of a
client that has no prefix and is not read-only.`,
		Example: `  notifier secret payments --host shop.example
  notifier secret refunds
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
			a.saySecrets(got)
			return nil
		},
	}
	c.Flags().StringVar(&r.Host, "host", "", "the receiver's host, as in its url: shop.example")
	c.Flags().StringVar(&r.Audience, "audience", "", "whom its notices name: m17")
	a.either(c, false, "host", "audience")
	return a.withJSON(c)
}

// saySecrets prints what a receiver needs. Of a route that signs with standard alone that is
// one key on each line, for scripts.
func (a *command) saySecrets(got *client.ReceiverSecret) {
	if len(got.Schemes) == 1 && got.Schemes[0].Scheme == "standard" {
		for _, s := range got.Secrets {
			a.say("%s\n", clean(s))
		}
		return
	}
	for i, s := range got.Schemes {
		if i > 0 {
			a.say("\n")
		}
		a.say("%s\n", a.screen.paint(clean(s.Scheme), bold))
		if len(s.Headers) > 0 {
			a.say("  headers    %s\n", clean(strings.Join(s.Headers, ", ")))
		}
		a.say("  signed     %s\n  algorithm  %s\n", clean(s.Signed), clean(s.Algorithm))
		if s.Warning != "" {
			a.say("  note       %s\n", clean(s.Warning))
		}
		a.sayKeys(got, &s)
	}
}

func (a *command) sayKeys(got *client.ReceiverSecret, s *client.ReceiverScheme) {
	for _, k := range s.Keys {
		use := "signs now"
		if !k.Signs {
			use = "published, does not sign"
		}
		a.say("  key        %s (%s)\n", clean(k.ID), use)
		if k.Standard != "" {
			a.say("  %s\n", clean(k.Standard))
		}
		for line := range strings.Lines(cmp.Or(k.Certificate, k.PublicKey)) {
			a.say("  %s\n", clean(strings.TrimSuffix(line, "\n")))
		}
	}
	if len(s.Keys) > 0 {
		return
	}
	if len(got.Secrets) == 0 {
		a.say("  key        the route's secret, which is in the configuration\n")
	}
	for i, secret := range got.Secrets {
		if i == 0 || s.Scheme != "github" { // github signs with the first one only
			a.say("  key        %s\n", clean(secret))
		}
	}
}
