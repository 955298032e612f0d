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
creates or replaces them, and their numbers go on after those in the file.

Sealed recurring notices are in clear text in the file, and need a token of the role operate or
admin. The import seals them again.`,
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
	n, sealed := 0, 0
	for f := (client.RecurrenceFilter{Prefix: prefix}); ; {
		page, err := c.Recurrences(ctx, f)
		if err != nil {
			return err
		}

		for i := range page.Items {
			x, err := a.exportRecurrence(ctx, c, page.Items[i].Key)
			if err != nil {
				return err
			}

			if x != nil {
				n++
			}

			if x != nil && unopened(x) {
				sealed++
			}
		}

		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
	}

	a.complain("recur export: %s", notice.Count(n, "recurring notice"))
	if sealed > 0 {
		a.complain("recur export: %s without its content, which is sealed: use a token of the role operate or admin",
			notice.Count(sealed, "recurring notice"))
	}

	return nil
}

// exportRecurrence prints a recurring notice with its body, which a page does not have. It returns nil if it was deleted since.
func (a *command) exportRecurrence(ctx context.Context, c *client.Client, key string) (*client.Recurrence, error) {
	x, err := c.ReadRecurrence(ctx, key)
	if p := (*client.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusNotFound {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	line, err := oneLine(x.JSON, x.Body)
	if err == nil {
		a.say("%s\n", bytes.TrimSpace(line))
	}

	return x, err
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

// unopened reports whether the content of a sealed recurring notice is not shown.
func unopened(x *client.Recurrence) bool {
	return x.Sealed && x.Body == nil && x.BodyBase64 == nil && len(x.Headers) == 0 && len(x.Withheld) == 0
}

// putAgain returns the request that stores a recurring notice as it was exported.
func putAgain(x *client.Recurrence) (q client.RecurrenceRequest, err error) {
	switch {
	case !x.ForgottenAt.IsZero():
		return q, fmt.Errorf("its content was forgotten on %s", notice.Stamp(x.ForgottenAt))
	case unopened(x):
		return q, errors.New("sealed: its content was not exported; export it with a token of the role operate or admin")
	case len(x.Withheld) > 0:
		return q, fmt.Errorf("headers: the value of %s was not exported; create it with notifier recur create", strings.Join(x.Withheld, ", "))
	case strings.Contains(x.URL, ":xxxxx@"):
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
