package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) reschedule() *cobra.Command {
	var x client.Address
	var headers []string
	c := &cobra.Command{
		Use:   "reschedule KEY...",
		Short: "Change the due time, the url or the headers of notices",
		Long: `Changes the due time of scheduled notices, or the address of scheduled and dead ones. A new
address needs the role operate. To another host, the notice's Authorization, Cookie and Proxy-*
headers are dropped, unless --header or --keep-headers is given. Use redirect for all notices
of an address.`,
		Example: `  notifier reschedule app1:orders:paid:4711 --delay 2h
  notifier reschedule app1:orders:paid:4711 --due 2026-12-24T18:00:00Z
  notifier reschedule app1:orders:paid:4711 --url https://new.example/hook --header x-tenant=7`,
		Args:              takes(1, -1),
		ValidArgsFunction: a.noticeKeys(client.Scheduled),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			addressed := given("url") || given("header")
			switch {
			case given("url") && x.URL == "":
				return usage("--url: want an address")
			case !addressed && !given("delay") && !given("due"):
				return usage("want --delay or --due, --url, or --header")
			case x.KeepHeaders && (given("header") || !given("url")):
				return usage("--keep-headers needs --url, and no --header")
			}

			var err error
			if x.Headers, err = headerFlags(headers); err != nil {
				return err
			}

			verb := "rescheduled"
			if addressed {
				verb = "changed"
			}

			return a.each(cmd.Context(), args, verb, func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				switch {
				case addressed:
					return c.Readdress(ctx, key, x)
				case given("due"):
					return c.Reschedule(ctx, key, x.Due)
				}
				return c.RescheduleIn(ctx, key, x.Delay)
			})
		},
	}
	f := c.Flags()
	delayVar(f, &x.Delay, "delay", "time from now: 15s, 3m, 1h30m")
	a.instantVar(f, &x.Due, "due", "due time: 2026-12-24T18:00:00Z, 18:00 (the next, in the zone of TZ), tomorrow 09:30")
	f.StringVar(&x.URL, "url", "", "new address")
	f.StringArrayVar(&headers, "header", nil, "header in place of those that the notice has, name=value; may be repeated")
	f.BoolVar(&x.KeepHeaders, "keep-headers", false, "keep Authorization, Cookie and Proxy-* headers when the host changes")
	a.either(c, false, "delay", "due")
	return a.withJSON(c)
}
