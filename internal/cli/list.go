package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) list() *cobra.Command {
	var q client.Query
	var all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List notices by route, prefix and state",
		Long: `Lists notices, one page at a time. --all prints all pages, and with --json one notice a
line. --since and --until take a time or an age such as 2h.`,
		Example: `  notifier list                              all notices
  notifier list --state dead --route orders  dead letters
  notifier list --state dead --reason status_5xx --since 24h --all --json
  notifier list --waiting --route orders     notices that wait for an earlier one of their sequence
  notifier list --prefix app1:orders:paid`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			if a.json && !all {
				p, err := c.List(cmd.Context(), q)
				if err != nil {
					return err
				}

				a.warnMissing(p.Missing)
				return a.sayJSON(p.JSON)
			}

			return a.listPages(cmd.Context(), c, q, all)
		},
	}
	a.filters(c, filter{&q.Prefix, &q.Reason, &q.Host, &q.Status, &q.Since, &q.Until})
	f := c.Flags()
	f.StringVar(&q.Route, "route", "", "name of a route")
	f.StringVar((*string)(&q.State), "state", "", "scheduled, claimed, delivered, cancelled or dead (default: all)")
	f.BoolVar(&q.Waiting, "waiting", false, "only notices that wait for another one of their sequence, the longest wait first")
	f.IntVar(&q.Limit, "limit", 0, "notices a page, 1 to 1000 (default 100)")
	f.StringVar(&q.Cursor, "cursor", "", "continue after an earlier page")
	f.BoolVar(&all, "all", false, "print all pages")
	return a.withJSON(c)
}

// listPages prints pages: all, or until the number of notices is that of a full page, because a page may be short
// although more follow.
func (a *command) listPages(ctx context.Context, c *client.Client, q client.Query, all bool) error {
	rows := [][]cell{head("KEY\tSTATE\tDUE\tATTEMPTS\tLAST ATTEMPT")}
	var away []string
	for missing := cmp.Or(q.Limit, 100); ; {
		p, err := c.List(ctx, q)
		if err != nil {
			return err
		}
		if rows, err = a.addPage(rows, p); err != nil {
			return err
		}

		missing -= len(p.Items)
		away = append(away, p.Missing...)
		q.Cursor = p.Cursor
		enough := q.Cursor == "" || !all && missing <= 0
		if !a.json && (all || enough) {
			a.screen.table(true, rows...)
			rows = rows[:0]
		}

		if enough {
			break
		}

		if !all {
			q.Limit = missing
		}
	}

	a.warnMissing(away)
	if q.Cursor != "" {
		a.complain("there may be more: --cursor %s, or --all", q.Cursor)
	}

	return nil
}

// warnMissing prints which nodes the answer does not include.
func (a *command) warnMissing(nodes []string) {
	if len(nodes) == 0 {
		return
	}

	nodes = slices.Clone(nodes)
	slices.Sort(nodes)
	a.complain("incomplete: the notices on the Redis at %s are missing, because it does not answer", strings.Join(slices.Compact(nodes), ", "))
}

// listed returns the row of a notice.
func (a *command) listed(n *client.Notice) []cell {
	due := styled(a.screen.near(n.Due), plain)
	switch {
	case n.State == client.Scheduled && time.Since(n.Due) > time.Second:
		due.look = yellow // overdue
	case n.State != client.Scheduled && n.State != client.Claimed:
		due.look = faint
	}

	last := "-"
	if len(n.Attempts) > 0 {
		at := n.Attempts[len(n.Attempts)-1]
		if last = strings.TrimSpace(strings.TrimPrefix(fmt.Sprintf("%d %s", at.Status, at.Reason), "0 ")); at.Reason == "" {
			last = strings.TrimPrefix(fmt.Sprintf("%d delivered", at.Status), "0 ")
		}

		last += ", " + a.screen.near(at.At)
	}

	if n.Reason != "" && (len(n.Attempts) == 0 || n.Attempts[len(n.Attempts)-1].Reason != n.Reason) {
		last = n.Reason
	}

	return row(n.Key, styled(string(n.State), looks[n.State]), due, made(n), last)
}

// filter is the values of the flags that list, redrive and purge share.
type filter struct {
	prefix, reason, host *string
	status               *int
	since, until         *time.Time
}

// filters adds the flags that list, redrive and purge share.
func (a *command) filters(c *cobra.Command, to filter) {
	f := c.Flags()
	f.StringVar(to.prefix, "prefix", "", "only keys with this prefix: app, app:module or app:module:type")
	f.StringVar(to.reason, "reason", "", "reason of death: status_5xx, timeout, connect, …")
	f.IntVar(to.status, "status", 0, "with --reason, the HTTP status of the last attempt: 503")
	f.StringVar(to.host, "host", "", "host that is called, such as shop.example")
	a.agoVar(f, to.since, "since", "from this time, or this long ago: 2026-11-21T00:00:00Z, 14:00, yesterday, 24h")
	a.agoVar(f, to.until, "until", "before this time, or this long ago")
}

// addPage adds the notices of a page to rows. With --json it prints them instead.
func (a *command) addPage(rows [][]cell, p *client.Page) ([][]cell, error) {
	for i := range p.Items {
		if !a.json {
			rows = append(rows, a.listed(&p.Items[i]))
		} else if err := a.sayLine(p.Items[i].JSON, p.Items[i].Body); err != nil {
			return rows, err
		}
	}
	return rows, nil
}
