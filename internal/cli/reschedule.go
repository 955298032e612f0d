package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) reschedule() *cobra.Command {
	var delay time.Duration
	var due time.Time
	c := &cobra.Command{
		Use:   "reschedule KEY...",
		Short: "Change the due time of notices",
		Example: `  notifier reschedule app1:orders:paid:4711 --delay 2h
  notifier reschedule app1:orders:paid:4711 --due 2026-12-24T18:00:00Z`,
		Args:              takes(1, -1),
		ValidArgsFunction: a.noticeKeys(client.Scheduled),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(cmd.Context(), args, "rescheduled", func(ctx context.Context, c *client.Client, key string) (*client.Notice, error) {
				if cmd.Flags().Changed("due") {
					return c.Reschedule(ctx, key, due)
				}
				return c.RescheduleIn(ctx, key, delay)
			})
		},
	}
	delayVar(c.Flags(), &delay, "delay", "time from now: 15s, 3m, 1h30m")
	a.instantVar(c.Flags(), &due, "due", "due time: 2026-12-24T18:00:00Z, 18:00 (the next, in the zone of TZ), tomorrow 09:30")
	a.either(c, true, "delay", "due")
	return a.withJSON(c)
}
