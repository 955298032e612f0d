package cli

import (
	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

func (a *command) forget() *cobra.Command {
	var audience, id string
	var lift, yes bool
	c := &cobra.Command{
		Use:   "forget (--audience NAME | --id app:module:ID)",
		Short: "Make the sealed notices of an audience or id unreadable for good",
		Long: `Deletes the keys that seal the notices of an audience or id, on routes with SEAL for
each of them. Nobody can read their bodies, headers, credentials and answers any more. Pending
notices are cancelled by a job, and new ones get 410 until --lift. The command takes 4
seconds and names the instances that may still use the keys: repeat it then. It may also be
repeated after an error. Backups and Redis's append-only file still have the keys for a
while: see docs/security.md.

--lift takes new notices again, with new keys. The old ones stay unreadable.`,
		Example: `  notifier forget --audience m17
  notifier forget --id app1:orders:4711 --yes
  notifier forget --audience m17 --lift`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			switch ctx := cmd.Context(); {
			case lift && id != "":
				return callAndSay(ctx, c.LiftID, id, a.sayLifted)
			case lift:
				return callAndSay(ctx, c.LiftAudience, audience, a.sayLifted)
			case !yes && !a.agrees("delete the keys of "+audience+id+"? Nothing can restore the content of its notices."):
				return usage("nothing was changed; want yes, or --yes without a terminal")
			case id != "":
				return callAndSay(ctx, c.ForgetID, id, a.sayForgotten)
			default:
				return callAndSay(ctx, c.ForgetAudience, audience, a.sayForgotten)
			}
		},
	}
	c.Flags().StringVar(&audience, "audience", "", "an audience: m17")
	c.Flags().StringVar(&id, "id", "", "a business id with app and module: app1:orders:4711")
	c.Flags().BoolVar(&lift, "lift", false, "take new notices of it again")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	a.either(c, false, "audience", "id")
	c.MarkFlagsOneRequired("audience", "id")
	return a.withJSON(c)
}

func (a *command) sayForgotten(f *client.Forgotten) error {
	if a.json {
		return a.sayJSON(f.JSON)
	}

	a.say("%s is forgotten since %s; %s deleted, notifier jobs %s shows the cancels\n", f.Subject, a.screen.when(f.ForgottenAt),
		notice.Count(f.Keys, "data key"), f.Job)
	for _, x := range f.Missing {
		a.complain("the instance %s (%s, %s) may still use the keys; end it, or repeat the command", x.Label, x.ID, x.State)
	}

	return nil
}

func (a *command) sayLifted(l *client.Lifted) error {
	switch {
	case a.json:
		return a.sayJSON(l.JSON)
	case l.Changed:
		a.say("%s takes new notices again\n", l.Subject)
	default:
		a.say("%s was not forgotten\n", l.Subject)
	}

	return nil
}
