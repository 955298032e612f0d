package cli

import (
	"time"

	"github.com/spf13/cobra"

	"notifier/internal/client"
	"notifier/internal/notice"
)

func (a *command) list() *cobra.Command {
	var q client.Query
	var all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List notices by route, prefix and state",
		Long: `Lists notices, one page at a time; --all goes through all pages, and then --json
prints one notice a line. --since and --until take a time or an age such as 2h.`,
		Example: `  notifier list                              what is scheduled
  notifier list --state dead --route orders  dead letters
  notifier list --state dead --reason status_5xx --since 24h --all --json
  notifier list --prefix app1:orders:paid`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			q.Since, q.Until = instant(q.Since), instant(q.Until)
			rows := []string{"KEY\tSTATE\tDUE\tATTEMPT\tREASON"}
			for {
				p, err := c.List(cmd.Context(), q)
				if err != nil {
					return err
				}
				if a.json && !all {
					return a.sayJSON(p.JSON)
				}
				for i := range p.Items {
					n := &p.Items[i]
					if a.json {
						if err := a.sayLine(n); err != nil {
							return err
						}
						continue
					}
					rows = append(rows, row(n.Key, n.State, when(n.Due), row(n.Attempt)+"/"+row(n.MaxAttempts), dash(n.Reason)))
				}
				if !a.json {
					table(a.Stdout, rows...)
					rows = rows[:0]
				}
				if q.Cursor = p.Cursor; q.Cursor == "" {
					return nil
				}
				if !all {
					a.complain("there may be more: --cursor %s, or --all", q.Cursor)
					return nil
				}
			}
		},
	}
	filters(c, &q)
	f := c.Flags()
	f.StringVar(&q.Route, "route", "", "name of a route")
	f.StringVar(&q.State, "state", "", "scheduled, claimed, delivered, cancelled or dead (default: all)")
	f.IntVar(&q.Limit, "limit", 0, "notices a page, 1 to 1000 (default 100)")
	f.StringVar(&q.Cursor, "cursor", "", "go on behind an earlier page")
	f.BoolVar(&all, "all", false, "go through all pages")
	return a.withJSON(c)
}

// filters adds the flags that list and redrive share.
func filters(c *cobra.Command, q *client.Query) {
	f := c.Flags()
	f.StringVar(&q.Prefix, "prefix", "", "app, app:module or app:module:type: what the keys lie under")
	f.StringVar(&q.Reason, "reason", "", "why they are dead: status_5xx, timeout, connect, …")
	f.StringVar(&q.Since, "since", "", "from this time on, or this long ago: 2026-11-21T00:00:00Z, 24h")
	f.StringVar(&q.Until, "until", "", "before this time, or this long ago")
}

// instant turns an age into a time; what is none is left for the API to judge.
func instant(s string) string {
	if s == "" {
		return ""
	}
	if d, err := notice.ParseDuration(s); err == nil {
		return time.Now().Add(-d).UTC().Format(time.RFC3339Nano)
	}
	return s
}
