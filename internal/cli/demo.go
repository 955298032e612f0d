package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) demo() *cobra.Command {
	o := DemoOptions{Version: a.Version, Stdout: a.Stdout, Stderr: a.Stderr}
	c := &cobra.Command{
		Use:   "demo",
		Short: "See it work: a receiver that fails at first, and a ladder in seconds",
		Long: `Starts a Redis (the redis-server on PATH, or else one within the process, which
says so), the service and a receiver that refuses each notice at first, and shows
each notice's way. Nothing is left behind.`,
		Example: `  notifier demo
  notifier demo --notices 20 --fail 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Notices < 1 || o.Notices > 10_000 || o.Fail < 0 || o.Fail > 5 {
				return usage("want 1 to 10000 --notices and 0 to 5 --fail")
			}
			if a.deps.Demo == nil {
				return errors.New("this build has no demo")
			}
			return a.deps.Demo(cmd.Context(), o)
		},
	}
	c.Flags().IntVar(&o.Notices, "notices", 5, "how many notices")
	c.Flags().IntVar(&o.Fail, "fail", 2, "how often the receiver refuses each of them")
	c.Flags().BoolVar(&o.Emulated, "emulated", false, "use the Redis within the process even if there is a redis-server")
	return c
}
