package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) history() *cobra.Command {
	var q client.HistoryQuery
	var all, follow bool
	c := &cobra.Command{
		Use:   "history [key]",
		Short: "Show delivered, dead, cancelled and replaced notices",
		Long: `Shows the finalized notices in the service's history (NOTIFIER_HISTORY_URL), newest first,
one page at a time. --all prints all pages, and with --json one entry a line. --since and
--until take a time or an age such as 2h. --text searches bodies and answers in a window.
--follow prints new entries, oldest first, until it is interrupted.`,
		Example: `  notifier history app1:orders:paid:4711
  notifier history --host shop.example --since 168h --until 144h
  notifier history --prefix app1:orders --outcome dead --all --json
  notifier history --since 24h --text "card declined"
  notifier history --id msg_0f3c1a5b7d9e2f4a6b8c0d1e2f
  notifier history --follow --outcome dead`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				q.Key = args[0]
			}

			if follow {
				return a.followHistory(cmd.Context(), q)
			}

			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			if a.json && !all {
				p, err := c.History(cmd.Context(), q)
				if err != nil {
					return err
				}

				return a.sayJSON(p.JSON)
			}

			return a.historyPages(cmd.Context(), c, q, all)
		},
	}
	a.endingFilters(c, &q)
	f := c.Flags()
	f.StringVar(&q.ID, "id", "", "a webhook-id")
	f.StringVar(&q.Part, "part", "", "a part of a key (needs --since), or the beginning of one: app:module:type:id")
	f.StringVar(&q.Text, "text", "", "words of the body or of an answer; needs --since")
	f.IntVar(&q.Limit, "limit", 0, "entries a page, 1 to 1000 (default 100)")
	f.StringVar(&q.Cursor, "cursor", "", "continue after an earlier page")
	f.BoolVar(&all, "all", false, "print all pages")
	f.BoolVar(&follow, "follow", false, "keep printing new entries")
	a.either(c, false, "follow", "until")
	a.either(c, false, "follow", "cursor")
	a.either(c, false, "follow", "all")
	c.AddCommand(a.historyClaim(), a.historySettle())
	return a.withJSON(c)
}

// endingFilters adds the flags that filter history entries.
func (a *command) endingFilters(c *cobra.Command, q *client.HistoryQuery) {
	f := c.Flags()
	f.StringVar(&q.Prefix, "prefix", "", "only keys with this prefix: app, app:module or app:module:type")
	f.StringVar(&q.Host, "host", "", "the called host")
	f.Var(states{&q.Outcome}, "outcome", "delivered, dead, cancelled, replaced, or several (default: all)")
	f.StringVar(&q.Reason, "reason", "", "reason of death: status_5xx, timeout, connect, …")
	a.agoVar(f, &q.Since, "since", "finalized from this time, or this long ago: 2026-11-21T00:00:00Z, 14:00, yesterday, 24h")
	a.agoVar(f, &q.Until, "until", "finalized before this time, or this long ago")
}

// historyPages prints one page, or all.
func (a *command) historyPages(ctx context.Context, c *client.Client, q client.HistoryQuery, all bool) error {
	rows := [][]cell{endingsHead()}
	for {
		p, err := c.History(ctx, q)
		if err != nil {
			return err
		}

		for i := range p.Items {
			if !a.json {
				rows = append(rows, a.ended(&p.Items[i]))
			} else if err := a.sayLine(p.Items[i].JSON, p.Items[i].Body); err != nil {
				return err
			}
		}

		if !a.json {
			a.screen.table(true, rows...)
			rows = rows[:0]
		}

		if q.Cursor = p.Cursor; q.Cursor == "" || !all {
			break
		}
	}

	if q.Cursor != "" {
		a.complain("there may be more: --cursor %s, or --all", q.Cursor)
	}

	return nil
}

func endingsHead() []cell { return head("ENDED\tKEY\tOUTCOME\tHOST\tATTEMPTS\tLAST ANSWER") }

// ended returns the row of a history entry.
func (a *command) ended(e *client.Ending) []cell {
	last := e.Reason
	if n := len(e.Attempts); n > 0 {
		at := e.Attempts[n-1]
		last = strings.TrimSpace(strings.TrimPrefix(fmt.Sprintf("%d %s", at.Status, cmp.Or(at.Reason, e.Reason)), "0 "))
		if at.Status == 0 && strings.HasPrefix(at.Response, at.Reason+":") {
			last = "" // the error text names itself
		}

		if at.Response != "" {
			last = strings.TrimSpace(last + " " + short(at.Response, 60))
		}
	}

	outcome := string(e.Outcome)
	if e.Ending > 1 {
		outcome += fmt.Sprintf(" (%d)", e.Ending)
	}

	if len(e.Unreadable) > 0 {
		last = "unreadable: " + strings.Join(e.Unreadable, ", ")
	}

	return row(a.screen.near(e.EndedAt), e.Key, styled(outcome, endLooks[e.Outcome]), dash(e.Host), e.AttemptsMade, dash(last))
}

// endLooks are the colours of the outcomes.
var endLooks = map[client.State]style{client.Delivered: green, client.Cancelled: faint, client.Replaced: faint, client.Dead: red}

// states is a flag that takes states, separated by commas or in several flags.
type states struct{ list *[]client.State }

func (s states) Set(text string) error {
	for state := range strings.SplitSeq(text, ",") {
		*s.list = append(*s.list, client.State(state))
	}
	return nil
}

func (states) Type() string { return "strings" }

func (states) String() string { return "" }
