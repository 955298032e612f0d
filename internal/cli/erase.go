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
		Short: "Erase what has ended of a key or a host, from the history and from Redis",
		Long: `Erases every row of the history of one key, or of one host that was called, and the
settled notices and dead letters of it that Redis still keeps; what is on its way to
the history gets no row. A notice that is pending stays: cancel it first. What ends
later is kept again. The audit tells that something was erased, and not what. Nothing
brings it back but a backup; copies that were exported are yours to erase.`,
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
				a.complain("the notice is pending, and stays: cancel it and erase again")
			}
			return nil
		},
	}
	c.Flags().StringVar(&key, "key", "", "the key of a notice")
	c.Flags().StringVar(&host, "host", "", "a host that was called")
	c.MarkFlagsMutuallyExclusive("key", "host")
	c.MarkFlagsOneRequired("key", "host")
	return a.withJSON(c)
}
