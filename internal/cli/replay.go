package cli

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

func (a *command) replay() *cobra.Command {
	var r client.ReplayRequest
	var stop, resume, detach bool
	c := &cobra.Command{
		Use:   "replay [ID]",
		Short: "Send delivered and dead notices of a time window again",
		Long: `Sends the notices that were finalized in a window again, from the service's history. Each
is sent once, under its key, with its webhook-id, so that receivers recognise it (--new-ids:
with a new id), and with the header notifier-replay. A key with a pending notice is skipped.
A command repeated with the same --id and arguments shows the existing replay. The command
counts first and then shows the progress. The service continues if the command ends
(--detach: at once). --dry-run only counts, and shows notices whose host has changed.

With an ID the command shows a replay's progress; --stop stops it, --resume continues it.
Without arguments it lists the replays of the last 30 days. If several clients have used
the same id, CLIENT:ID names one.

Use resend for one delivered or dead notice, and redrive for the dead letters of a route.`,
		Example: `  notifier replay --since 2026-11-17T12:00:00Z --until 2026-11-17T18:00:00Z --host shop.example --dry-run
  notifier replay --since 6h --prefix app1:orders --outcome dead --rate 20/s
  notifier replay rpl_5xkq7n4m2v6t3w8y9z0a --stop
  notifier replay`,
		Args:              takes(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := detach || !reflect.ValueOf(r).IsZero()
			if err := checkReplay(r, len(args) > 0, asked, stop || resume); err != nil {
				return err
			}

			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			switch {
			case asked:
				return a.beginReplay(cmd.Context(), c, r, detach)
			case len(args) == 0:
				return a.listReplays(cmd.Context(), c)
			case stop:
				return callAndSay(cmd.Context(), c.StopReplay, args[0], a.sayReplay)
			case resume:
				return callAndSay(cmd.Context(), c.ResumeReplay, args[0], a.sayReplay)
			}

			return callAndSay(cmd.Context(), c.ReadReplay, args[0], a.sayReplay)
		},
	}
	f := c.Flags()
	a.agoVar(f, &r.Since, "since", "finalized from this time, or this long ago: 2026-11-21T00:00:00Z, 14:00, yesterday, 24h")
	a.agoVar(f, &r.Until, "until", "finalized before this time, or this long ago (default: now)")
	f.StringVar(&r.Prefix, "prefix", "", "only keys with this prefix: app, app:module or app:module:type")
	f.StringVar(&r.Host, "host", "", "the called host")
	f.Var(states{&r.Outcome}, "outcome", "last outcome: delivered, dead or both (default: both)")
	f.StringVar(&r.Rate, "rate", "", "notices in a second, minute or hour (default 50/s)")
	f.StringVar(&r.ID, "id", "", "names the replay, so that the command may be repeated; needs times, not ages")
	f.BoolVar(&r.NewIDs, "new-ids", false, "give each a new webhook-id")
	f.BoolVar(&r.DryRun, "dry-run", false, "only count")
	f.BoolVar(&detach, "detach", false, "start and do not wait for the end")
	f.BoolVar(&stop, "stop", false, "stop the replay of the ID")
	f.BoolVar(&resume, "resume", false, "continue the stopped replay of the ID")
	a.either(c, false, "stop", "resume")
	a.either(c, false, "dry-run", "detach")
	return a.withJSON(c)
}

// beginReplay counts, starts, and waits for the end.
func (a *command) beginReplay(ctx context.Context, c *client.Client, r client.ReplayRequest, detach bool) error {
	x, err := c.Replay(ctx, r)
	if err != nil {
		return err
	}
	if r.DryRun {
		return a.sayDryRun(x)
	}

	if !a.json {
		a.say("%s: found %s; sending %d of them at %s\n", x.ID, notice.Count(x.Found, "notice"), x.Total, x.Rate)
		a.sayCounts("cannot be sent again", x.Refused)
		a.sayDiffers(x)
	}

	if detach {
		if a.json {
			return a.sayJSON(x.JSON)
		}
		return nil
	}

	return a.followReplay(ctx, c, x)
}

// checkReplay checks the arguments of the command. asked: they describe a new replay. turned: --stop or --resume is
// given.
func checkReplay(r client.ReplayRequest, id, asked, turned bool) error {
	switch {
	case id && asked:
		return usage("an ID takes only --stop or --resume")
	case !id && turned:
		return usage("want the ID of a replay: notifier replay lists them")
	case asked && r.Since.IsZero():
		return usage("want --since, the beginning of the window")
	}
	return nil
}

