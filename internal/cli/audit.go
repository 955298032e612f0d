package cli

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
)

// followEvery is the interval of requests with --follow.
const followEvery = time.Second

func (a *command) audit() *cobra.Command {
	var q client.AuditQuery
	var follow bool
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what: cancel, redrive, pause, …",
		Long: `Shows the calls that changed something, through the API or the pages, newest first.
Schedules and consumers' reports are not included; openings of sealed notices are. An admin without a prefix sees the calls
of all clients, other clients their own. For each client the service keeps 2,000 entries of
rare actions (sign-in, secret, purge, erase, forget, pause, resume, replay, restore, links)
and 2,000 of all others. Equal calls within a minute are one entry: cancel x3.
--follow prints new entries, oldest first, until it is interrupted.
FAILED means that Redis did not answer. The change may have happened.`,
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
	f.StringVar(&q.Prefix, "prefix", "", "only keys with this prefix: app, app:module or app:module:type; or the key of one notice")
	a.agoVar(f, &q.Since, "since", "from this time, or this long ago: 2026-11-21T00:00:00Z, 14:00, yesterday, 24h")
	a.agoVar(f, &q.Until, "until", "before this time, or this long ago")
	f.IntVar(&q.Limit, "limit", 0, "entries, 1 to 1000 (default 100)")
	f.StringVar(&q.Cursor, "cursor", "", "continue after an earlier page")
	f.BoolVar(&follow, "follow", false, "keep printing new entries")
	a.either(c, false, "follow", "until")
	a.either(c, false, "follow", "cursor")
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

// followAudit prints the newest entries, and then new ones until ctx ends.
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
		if err := a.sayEntries(fresh, first); err != nil {
			return err
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// since reads the entries after the last printed one, newest first. The first call reads one page.
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

// sayEntries prints new entries, with the head of the table if they are the first.
func (a *command) sayEntries(fresh []client.AuditEntry, first bool) error {
	if !a.json {
		if first || len(fresh) > 0 {
			a.auditTable(fresh, first)
		}
		return nil
	}

	for i := range fresh {
		if err := a.sayLine(fresh[i].JSON, nil); err != nil {
			return err
		}
	}

	return nil
}
