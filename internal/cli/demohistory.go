package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"notifier/internal/history"
)

// showRemembered waits until the history has an entry of each notice, and prints the entries with more than one attempt.
func showRemembered(ctx context.Context, out io.Writer, url string, list []demoOrder) error {
	db, err := history.Open(history.Options{URL: url})
	if err != nil {
		return err
	}

	defer func() { _ = db.Close() }() // only read
	var rows []history.Row
	for {
		page, err := db.Find(ctx, history.Query{Prefix: "demo", Limit: 100})
		if err != nil {
			return fmt.Errorf("read the history: %w", err)
		}
		if rows = page.Rows; len(rows) >= len(list) {
			break
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d notices are in the history: %w", len(rows), len(list), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}

	printTo(out, "\nhistory   %d rows in SQLite, kept longer than in Redis; notices with more than one attempt:\n", len(rows))
	for i := len(rows) - 1; i >= 0; i-- {
		r := &rows[i]
		if len(r.Attempts) < 2 {
			continue
		}

		answers := make([]string, len(r.Attempts))
		for j, a := range r.Attempts {
			answers[j] = fmt.Sprintf("%d %s", a.Status, a.At.Local().Format("15:04:05.000"))
		}

		printTo(out, "  %s %s: %s\n", r.Key, r.Outcome, strings.Join(answers, ", "))
	}

	return nil
}