// sayDryRun prints the notices that a replay would send.
func (a *command) sayDryRun(x *client.Replay) error {
	if a.json {
		return a.sayJSON(x.JSON)
	}

	a.say("found %s; without --dry-run %d of them would be sent at %s\n", notice.Count(x.Found, "notice"), x.Total, x.Rate)
	for _, h := range x.Hosts {
		a.say("%d to %s\n", h.Notices, dash(clean(h.Host)))
	}

	a.sayCounts("cannot be sent again", x.Refused)
	a.sayDiffers(x)
	return nil
}

// followReplay shows the progress of a replay until it ends.
func (a *command) followReplay(ctx context.Context, c *client.Client, x *client.Replay) error {
	bar := a.bar(x.Total, "replaying", "notices")
	err := a.follow(ctx, "replay", x.ID, x.State == client.ReplayRunning, func() (bool, error) {
		next, err := c.ReadReplay(ctx, x.ID)
		if err != nil {
			return false, err
		}

		x = next
		_ = bar.Set64(x.Total - x.Left) // only drawing can fail
		return x.State == client.ReplayRunning, nil
	})
	if err != nil {
		return err
	}

	_ = bar.Finish()
	return a.sayReplay(x)
}

// follow reads a replay, a redirect or a job until it is over. what is the command that shows it. read reports whether it is still running.
func (a *command) follow(ctx context.Context, what, id string, running bool, read func() (bool, error)) error {
	for running {
		select {
		case <-ctx.Done():
			a.complain("\nthe %s continues in the service; notifier %s %s --stop stops it", strings.TrimSuffix(what, "s"), what, clean(id))
			return ctx.Err()
		case <-time.After(followEvery):
		}

		still, err := read()
		if ctx.Err() != nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s continues in the service: %w", id, err)
		}

		running = still
	}
	return nil
}

// callAndSay makes a call on a replay or a redirect, and prints its answer.
func callAndSay[T any](ctx context.Context, call func(context.Context, string) (*T, error), id string, say func(*T) error) error {
	x, err := call(ctx, id)
	if err != nil {
		return err
	}

	return say(x)
}

// sayReplay prints the progress of a replay.
func (a *command) sayReplay(x *client.Replay) error {
	if a.json {
		if err := a.sayJSON(x.JSON); err != nil {
			return err
		}
	} else {
		a.say("%s: %s, %d of %d sent, %d left\n", clean(x.ID), x.State, x.Sent, x.Total, x.Left)
		a.sayCounts("skipped", x.Skipped)
		if x.State == client.ReplayStopped {
			a.say("notifier replay %s --resume continues it\n", clean(x.ID))
		}
	}

	if x.State == client.ReplayFailed {
		return fmt.Errorf("the replay failed: %s", x.Reason)
	}

	return nil
}

func (a *command) listReplays(ctx context.Context, c *client.Client) error {
	list, err := c.Replays(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.sayJSON(list.JSON)
	}

	rows := [][]cell{head("MADE\tID\tSTATE\tSENT\tSKIPPED\tLEFT\tWHAT ENDED")}
	for i := range list.Items {
		x := &list.Items[i]
		skipped := int64(0)
		for _, n := range x.Skipped {
			skipped += n
		}

		what := a.screen.when(x.Since) + " to " + a.screen.when(x.Until)
		for _, more := range []string{x.Prefix, x.Host} {
			if more != "" {
				what += ", " + more
			}
		}

		rows = append(rows, row(a.screen.near(x.CreatedAt), x.ID, x.State, x.Sent, skipped, x.Left, what))
	}

	a.screen.table(true, rows...)
	return nil
}

func (a *command) sayCounts(what string, counts map[string]int64) {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[why], strings.ReplaceAll(clean(why), "_", " ")))
	}

	if len(parts) > 0 {
		a.say("%s: %s\n", what, strings.Join(parts, ", "))
	}
}

func (a *command) sayDiffers(x *client.Replay) {
	for _, d := range x.Differs {
		a.say("route %s: %d now go to %s, before to %s\n", clean(d.Route), d.Notices, dash(clean(d.Now)), dash(clean(d.Then)))
	}
}
