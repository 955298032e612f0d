package cli

import (
	"context"
	"fmt"
	"maps"
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
		Short: "Send again what was delivered or died within a window of time",
		Long: `Sends again what ended within a window, from the service's history: each notice once,
under its own key and with its webhook-id, so that receivers who have it already know it
(--new-ids: as if it were new), and with the header notifier-replay. Where something is
pending under a key it is skipped. A command that is repeated with the same --id and
otherwise the same words shows the replay that there is. It counts first and then shows the progress; the
service goes on by itself if this command ends (--detach: at once). --dry-run only counts,
and tells what would go to another host than it went.

With an ID it shows how far a replay is, --stop stops it, --resume lets it go on where it
was stopped. Without anything it lists the replays of the last 30 days. Where several
clients have given the same id, CLIENT:ID names one.`,
		Example: `  notifier replay --since 2026-11-17T12:00:00Z --until 2026-11-17T18:00:00Z --host shop.example --dry-run
  notifier replay --since 6h --prefix app1:orders --outcome dead --rate 20/s
  notifier replay rpl_5xkq7n4m2v6t3w8y9z0a --stop
  notifier replay`,
		Args:              takes(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := !r.Since.IsZero() || !r.Until.IsZero() || r.Prefix != "" || r.Host != "" || len(r.Outcome) > 0 || r.Rate != "" || r.ID != "" ||
				r.NewIDs || r.DryRun || detach
			switch {
			case len(args) > 0 && asked:
				return usage("an ID goes alone, or with --stop or --resume")
			case len(args) == 0 && (stop || resume):
				return usage("want the ID of a replay: notifier replay lists them")
			case asked && r.Since.IsZero():
				return usage("want --since: from when on what ended is sent again")
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
			}
			call := c.ReadReplay
			if stop {
				call = c.StopReplay
			} else if resume {
				call = c.ResumeReplay
			}
			x, err := call(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.sayReplay(x)
		},
	}
	f := c.Flags()
	a.agoVar(f, &r.Since, "since", "ended from this time on, or this long ago: 2026-11-21T00:00:00Z, 14:00, yesterday, 24h")
	a.agoVar(f, &r.Until, "until", "ended before this time, or this long ago (default: now)")
	f.StringVar(&r.Prefix, "prefix", "", "app, app:module or app:module:type: what the keys lie under")
	f.StringVar(&r.Host, "host", "", "the host that was called")
	f.StringSliceVar(&r.Outcome, "outcome", nil, "delivered, dead or both: what it came to last (default: both)")
	f.StringVar(&r.Rate, "rate", "", "how many are scheduled in a second, minute or hour (default 50/s)")
	f.StringVar(&r.ID, "id", "", "names the replay, so that the command may be repeated; with times, not with how long ago")
	f.BoolVar(&r.NewIDs, "new-ids", false, "give each a new webhook-id")
	f.BoolVar(&r.DryRun, "dry-run", false, "count and send nothing")
	f.BoolVar(&detach, "detach", false, "begin and do not wait for the end")
	f.BoolVar(&stop, "stop", false, "stop the replay of the ID")
	f.BoolVar(&resume, "resume", false, "let the stopped replay of the ID go on")
	c.MarkFlagsMutuallyExclusive("stop", "resume")
	c.MarkFlagsMutuallyExclusive("dry-run", "detach")
	return a.withJSON(c)
}

// beginReplay counts, begins, and waits for the end.
func (a *command) beginReplay(ctx context.Context, c *client.Client, r client.ReplayRequest, detach bool) error {
	x, err := c.Replay(ctx, r)
	if err != nil {
		return err
	}
	if r.DryRun {
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
	bar := a.bar(x.Total, "replaying", "notices")
	id := x.ID
	for x.State == client.ReplayRunning {
		select {
		case <-ctx.Done():
			a.complain("\nthe service goes on with it; notifier replay %s --stop stops it", clean(id))
			return ctx.Err()
		case <-time.After(followEvery):
		}
		if x, err = c.ReadReplay(ctx, id); err != nil {
			if ctx.Err() != nil {
				x = &client.Replay{State: client.ReplayRunning}
				continue
			}
			return fmt.Errorf("the service goes on with %s: %w", id, err)
		}
		_ = bar.Set64(x.Total - x.Left) // only drawing can fail
	}
	_ = bar.Finish()
	return a.sayReplay(x)
}

// sayReplay says how far a replay is.
func (a *command) sayReplay(x *client.Replay) error {
	if a.json {
		if err := a.sayJSON(x.JSON); err != nil {
			return err
		}
	} else {
		a.say("%s: %s, %d of %d sent, %d still to come\n", clean(x.ID), x.State, x.Sent, x.Total, x.Left)
		a.sayCounts("skipped", x.Skipped)
		if x.State == client.ReplayStopped {
			a.say("notifier replay %s --resume lets it go on\n", clean(x.ID))
		}
	}
	if x.State == client.ReplayFailed {
		return fmt.Errorf("the replay has failed: %s", x.Reason)
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
		a.say("route %s: %d go to %s today and went to %s\n", clean(d.Route), d.Notices, dash(clean(d.Now)), dash(clean(d.Then)))
	}
}
