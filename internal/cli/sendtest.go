package cli

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/internal/callback"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
)

func (a *command) sendTest() *cobra.Command {
	var to, body, audience string
	c := &cobra.Command{
		Use:   "send-test ROUTE",
		Short: "Make one signed callback now and show the whole exchange",
		Long: `Makes one callback the way the route would, from this machine, past Redis and
all limits, and shows what was sent and answered, with secrets as dots, and what
the service would make of the answer. A line for each scheme has the text that was
signed, for comparison with what a receiver computes.`,
		Example: `  notifier send-test orders
  notifier send-test orders --to https://shop.example/hook --body '{"test":true}'`,
		Args:              takes(1, 1),
		ValidArgsFunction: once(a.configuredNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			table, err := route.NewTable(cfg.Routes)
			if err != nil {
				return usage("%w", err)
			}
			r := table.Name(args[0])
			switch {
			case r == nil:
				return usage("no route is named %q", args[0])
			case r.Target.Kind != route.KindFixed && r.Target.Kind != route.KindNotice:
				return usage("the target of route %s is %s, which makes no callback", r.Name, r.Target.Kind)
			case r.Target.Kind == route.KindNotice && to == "":
				return usage("the target of route %s is notice; want --to with the address", r.Name)
			case r.Target.Kind == route.KindFixed && to != "":
				return usage("route %s has an address of its own; --to is for targets that are notice", r.Name)
			case r.Signs() == sign.PerAudience && audience == "":
				return usage("route %s signs for each audience; want --audience with a name", r.Name)
			case notice.CheckAudience(audience) != nil:
				return usage("--audience: want 1 to %d letters, digits, '_', '.', '~' or '-'", notice.MaxAudience)
			}
			content, err := testContent(r, body)
			if err != nil {
				return err
			}
			content.URL, content.Audience = to, audience
			key := r.Prefix + strings.Repeat(":test", 4-len(strings.Split(r.Prefix, ":")))
			now := time.Now().UTC().Truncate(time.Millisecond)
			x, err := a.probe(cmd.Context(), r, &notice.Notice{Key: key, Route: r.Prefix, Made: notice.MadeAt(now), Due: now,
				Content: content})
			if err != nil {
				return err
			}
			if a.json {
				if err := a.sayValue(x); err != nil {
					return err
				}
			} else {
				a.say("%s", x.String())
			}
			if x.Result.Outcome != notice.OutcomeDelivered {
				return errQuiet
			}
			return nil
		},
	}
	c.Flags().StringVar(&to, "to", "", "address to call, if the route's target is notice")
	c.Flags().StringVar(&body, "body", "",
		`the body, as JSON, or as a form if the route signs with alipay (default {"test":true} or test=true)`)
	c.Flags().StringVar(&audience, "audience", "", "whom it is for, if the route signs for each audience")
	return a.withJSON(c)
}

// testContent is the content of a test with that body, or with one of its own if body is empty.
func testContent(r *route.Route, body string) (notice.Content, error) {
	own, typ := r.TestContent()
	c := notice.Content{Body: own, ContentType: typ}
	if body != "" {
		c.Body = []byte(body)
	}
	if typ == "" && !json.Valid(c.Body) {
		return c, usage("--body is not JSON")
	}
	if wrong := r.Invalid(&notice.Content{Body: c.Body, ContentType: typ, Audience: "any"}); wrong != "" {
		return c, usage("--body: %s", strings.TrimPrefix(wrong, "its body "))
	}
	return c, nil
}

func (a *command) probe(ctx context.Context, r *route.Route, n *notice.Notice) (callback.Exchange, error) {
	if a.deps.Probe != nil {
		return a.deps.Probe(ctx, r, n), nil
	}
	h := callback.New(callback.Options{UserAgent: "notifier/" + a.Version})
	defer h.Close()
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	return h.Probe(ctx, r, n), nil
}
