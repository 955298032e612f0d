package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/config"
	"notifier/internal/notice"
	"notifier/internal/vault"
)

func (a *command) open() *cobra.Command {
	var direct bool
	c := &cobra.Command{
		Use:   "open KEY [TEXT|-]",
		Short: "Print the body of a sealed notice or of a sealed text",
		Long: `Without TEXT: prints the body of a notice that the service has, for the roles operate and admin.
With TEXT: opens a sealed text (s1c:…) from the entry of a list or stream, also for the role
produce. - reads the text from the standard input. --json also prints headers and url.

--keys opens a text without the service: the command connects to Redis, which has the encrypted
data keys, and reads the environment of serve (NOTIFIER_REDIS_URL, NOTIFIER_SEAL_KEYS). The audit
then has no entry. It also prints the secret headers.`,
		Example: `  notifier open app1:orders:paid:4711
  redis-cli LINDEX todo 0 | jq -r .sealed | notifier open app1:orders:paid:4711 -`,
		Args:              takes(1, 2),
		ValidArgsFunction: once(a.noticeKeys("")),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch ctx := cmd.Context(); {
			case len(args) == 1 && direct:
				return usage("--keys needs TEXT; without it the service reads the notice")
			case len(args) == 1:
				return a.openNotice(ctx, args[0])
			default:
				text, err := a.sealedText(args[1])
				if err != nil {
					return err
				}

				return a.openText(ctx, args[0], text, direct)
			}
		},
	}
	c.Flags().BoolVar(&direct, "keys", false, "open TEXT with NOTIFIER_SEAL_KEYS and Redis, without the service")
	return a.withJSON(c)
}

// maxSealedText is far above the length of a sealed text, in bytes.
const maxSealedText = 64 << 20

// sealedText returns an argument, or for - the standard input.
func (a *command) sealedText(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}

	raw, err := io.ReadAll(io.LimitReader(a.Stdin, maxSealedText))
	if err != nil {
		return "", fmt.Errorf("read the standard input: %w", err)
	}

	return string(bytes.TrimSpace(raw)), nil
}

// openNotice prints the body of a stored notice.
func (a *command) openNotice(ctx context.Context, key string) error {
	n, err := fetch(a, func(c *client.Client) (*client.Notice, error) { return c.Get(ctx, key) })
	if err != nil {
		return err
	}

	body := n.BodyBase64
	if n.Body != nil {
		body = n.Body
	}

	switch {
	case !n.ForgottenAt.IsZero():
		return fmt.Errorf("the audience or id of the notice was forgotten on %s: its content is gone", notice.Stamp(n.ForgottenAt))
	case n.Sealed && body == nil && n.Headers == nil:
		a.complain("notifier: the body is empty, or the service does not show it: that needs a token of the role operate or admin, and an " +
			"instance that has the service key")
		return errQuiet
	}

	return a.sayOpened(n.JSON, body)
}

// openText prints the body in a sealed text.
func (a *command) openText(ctx context.Context, key, text string, direct bool) error {
	if direct {
		cfg, err := a.sealConfig()
		if err != nil {
			return err
		}

		return a.openWithKeys(ctx, cfg, key, text)
	}

	o, err := fetch(a, func(c *client.Client) (*client.Opened, error) { return c.Open(ctx, key, text) })
	if err != nil {
		return err
	}

	return a.sayOpened(o.JSON, o.Content())
}

// openWithKeys is openText with the service keys of a configuration.
func (a *command) openWithKeys(ctx context.Context, cfg *config.Config, key, text string) error {
	w, closeRedis, err := wireOf(ctx, cfg)
	if err != nil {
		return err
	}

	defer closeRedis()
	c, err := vault.New(cfg.SealKeys, w).OpenText(ctx, w.Space.Shard(key), key, text)
	if err != nil {
		return fmt.Errorf("cannot open the text: %w", err)
	}

	raw, err := json.Marshal(openedOf(key, &c))
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}

	return a.sayOpened(raw, c.Body)
}

// openedOf returns a content in the form of the API's answer, with its secret headers.
func openedOf(key string, c *notice.Content) map[string]any {
	out := map[string]any{"key": key}
	switch {
	case c.InlineJSON():
		out["content_type"], out["body"] = "application/json", json.RawMessage(c.Body)
	case len(c.Body) > 0:
		out["body_base64"] = c.Body
	}

	if c.URL != "" {
		out["url"] = c.URL
	}

	if len(c.Headers) > 0 {
		headers := map[string]string{}
		for _, h := range c.Headers {
			headers[h.Name] = h.Value
		}

		out["headers"] = headers
	}

	return out
}

// sayOpened prints an opened content: its JSON, or only its body, byte for byte unless the output is a terminal.
func (a *command) sayOpened(raw, body []byte) error {
	switch {
	case a.json:
		return a.sayJSON(raw)
	case a.screen.terminal:
		a.say("%s\n", clean(string(body)))
	default:
		a.say("%s", body)
	}

	return nil
}
