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
		Short: "Print the keys with which a receiver verifies signatures",
		Long: `Prints what a receiver of ROUTE needs to verify callbacks, for each scheme of the route:
headers, the signed text, the algorithm and the keys. For a route that signs only with
standard it prints one key a line, one for each of the route's secrets, newest first. During
a rotation there are several.

A route that signs with standard, stripe, github, sorted or sorted-jeepay for each host (the
default if each notice has its url) needs --host; one that signs for each audience needs --audience. The other
schemes have public keys, the same for all receivers.

Each receiver has separate keys, derived from the route's secrets, so that none can forge a
callback for another. Never hand out the route's secret itself: all keys can be derived from
it. If receivers had it until now (SIGN_PER=route), put a new secret first and hand out only
the first line. Needs the token of a client without a prefix and with a role above read.`,
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
	c.Flags().StringVar(&r.Audience, "audience", "", "the audience of its notices: m17")
	a.either(c, false, "host", "audience")
	return a.withJSON(c)
}

// saySecrets prints the keys for a receiver. For a route that signs only with standard it prints one key a line, for
// scripts.
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

	if s.TextKey != "" {
		a.say("  key        %s\n", clean(s.TextKey))
		return
	}

	if len(got.Secrets) == 0 {
		a.say("  key        the route's secret, see the configuration\n")
	}

	for i, secret := range got.Secrets {
		if i == 0 || s.Scheme != "github" { // github signs only with the first key
			a.say("  key        %s\n", clean(secret))
		}
	}
}
