package cli

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"notifier/client"
)

// sayJSON prints an answer with indentation.
func (a *command) sayJSON(raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}

	a.say("%s\n", b.String())
	return nil
}

// sayValue prints a value as JSON with indentation.
func (a *command) sayValue(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}

	return a.sayJSON(raw)
}

// sayLine prints an object as one line of JSON; body is its body.
func (a *command) sayLine(raw, body []byte) error {
	line, err := oneLine(raw, body)
	if err != nil {
		return err
	}

	a.say("%s\n", line)
	return nil
}

// oneLine returns an object without line breaks. A body, which is the last member, keeps its bytes: as they are, or in
// base64 if it has line breaks.
func oneLine(raw, body []byte) ([]byte, error) {
	if !bytes.ContainsAny(raw, "\n\r") {
		return raw, nil
	}

	end := slices.Concat([]byte(`,"body":`), body, []byte("}"))
	if len(body) > 0 && bytes.HasSuffix(raw, end) {
		raw = fmt.Appendf(nil, `%s,"body_base64":%q}`, raw[:len(raw)-len(end)], base64.StdEncoding.EncodeToString(body))
	}

	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}

	return b.Bytes(), nil
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

// looks are the colours of the states.
var looks = map[client.State]style{client.Scheduled: cyan, client.Claimed: yellow, client.Delivered: green, client.Cancelled: faint,
	client.Dead: red}

// made returns the number of attempts made and allowed. If the route's ladder has become shorter, the attempts that
// were made count as allowed.
func made(n *client.Notice) string {
	if n.MaxAttempts == 0 {
		return strconv.Itoa(n.AttemptsMade)
	}

	return fmt.Sprintf("%d of %d", n.AttemptsMade, max(n.AttemptsMade, n.MaxAttempts))
}

// sayNotice prints a notice for a person.
func (a *command) sayNotice(n *client.Notice) {
	attempts := made(n) + " made"
	switch n.State {
	case client.Claimed:
		attempts += fmt.Sprintf(", number %d is running", n.Attempt)
	case client.Scheduled:
		attempts += fmt.Sprintf(", number %d is next", n.Attempt)
	}

	var rows [][]cell
	add := func(name string, value any) {
		if value != "" {
			rows = append(rows, row(styled(name, faint), value))
		}
	}
	add("key", styled(n.Key, bold))
	add("state", styled(string(n.State), looks[n.State]))
	if n.Reason != "" {
		add("reason", styled(n.Reason, red))
	}

	add("route", n.Route)
	add("due", a.screen.when(n.Due))
	if n.NextAttempt.After(n.Due) {
		add("next attempt", a.screen.when(n.NextAttempt))
	}

	switch {
	case !n.ForgottenAt.IsZero():
		add("forgotten", a.screen.when(n.ForgottenAt))
	case n.Sealed:
		add("sealed", "in Redis; shown to the roles operate and admin")
	}

	if n.Waits {
		add("waits for", cmp.Or(n.WaitsFor, "an earlier notice of its sequence"))
	}

	if !n.Tick.IsZero() {
		add("for the tick of", a.screen.when(n.Tick))
	}

	add("attempts", attempts)
	if n.URLSealed {
		n.URL += " (query sealed)"
	}

	add("url", n.URL)
	add("url as scheduled", n.ScheduledURL)
	add("audience", n.Audience)
	add("retry", strings.Join(n.Retry, ","))
	if !n.Expires.IsZero() {
		add("expires", a.screen.when(n.Expires))
	}

	add("content type", n.ContentType)
	if !n.SettledAt.IsZero() {
		add("settled", a.screen.when(n.SettledAt))
	}

	add("created", a.screen.when(n.CreatedAt))
	add("client", n.Client)
	add("webhook-id", n.ID)
	switch {
	case n.Body != nil:
		add("body", short(string(n.Body), 200))
	case len(n.BodyBase64) > 0:
		add("body", short(string(n.BodyBase64), 200))
	}

	a.screen.table(false, rows...)
	a.sayAttempts(n.Attempts)
}

// sayAttempts prints the attempts and answers. On a terminal it cuts each answer to its line, and prints the last one
// in full below.
func (a *command) sayAttempts(attempts []client.Attempt) {
	if len(attempts) == 0 {
		return
	}

	rows := [][]cell{head("ATTEMPT\tAT\tTOOK\tSTATUS\tREASON\tRESPONSE")}
	for _, at := range attempts {
		status, look := "-", red
		if at.Status > 0 {
			status = fmt.Sprint(at.Status)
		}

		if at.Reason == "" {
			look = green
		}

		rows = append(rows, row(at.N, a.screen.when(at.At), millis(at.DurationMS), styled(status, look), styled(dash(at.Reason), look),
			styled(at.Response, plain)))
	}

	a.say("\n")
	a.screen.table(true, rows...)
	if last := clean(attempts[len(attempts)-1].Response); a.screen.terminal && len(last) > 20 {
		a.say("\nthe last response: %s\n", last)
	}
}

// bar returns a progress bar on a terminal, and an invisible one elsewhere. It counts what: one word in the plural.
func (a *command) bar(total int64, doing, what string) *progressbar.ProgressBar {
	if !newScreen(a.Stderr, a.env).terminal || a.env["TERM"] == "dumb" {
		return progressbar.NewOptions64(total, progressbar.OptionSetWriter(io.Discard), noTicker)
	}
	return progressbar.NewOptions64(total, progressbar.OptionSetDescription(doing), progressbar.OptionSetWriter(a.Stderr),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(what), progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30), noTicker)
}

// noTicker prevents a goroutine of the bar, which a failing import could not end.
var noTicker = progressbar.OptionSetSpinnerChangeInterval(0)
