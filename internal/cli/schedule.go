package cli

import (
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"notifier/client"
)

func (a *command) schedule() *cobra.Command {
	var r client.Request
	var content func() error
	c := &cobra.Command{
		Use:   "schedule KEY",
		Short: "Schedule a notice",
		Long: `Schedules a notice under KEY, which is app:module:type:id. Without --delay and --due the
notice is due now. Repeating the call with the same content changes nothing. It fails with
other content or another --due, unless --on-duplicate is keep or replace, and if the notice
is dead or cancelled meanwhile. The content is all but the due time.`,
		Example: `  notifier schedule app1:orders:paid:4711 --delay 15s --body '{"paid":true}' --to https://shop.example/hook
  notifier schedule app1:orders:paid:4712 --due 2026-12-24T18:00:00Z --body-file invoice.json
  notifier schedule app1:orders:paid:4713 --retry 1m,10m,1h --header x-tenant=7 --body-text 'status=paid' \
      --content-type application/x-www-form-urlencoded`,
		Args:              takes(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Key = args[0]
			if err := content(); err != nil {
				return err
			}

			unsent := ""
			err := a.one(func(c *client.Client) (*client.Notice, error) {
				n, err := c.Schedule(cmd.Context(), r)
				if err == nil {
					unsent = n.NotSent()
				}

				return n, err
			}, func(n *client.Notice) string {
				switch {
				case n.Replaced:
					return "replaced"
				case n.Created:
					return "scheduled"
				case n.State == client.Settled:
					return "already settled, and no longer stored"
				}
				return "kept already, unchanged"
			})
			if err == nil && unsent != "" {
				a.complain("%s: %s", r.Key, clean(unsent))
				return errQuiet
			}

			return err
		},
	}
	f := c.Flags()
	delayVar(f, &r.Delay, "delay", "time from now: 15s, 3m, 1h30m; a number without a unit is seconds")
	a.instantVar(f, &r.Due, "due", "due time: 2026-12-24T18:00:00Z, 18:00 (the next, in the zone of TZ), tomorrow 09:30")
	content = a.contentFlags(c, &r)
	a.expiryVar(f, &r.Expires, &r.ExpiresAfter, "until when it may be sent: 10m after it is due, or a time as for --due")
	f.StringVar(&r.OnDuplicate, "on-duplicate", "", "reject (the default), keep or replace")
	a.either(c, false, "delay", "due")
	return a.withJSON(c)
}

// contentFlags adds the flags of the content of notices. read completes the content from them.
func (a *command) contentFlags(c *cobra.Command, r *client.Request) (read func() error) {
	var body, bodyText, bodyFile string
	var headers []string
	f := c.Flags()
	f.StringVar(&body, "body", "", "the body, as JSON, or @FILE; @- reads the standard input")
	f.StringVar(&bodyText, "body-text", "", "the body, as text")
	f.StringVar(&bodyFile, "body-file", "", "file with the body; - reads the standard input")
	f.StringVar(&r.ContentType, "content-type", "", "content type of the body (default application/json if it is JSON)")
	f.StringVar(&r.URL, "to", "", "address to call, if the route's target is notice")
	f.StringVar(&r.Audience, "audience", "", "the audience (m17), if the route signs for each audience")
	f.StringVar(&r.Method, "method", "", "POST, PUT or GET")
	f.StringArrayVar(&headers, "header", nil, "header of the callback, name=value; may be repeated")
	f.StringVar(&r.Retry, "retry", "", "own ladder: 15s,3m,10m, none, or standard, wechat, alipay")
	a.either(c, false, "body", "body-text", "body-file")
	return func() (err error) {
		switch {
		case f.Changed("body-text"):
			r.BodyText = &bodyText
		case f.Changed("body"), bodyFile != "":
			err = a.fill(r, body, bodyFile)
		}

		if err != nil {
			return err
		}

		r.Headers, err = headerFlags(headers)
		return err
	}
}

// fill sets the body, from a file if one is named.
func (a *command) fill(r *client.Request, body, file string) (err error) {
	raw, flag := []byte(body), "--body-file"
	if name, ok := strings.CutPrefix(body, "@"); ok {
		flag, file = "--body", name
	}

	switch {
	case file == "-":
		if raw, err = io.ReadAll(a.Stdin); err != nil {
			return err
		}
	case file != "":
		if raw, err = os.ReadFile(file); err != nil {
			return usage("%s: %w", flag, err)
		}
	case !json.Valid(raw):
		return usage("--body is not JSON; use --body-text for text")
	}

	setBody(r, raw)
	return nil
}

// setBody sets the body of a request, byte for byte: as base64 unless it is JSON without white space around
// it.
func setBody(r *client.Request, raw []byte) {
	isJSON := json.Valid(raw)
	if isJSON && strings.TrimSpace(string(raw)) == string(raw) {
		r.Body = raw
		return
	}

	r.BodyBase64 = raw // including a newline at the end of a file
	if isJSON && r.ContentType == "" {
		r.ContentType = "application/json"
	}
}

// headerFlags reads the values of --header. It returns nil without any.
func headerFlags(given []string) (map[string]string, error) {
	var headers map[string]string
	for _, h := range given {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, usage("--header %q: want name=value", name)
		}

		if headers == nil {
			headers = map[string]string{}
		}

		headers[strings.TrimSpace(name)] = value
	}

	return headers, nil
}
