package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"

	"notifier/internal/client"
	"notifier/internal/notice"
)

// sayJSON prints an answer, indented.
func (a *command) sayJSON(raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	a.say("%s\n", b.String())
	return nil
}

// sayValue prints a value as JSON, indented.
func (a *command) sayValue(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return a.sayJSON(raw)
}

// table prints rows in columns; the cells of a row are parted by tabs.
func table(w io.Writer, rows ...string) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		_, _ = fmt.Fprintln(tw, r) // see app.say
	}
	_ = tw.Flush()
}

func row(cells ...any) string {
	s := make([]string, len(cells))
	for i, c := range cells {
		s[i] = clean(fmt.Sprint(c))
	}
	return strings.Join(s, "\t")
}

// clean takes out what could move a terminal's cursor or break a table: what is
// printed here may come from a stranger's server.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x202e || r == '\uFEFF' {
			return '\uFFFD'
		}
		return r
	}, s)
}

func short(s string, most int) string {
	s = clean(s)
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// when spells a time and how far it is.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := time.Until(t).Round(time.Second)
	if d >= 0 {
		return fmt.Sprintf("%s (in %s)", notice.Stamp(t), notice.Short(d))
	}
	return fmt.Sprintf("%s (%s ago)", notice.Stamp(t), notice.Short(-d))
}

// sayNotice prints a notice for a person.
func (a *command) sayNotice(n *client.Notice) {
	rows := []string{row("key", n.Key), row("state", n.State), row("route", n.Route), row("due", when(n.Due)),
		row("attempt", fmt.Sprintf("%d of %d", n.Attempt, n.MaxAttempts))}
	if len(n.Attempts) > 0 && (n.State == "delivered" || n.State == "dead") {
		rows[4] = row("attempts", fmt.Sprintf("%d of %d", n.Attempt-1, n.MaxAttempts))
	}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, row(name, value))
		}
	}
	add("reason", n.Reason)
	add("url", n.URL)
	add("retry", strings.Join(n.Retry, ","))
	add("content type", n.ContentType)
	if !n.SettledAt.IsZero() {
		add("settled", when(n.SettledAt))
	}
	add("created", when(n.CreatedAt))
	add("webhook-id", n.ID)
	switch {
	case n.Body != nil:
		add("body", short(string(n.Body), 200))
	case len(n.BodyBase64) > 0:
		add("body", short(string(n.BodyBase64), 200))
	}
	table(a.Stdout, rows...)
	if len(n.Attempts) > 0 {
		rows = []string{"\nATTEMPT\tAT\tTOOK\tSTATUS\tREASON\tRESPONSE"}
		for _, at := range n.Attempts {
			status := "-"
			if at.Status > 0 {
				status = fmt.Sprint(at.Status)
			}
			rows = append(rows, row(at.N, notice.Stamp(at.At), fmt.Sprintf("%dms", at.DurationMS), status,
				dash(at.Reason), short(at.Response, 60)))
		}
		table(a.Stdout, rows...)
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// bar is a progress bar on a terminal, and nothing elsewhere.
func (a *command) bar(total int64, what string) *progressbar.ProgressBar {
	if !terminal(a.Stderr) {
		return progressbar.DefaultSilent(total, what)
	}
	return progressbar.NewOptions64(total, progressbar.OptionSetDescription(what), progressbar.OptionSetWriter(a.Stderr),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30))
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// sayLine prints a notice as one line of JSON.
func (a *command) sayLine(n *client.Notice) error {
	var b bytes.Buffer
	if err := json.Compact(&b, n.JSON); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	a.say("%s\n", b.String())
	return nil
}

// sayLineOf prints a value as one line of JSON.
func (a *command) sayLineOf(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	a.say("%s\n", raw)
	return nil
}
