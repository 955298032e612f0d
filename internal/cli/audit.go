package cli

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
)

// followEvery is how often --follow asks.
const followEvery = time.Second

func (a *command) audit() *cobra.Command {
	var q client.AuditQuery
	var follow bool
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what: cancelled, redrove, paused, …",
		Long: `Shows the calls by which somebody changed something, by the API or the pages, the
newest first: not schedules and consumers' reports. An admin without a prefix sees the
calls of all clients, others their own. Of each client the service keeps 2,000 entries of
rare actions (sign-in, secret, purge, erase, pause, resume, replay, restore, links), and
2,000 of all others. Calls that are the same within a minute are one entry: cancel x3.
With --follow they come as they are made, the oldest first, until it is interrupted.
FAILED means that Redis did not answer: it may have been done all the same.`,
		Example: `  notifier audit --since 24h
  notifier audit --prefix app1:orders:paid:4711
  notifier audit --follow --json | jq 'select(.action == "pause")'`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			if follow {
				return a.followAudit(cmd.Context(), c, q)
			}
			p, err := c.Audit(cmd.Context(), q)
			if err != nil {
				return err
			}
			if a.json {
				return a.sayJSON(p.JSON)
			}
			a.auditTable(p.Items, true)
			if p.Cursor != "" {
				a.complain("there may be more: --cursor %s", p.Cursor)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&q.Prefix, "prefix", "", "app, app:module or app:module:type: what the keys lie under; or the key of one notice")
	a.agoVar(f, &q.Since, "since", "from this time on, or this long ago: 2026-11-21T00:00:00Z, 14:00, yesterday, 24h")
	a.agoVar(f, &q.Until, "until", "before this time, or this long ago")
	f.IntVar(&q.Limit, "limit", 0, "entries, 1 to 1000 (default 100)")
	f.StringVar(&q.Cursor, "cursor", "", "go on behind an earlier page")
	f.BoolVar(&follow, "follow", false, "go on with what is done from now on")
	c.MarkFlagsMutuallyExclusive("follow", "until")
	c.MarkFlagsMutuallyExclusive("follow", "cursor")
	return a.withJSON(c)
}

// auditTable prints entries.
func (a *command) auditTable(list []client.AuditEntry, withHead bool) {
	var rows [][]cell
	if withHead {
		rows = append(rows, head("WHEN\tWHO\tFROM\tVIA\tACTION\tWHAT\tRESULT\tDETAIL"))
	}
	for i := range list {
		e := &list[i]
		what := e.Key
		if what == "" {
			what = e.Prefix
		}
		if e.Route != "" {
			what = "route " + e.Route + ", " + what
		}
		action := e.Action
		if e.Count > 1 {
			action += " x" + strconv.Itoa(e.Count)
		}
		look := plain
		if e.Result != "done" {
			look = yellow
		}
		rows = append(rows, row(a.screen.near(e.At), dash(e.Client), dash(e.Address), dash(e.Via), action, dash(what), styled(e.Result, look),
			dash(e.Detail)))
	}
	a.screen.table(false, rows...)
}

// followAudit prints the newest entries, and what comes after them until ctx ends.
func (a *command) followAudit(ctx context.Context, c *client.Client, q client.AuditQuery) error {
	last := ""
	for first := true; ; first = false {
		fresh, err := since(ctx, c, q, last)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if len(fresh) > 0 {
			last = fresh[0].ID
		}
		slices.Reverse(fresh)
		if a.json {
			for i := range fresh {
				if err := a.sayLine(fresh[i].JSON, nil); err != nil {
					return err
				}
			}
		} else if first || len(fresh) > 0 {
			a.auditTable(fresh, first)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// since reads the entries behind one that was read already, the newest first; of
// the first call, one page.
func since(ctx context.Context, c *client.Client, q client.AuditQuery, last string) ([]client.AuditEntry, error) {
	var fresh []client.AuditEntry
	for {
		p, err := c.Audit(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range p.Items {
			if p.Items[i].ID == last {
				return fresh, nil
			}
			fresh = append(fresh, p.Items[i])
		}
		if q.Cursor = p.Cursor; q.Cursor == "" || last == "" {
			return fresh, nil
		}
	}
}
