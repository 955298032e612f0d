package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/history"
	"notifier/internal/notice"
)

func (a *command) monthReport() *cobra.Command {
	var q client.ReportQuery
	var csv bool
	c := &cobra.Command{
		Use:   "report",
		Short: "Report the deliveries of a month for each receiver, route or type",
		Long: `Counts the notices that were finalized in a month, from the history: acknowledged at the
first attempt, within a minute, an hour and a day of the start of the first attempt, dead,
and the median and the 99th percentile until the acknowledgement (at most 5 % off). Shares are of
the notices that were delivered or died. NOTICES also includes cancelled and replaced ones,
which --csv counts separately. LATER counts further endings, after a redrive or a resend; no
other column includes them.`,
		Example: `  notifier report --month 2026-11 --zone Asia/Shanghai
  notifier report --month 2026-11 --by route --prefix app1
  notifier report --month 2026-11 --csv > report.csv`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if csv {
				rows, err := fetch(a, func(c *client.Client) ([]byte, error) { return c.MonthReportCSV(cmd.Context(), q) })
				if err == nil {
					a.say("%s", rows)
				}

				return err
			}

			r, err := fetch(a, func(c *client.Client) (*client.MonthReport, error) { return c.MonthReport(cmd.Context(), q) })
			if err != nil {
				return err
			}
			if a.json {
				return a.sayJSON(r.JSON)
			}

			a.sayMonthReport(r)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&q.Month, "month", "", "the month, such as 2026-11, or this (the default)")
	f.StringVar(&q.Zone, "zone", "", "IANA time zone of the month, such as Asia/Shanghai (default: UTC)")
	f.StringVar(&q.By, "by", "", "a line for each receiver, route or type (app:module:type) (default: receiver)")
	f.StringVar(&q.Prefix, "prefix", "", "only keys under app, app:module or app:module:type")
	f.IntVar(&q.Limit, "limit", 0, "lines, 1 to 1000 (default 100)")
	f.BoolVar(&csv, "csv", false, "print all lines as CSV")
	a.either(a.withJSON(c), false, "csv", "json")
	return c
}

// sayMonthReport prints a line for each group, and the total.
func (a *command) sayMonthReport(r *client.MonthReport) {
	rows := [][]cell{head(map[string]string{"route": "ROUTE", "type": "TYPE"}[r.By] +
		"\tNOTICES\tFIRST ATTEMPT\tMINUTE\tHOUR\tDAY\tDEAD\tLATER\tMEDIAN\tP99")}
	if r.By == "receiver" {
		rows[0][0] = styled("RECEIVER", bold)
	}

	line := func(name any, l *client.ReportLine) {
		share := func(n int64) cell { return cell{text: history.Share(n, l.Delivered, l.Dead, "-"), right: true} }
		count := func(n int64) cell { return cell{text: strconv.FormatInt(n, 10), right: true} }
		rows = append(rows, row(name, count(l.Notices), share(l.FirstAttempt), share(l.WithinMinute), share(l.WithinHour), share(l.WithinDay),
			count(l.Dead), count(l.LaterEndings), latency(l.MedianMS), latency(l.P99MS)))
	}
	for i := range r.Items {
		name := r.Items[i].Name
		if name == "" {
			name = "-"
		}

		line(name, &r.Items[i])
	}

	line(styled("total", faint), &r.Total)
	a.screen.table(false, rows...)
	if r.Groups > len(r.Items) {
		a.complain("%d further lines: --limit, or --csv for all", r.Groups-len(r.Items))
	}

	if r.Counting {
		a.complain("not complete: entries from before an update are still being counted; repeat the call in a minute")
	}

	if !r.KeptSince.IsZero() {
		a.complain("not complete: NOTIFIER_HISTORY_RETENTION has deleted entries from before %s", r.KeptSince.Format(time.RFC3339))
	}
}

// latency returns a latency in milliseconds as text.
func latency(ms *float64) cell {
	if ms == nil {
		return cell{text: "-", right: true}
	}
	return cell{text: notice.Short(time.Duration(*ms * float64(time.Millisecond)).Round(time.Millisecond)), right: true}
}
