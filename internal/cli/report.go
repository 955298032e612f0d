package cli

import (
	"context"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) report(verb, about, done string, extra func(*cobra.Command, *client.Report),
	call func(context.Context, *client.Client, string, client.Report) (*client.Notice, error),
) *cobra.Command {
	var r client.Report
	c := &cobra.Command{
		Use:   verb + " KEY --attempt N --id ID",
		Short: about,
		Long: about + `.

KEY, the attempt's number and the id are those of the entry: the members key, attempt
and id of a list's element, the fields with these names of a stream's entry, and
$NOTICE_KEY, $NOTICE_ATTEMPT and $NOTICE_ID in a command of notifier consume. If another
notice has the key now, or the attempt is over, nothing changes and the exit code is 1.
Repeating the same report is no failure.`,
		Example:           "  notifier " + verb + " app1:jobs:mail:4711 --attempt 1 --id msg_3f1c0f9aa0b64be1a0f4c2d8e7",
		Args:              takes(1, 1),
		ValidArgsFunction: once(a.noticeKeys(client.Claimed)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd.Context(), args, done, func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				return call(ctx, c, key, r)
			})
		},
	}
	c.Flags().IntVar(&r.Attempt, "attempt", 0, "the attempt's number, from the entry")
	c.Flags().StringVar(&r.ID, "id", "", "the notice's id, from the entry")
	c.Flags().StringVar(&r.Response, "response", "", "text to keep with the attempt")
	_ = c.MarkFlagRequired("attempt") // they are defined above
	_ = c.MarkFlagRequired("id")
	if extra != nil {
		extra(c, &r)
	}

	return a.withJSON(c)
}
