package cli

import (
	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

func (a *command) erase() *cobra.Command {
	var key, host string
	c := &cobra.Command{
		Use:   "erase (--key KEY | --host HOST)",
		Short: "Erase the finalized notices of a key or a host, in the history and in Redis",
		Long: `Erases all history entries of one key, or of one called host, and the settled notices and
dead letters of it in Redis. Finalized notices still in the outbox are not recorded. A
pending notice stays: cancel it first. Notices finalized later are recorded again. The audit
shows that something was erased, but not the key or host. Only a backup can restore the
data. Exported copies are not erased.`,
		Example: "  notifier erase --key app1:orders:paid:4711\n  notifier erase --host shop.example",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			var e *client.Erased
			if key != "" {
				e, err = c.EraseKey(cmd.Context(), key)
			} else {
				e, err = c.EraseHost(cmd.Context(), host)
			}

			if err != nil {
				return err
			}
			if a.json {
				return a.sayJSON(e.JSON)
			}

			a.say("erased %s of the history, and %s in Redis\n", notice.Count(e.Rows, "row"), notice.Count(e.Redis, "notice"))
			if e.Pending > 0 {
				a.complain("the notice is pending and was not erased; cancel it and erase again")
			}

			return nil
		},
	}
	c.Flags().StringVar(&key, "key", "", "the key of a notice")
	c.Flags().StringVar(&host, "host", "", "a called host")
	a.either(c, false, "key", "host")
	c.MarkFlagsOneRequired("key", "host")
	return a.withJSON(c)
}
