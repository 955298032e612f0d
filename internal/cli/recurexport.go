package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

// recurExport is the command recur export.
func (a *command) recurExport() *cobra.Command {
	var prefix string
	c := &cobra.Command{
		Use: "export", Short: "Write the recurring notices to standard output, one JSON object a line", Args: takes(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Writes the recurring notices to standard output as NDJSON. "notifier import" reads such a file: it
creates or replaces them, and their numbers go on after those in the file.`,
		Example: "  notifier recur export > recurring.ndjson",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			return a.exportRecurrences(cmd.Context(), c, prefix)
		},
	}
	c.Flags().StringVar(&prefix, "prefix", "", "only keys with this prefix: app, app:module or app:module:type")
	return c
}

// exportRecurrences prints all recurring notices under a prefix with their bodies.
func (a *command) exportRecurrences(ctx context.Context, c *client.Client, prefix string) error {
	n := 0
	for f := (client.RecurrenceFilter{Prefix: prefix}); ; {
		page, err := c.Recurrences(ctx, f)
		if err != nil {
			return err
		}

		for i := range page.Items {
			x, err := c.ReadRecurrence(ctx, page.Items[i].Key) // a page has no bodies
			if p := (*client.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusNotFound {
				continue // deleted since
			}

			if err != nil {
				return err
			}

			line, err := oneLine(x.JSON, x.Body)
			if err != nil {
				return err
			}

			a.say("%s\n", bytes.TrimSpace(line))
			n++
		}

		if f.Cursor = page.Cursor; f.Cursor == "" {
			a.complain("recur export: %s", notice.Count(n, "recurring notice"))
			return nil
		}
	}
}

// isRecurrence reports whether a line is one of recur export.
func isRecurrence(line []byte) bool {
	var x struct {
		Key, Cron, Every string
		Next             []string
	}
	return bytes.Contains(line, []byte(`"next"`)) && json.Unmarshal(line, &x) == nil && x.Key != "" && x.Next != nil &&
		(x.Cron != "") != (x.Every != "")
}

// putLine creates or replaces the recurring notice of a line of recur export.
func putLine(ctx context.Context, c *client.Client, line []byte) (client.Result, error) {
	var x client.Recurrence
	if err := json.Unmarshal(line, &x); err != nil {
		return client.Result{}, fmt.Errorf("read a recurring notice: %w", err)
	}

	r := client.Result{Key: x.Key}
	q, err := putAgain(&x)
	if err != nil {
		r.Problem = &client.Problem{Status: 422, Detail: err.Error()}
		return r, nil
	}

	got, err := c.PutRecurrence(ctx, q)
	if errors.As(err, &r.Problem) {
		r.Status = r.Problem.Status
		return r, nil
	}

	r.Created = err == nil && got.Created
	return r, err
}

// putAgain returns the request that stores a recurring notice as it was exported.
func putAgain(x *client.Recurrence) (q client.RecurrenceRequest, err error) {
	if len(x.Withheld) > 0 {
		return q, fmt.Errorf("headers: the value of %s was not exported; create it with notifier recur create", strings.Join(x.Withheld, ", "))
	}
	if strings.Contains(x.URL, ":xxxxx@") {
		return q, errors.New("url: its password was not exported; create it with notifier recur create")
	}

	q = client.RecurrenceRequest{Key: x.Key, Cron: x.Cron, Zone: x.Zone, Anchor: x.Anchor, From: x.From, Until: x.Until, Times: x.Times,
		Missed: x.Missed, MissedMost: x.MissedMost, Overlap: x.Overlap, Paused: x.Paused, Body: x.Body, BodyBase64: x.BodyBase64,
		ContentType: x.ContentType, URL: x.URL, Audience: x.Audience, Headers: x.Headers, Method: x.Method, Number: x.Number,
		LastTick: x.LastTick}
	if x.Retry != nil {
		q.Retry = strings.Join(x.Retry, ",")
		if len(x.Retry) == 0 {
			q.Retry = "none"
		}
	}

	for _, d := range []struct {
		text string
		to   *time.Duration
	}{{x.Every, &q.Every}, {x.Expires, &q.Expires}} {
		if d.text == "" {
			continue
		}
		if *d.to, err = notice.ParseDuration(d.text); err != nil {
			return q, err
		}
	}

	return q, nil
}
