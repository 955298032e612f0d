package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) search() *cobra.Command {
	var q client.SearchQuery
	var csv bool
	c := &cobra.Command{
		Use:   "search WORD...",
		Short: "Find notices in Redis and in the history by one line of words",
		Long: `Finds notices by words that all have to match: an order number, a key or its beginning,
a webhook-id, a host, a state, a time (7d, "yesterday 10-11"), host=, route=, reason=, or
text of a body or an answer, which needs a time. The answer has two sections, Redis and
the history; a notice that both have is in the first one. Write -- before a word such as -30d.`,
		Example: `  notifier search 4711
  notifier search shop.example failed 7d
  notifier search failed yesterday 10-11 --zone Asia/Shanghai --csv > failed.csv
  notifier search 24h '"card declined"'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.Words = strings.Join(args, " "); strings.TrimSpace(q.Words) == "" {
				return usage("want words such as 4711, shop.example or yesterday 10-11")
			}

			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			if csv {
				rows, err := c.SearchCSV(cmd.Context(), q)
				if err != nil {
					return err
				}

				a.say("%s", rows)
				return nil
			}

			got, err := c.Search(cmd.Context(), q)
			if err != nil {
				return err
			}

			a.warnMissing(got.Redis.Missing)
			if a.json {
				return a.sayJSON(got.JSON)
			}

			a.saySearch(got)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&q.Zone, "zone", "", "IANA time zone of the times, such as Asia/Shanghai (default: UTC)")
	f.IntVar(&q.Limit, "limit", 0, "notices of each section, 1 to 200 (default 50)")
	f.StringVar(&q.Redis, "redis-cursor", "", "continue the section of Redis")
	f.StringVar(&q.History, "history-cursor", "", "continue the section of the history")
	f.BoolVar(&csv, "csv", false, "print up to 100,000 notices as CSV")
	a.either(a.withJSON(c), false, "csv", "json")
	return c
}

// saySearch prints both sections.
func (a *command) saySearch(got *client.Found) {
	section := func(name string, s *client.FoundSection, rows [][]cell) {
		total := strconv.Itoa(s.Total)
		switch {
		case s.Note != "":
			total = s.Note
		case !s.Exact:
			total = "more than " + total
		}

		a.say("%s: %s\n", name, total)
		if len(rows) > 1 {
			a.screen.table(true, rows...)
		}
	}
	rows := [][]cell{head("KEY\tSTATE\tDUE\tATTEMPTS\tLAST ATTEMPT")}
	for i := range got.Redis.Items {
		rows = append(rows, a.listed(&got.Redis.Items[i]))
	}

	section("Redis", &got.Redis.FoundSection, rows)
	rows = [][]cell{endingsHead()}
	for i := range got.History.Items {
		rows = append(rows, a.ended(&got.History.Items[i]))
	}

	section("History", &got.History.FoundSection, rows)
	if got.Redis.Cursor != "" {
		a.complain("there are more in Redis: --redis-cursor %s", got.Redis.Cursor)
	}

	if got.History.Cursor != "" {
		a.complain("there are more in the history: --history-cursor %s", got.History.Cursor)
	}
}
