package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) cancel() *cobra.Command {
	r := client.JobRequest{Kind: client.JobCancel}
	var yes, detach bool
	c := &cobra.Command{
		Use:   "cancel [KEY...]",
		Short: "Cancel notices: some, or all pending ones under a prefix",
		Long: `Cancels notices. Prints a note if an attempt was running, which may still reach the receiver.

With --prefix it cancels all pending notices that match, at a rate, after it has counted them
and asked (--yes does not ask). --since and --until are due times. Notices with an attempt in
flight stay and are counted. The command shows the progress. The service continues if the
command ends (--detach: at once); notifier jobs shows, stops and resumes it.`,
		Example: `  notifier cancel app1:orders:paid:4711
  notifier cancel --prefix app1:orders --host shop.example --dry-run
  notifier cancel --prefix app1:orders --until 2026-11-21T00:00:00Z --rate 100/s --yes`,
		ValidArgsFunction: a.noticeKeys(client.Scheduled),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch filters := r != (client.JobRequest{Kind: client.JobCancel}) || yes || detach; {
			case r.Prefix != "" && len(args) > 0:
				return usage("want either keys or --prefix, not both")
			case r.Prefix != "":
				return a.beginJob(cmd.Context(), r, yes, detach)
			case filters:
				return usage("the flags need --prefix")
			case len(args) == 0:
				return usage("want the keys of notices, or --prefix")
			}

			return a.each(cmd.Context(), args, "cancelled", func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				return c.Cancel(ctx, key)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&r.Prefix, "prefix", "", "cancel all pending notices with this prefix: app, app:module or app:module:type")
	f.StringVar(&r.Host, "host", "", "only notices for this host, such as shop.example")
	a.instantVar(f, &r.Since, "since", "only notices due from this time on")
	a.instantVar(f, &r.Until, "until", "only notices due before this time")
	f.StringVar(&r.Rate, "rate", "", "changes in a second, minute or hour (default 100/s)")
	f.BoolVar(&r.DryRun, "dry-run", false, "only count")
	f.BoolVar(&yes, "yes", false, "do not ask")
	f.BoolVar(&detach, "detach", false, "start and do not wait for the end")
	a.either(c, false, "dry-run", "detach")
	return a.withJSON(c)
}
