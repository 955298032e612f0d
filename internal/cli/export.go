package cli

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

// exportPage is the page size of an export.
const exportPage = 1000

func (a *command) export() *cobra.Command {
	q := client.HistoryQuery{Limit: exportPage}
	var packed bool
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the history to standard output, one JSON object a line",
		Long: `Writes the history to standard output as NDJSON, newest first: all entries that the token
may read, or those that match the filters. A line has the form of an entry of
GET /v1/history, but a body with line breaks is in base64. "notifier import" reads such a
file. If the export fails, the exit code is 1 and the output ends with a whole line. To
continue, use --until with the time of the last line; some lines are written twice.`,
		Example: `  notifier export > history.ndjson
  notifier export --gz --since 720h > month.ndjson.gz
  notifier export --prefix app1:orders --outcome dead | jq -r .key`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			out := bufio.NewWriterSize(a.Stdout, 1<<20)
			var to io.Writer = out
			var z *gzip.Writer
			if packed {
				z = gzip.NewWriter(out)
				to = z
			}

			n, err := exportTo(cmd.Context(), c, q, to)
			if z != nil {
				err = errors.Join(err, z.Close())
			}

			if err = errors.Join(err, out.Flush()); err != nil {
				return fmt.Errorf("export: after %s: %w", notice.Count(n, "line"), err)
			}

			a.complain("export: %s", notice.Count(n, "ending"))
			return nil
		},
	}
	a.endingFilters(c, &q)
	f := c.Flags()
	f.StringVar(&q.Key, "key", "", "the key of one notice")
	f.StringVar(&q.Text, "text", "", "words of the body or of an answer; needs --since")
	f.BoolVar(&packed, "gz", false, "compress the output with gzip")
	return c
}

// exportTo writes all entries that match a query, and returns the number of lines.
func exportTo(ctx context.Context, c *client.Client, q client.HistoryQuery, w io.Writer) (n int, err error) {
	for {
		p, err := c.History(ctx, q)
		if err != nil {
			return n, err
		}

		for i := range p.Items {
			line, err := oneLine(p.Items[i].JSON, p.Items[i].Body)
			if err != nil {
				return n, err
			}
			if _, err := w.Write(append(line[:len(line):len(line)], '\n')); err != nil {
				return n, err
			}

			n++
		}

		if q.Cursor = p.Cursor; q.Cursor == "" {
			return n, nil
		}
	}
}
