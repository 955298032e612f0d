package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

func (a *command) redirect() *cobra.Command {
	var r client.RedirectRequest
	var stop, resume, detach bool
	c := &cobra.Command{
		Use:   "redirect [FROM TO | ID]",
		Short: "Change the address of all pending notices of a receiver that has moved",
		Long: `Gives pending notices, also those that wait for a retry, the address TO instead of FROM.
FROM matches addresses with its scheme, host and port, and with its path or a path under it;
the rest of the path and the query stay. With --host instead of FROM, all addresses of the host
match. Notices in flight are changed before their next attempt. webhook-id and attempts stay.
To another host, the notices' Authorization, Cookie and Proxy-* headers are dropped
(--keep-headers). Notices scheduled afterwards are not changed.

The command shows the progress. The service continues if the command ends (--detach: at once).
With an ID the command shows a redirect's progress; --stop stops it, --resume continues it.
Without arguments it lists the redirects.

Use reschedule --url for one notice.`,
		Example: `  notifier redirect https://shop.example/hooks https://new.example/hooks --dry-run
  notifier redirect https://new.example --host shop.example --prefix app1:orders
  notifier redirect rdr_5xkq7n4m2v6t3w8y9z0a --stop
  notifier redirect`,
		Args:              takes(0, 2),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.From, r.To = "", ""
			asked := len(args) == 2 || len(args) == 1 && r.Host != ""
			if asked {
				r.To = args[len(args)-1]
			}

			if len(args) == 2 {
				r.From = args[0]
			}

			if err := checkRedirect(r, args, asked, stop || resume); err != nil {
				return err
			}

			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			switch {
			case asked:
				return a.beginRedirect(cmd.Context(), c, r, detach)
			case len(args) == 0:
				return a.listRedirects(cmd.Context(), c)
			case stop:
				return callAndSay(cmd.Context(), c.StopRedirect, args[0], a.sayRedirect)
			case resume:
				return callAndSay(cmd.Context(), c.ResumeRedirect, args[0], a.sayRedirect)
			}

			return callAndSay(cmd.Context(), c.ReadRedirect, args[0], a.sayRedirect)
		},
	}
	f := c.Flags()
	f.StringVar(&r.Prefix, "prefix", "", "only keys with this prefix: app, app:module or app:module:type")
	f.StringVar(&r.Audience, "audience", "", "only notices of this audience")
	f.StringVar(&r.Host, "host", "", "only notices of this host: name or name:port")
	f.BoolVar(&r.KeepHeaders, "keep-headers", false, "keep Authorization, Cookie and Proxy-* headers when the host changes")
	f.BoolVar(&r.DryRun, "dry-run", false, "only count")
	f.BoolVar(&detach, "detach", false, "start and do not wait for the end")
	f.BoolVar(&stop, "stop", false, "stop the redirect of the ID")
	f.BoolVar(&resume, "resume", false, "continue the stopped redirect of the ID")
	a.either(c, false, "stop", "resume")
	a.either(c, false, "dry-run", "detach")
	return a.withJSON(c)
}

// checkRedirect checks the arguments of the command. asked: they describe a new redirect. turned: --stop or --resume is
// given.
func checkRedirect(r client.RedirectRequest, args []string, asked, turned bool) error {
	switch {
	case asked && turned:
		return usage("--stop and --resume take the ID of a redirect")
	case !asked && turned && len(args) == 0:
		return usage("want the ID of a redirect: notifier redirect lists them")
	case !asked && r != client.RedirectRequest{}:
		return usage("want FROM and TO, or TO and --host")
	}
	return nil
}

// beginRedirect starts a redirect and waits for its end.
func (a *command) beginRedirect(ctx context.Context, c *client.Client, r client.RedirectRequest, detach bool) error {
	x, err := c.Redirect(ctx, r)
	if err != nil {
		return err
	}
	if r.DryRun {
		return a.sayRedirectPlan(x)
	}
	if detach {
		return a.sayRedirect(x)
	}

	bar := a.bar(max(x.Total, 1), "redirecting", "notices")
	err = a.follow(ctx, "redirect", x.ID, x.State == client.RedirectRunning, func() (bool, error) {
		next, err := c.ReadRedirect(ctx, x.ID)
		if err != nil {
			return false, err
		}

		x = next
		bar.ChangeMax64(max(x.Total, 1))
		_ = bar.Set64(x.Seen) // only drawing can fail
		return x.State == client.RedirectRunning, nil
	})
	if err != nil {
		return err
	}

	_ = bar.Finish()
	return a.sayRedirect(x)
}

// sayRedirectPlan prints the result of a dry run.
func (a *command) sayRedirectPlan(x *client.Redirect) error {
	if a.json {
		return a.sayJSON(x.JSON)
	}

	more := ""
	if !x.Complete {
		more = ", and there may be more: not all were read within 5 seconds"
	}

	a.say("found %s; without --dry-run %d of them would be redirected%s\n", notice.Count(x.Found, "notice"), x.Found-x.Refused, more)
	a.sayRefused(x)
	return nil
}

func (a *command) sayRefused(x *client.Redirect) {
	if x.Refused > 0 {
		a.say("refused: %d, whose route does not take the new address\n", x.Refused)
	}
}

// sayRedirect prints the progress of a redirect.
func (a *command) sayRedirect(x *client.Redirect) error {
	if a.json {
		if err := a.sayJSON(x.JSON); err != nil {
			return err
		}
	} else {
		a.say("%s: %s, %d redirected, %d in flight\n", clean(x.ID), x.State, x.Redirected, x.InFlight)
		a.sayRefused(x)
		if x.State == client.RedirectStopped {
			a.say("notifier redirect %s --resume continues it\n", clean(x.ID))
		}
	}

	if x.State == client.RedirectFailed {
		return fmt.Errorf("the redirect failed: %s", x.Reason)
	}

	return nil
}

func (a *command) listRedirects(ctx context.Context, c *client.Client) error {
	list, err := c.Redirects(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.sayJSON(list.JSON)
	}

	rows := [][]cell{head("MADE\tID\tSTATE\tREDIRECTED\tIN FLIGHT\tREFUSED\tFROM\tTO")}
	for i := range list.Items {
		x := &list.Items[i]
		from := x.From
		if from == "" {
			from = x.Host
		}

		rows = append(rows, row(a.screen.near(x.CreatedAt), x.ID, string(x.State), x.Redirected, x.InFlight, x.Refused, from, x.To))
	}

	a.screen.table(true, rows...)
	return nil
}
