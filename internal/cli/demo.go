package cli

import "github.com/spf13/cobra"

func (a *command) demo() *cobra.Command {
	o := DemoOptions{Version: a.Version, Stdout: a.Stdout, Stderr: a.Stderr}
	c := &cobra.Command{
		Use:   "demo",
		Short: "See it work: a receiver that fails at first, and a ladder in seconds",
		Long: `Starts a Redis (redis-server if it is on PATH, else an emulation in the process), the
service, and a receiver that refuses some notices at first. Prints the timeline of each
notice; one becomes a dead letter. The exit code is 0 only if all outcomes are as expected.
--keep runs until Ctrl-C instead, with four routes, steady traffic, a receiver that fails
and one that hangs, and prints the address of the dashboard. No data is kept.`,
		Example: `  notifier demo
  notifier demo --keep
  notifier demo --emulated`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			run := a.deps.Demo
			if run == nil {
				run = runDemo
			}

			return run(cmd.Context(), o)
		},
	}
	c.Flags().BoolVar(&o.Keep, "keep", false, "keep running with traffic and a dashboard until Ctrl-C")
	c.Flags().BoolVar(&o.Emulated, "emulated", false, "use the emulated Redis even if redis-server is installed")
	return c
}
