package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/callback"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
)

func (a *command) sendTest() *cobra.Command {
	var to, body, audience string
	c := &cobra.Command{
		Use:   "send-test ROUTE|KEY",
		Short: "Make one signed callback now and show the result",
		Long: `With the name of a route: makes one callback as the route does, from this machine, without
Redis and limits. Prints the request and the answer, with secrets as dots, and the outcome
that the service would record. A line for each scheme has the signed text, to compare with
the receiver's.

With the key of a notice: the service makes one callback with a test body to the notice's
receiver. The notice does not change. A client may send three tests of a route at once and
six a minute.

The exit code is 1 if the receiver did not acknowledge the test.`,
		Example: `  notifier send-test orders
  notifier send-test orders --to https://shop.example/hook --body '{"test":true}'
  notifier send-test app1:orders:paid:4711`,
		Args:              takes(1, 1),
		ValidArgsFunction: once(a.configuredNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.Contains(args[0], ":") {
				if to+body+audience != "" {
					return usage("--to, --body and --audience are for a route; the notice has its receiver")
				}
				return a.testNotice(cmd.Context(), args[0])
			}

			r, err := a.testRoute(args[0], to, audience)
			if err != nil {
				return err
			}

			content, err := testContent(r, body)
			if err != nil {
				return err
			}

			content.URL, content.Audience = to, audience
			return a.sayTest(cmd.Context(), r, content)
		},
	}
	c.Flags().StringVar(&to, "to", "", "address to call, if the route's target is notice")
	c.Flags().StringVar(&body, "body", "",
		`the body, as JSON, or as a form if the route signs with alipay (default {"test":true} or test=true)`)
	c.Flags().StringVar(&audience, "audience", "", "the notice's audience, if the route signs for each audience")
	return a.withJSON(c)
}

// testNotice has the service send a test to the receiver of a notice.
func (a *command) testNotice(ctx context.Context, key string) error {
	x, err := fetch(a, func(c *client.Client) (*client.TestResult, error) { return c.SendTest(ctx, key) })
	if err != nil {
		return err
	}

	if a.json {
		if err := a.sayJSON(x.JSON); err != nil {
			return err
		}
	} else {
		a.sayTestResult(x)
	}

	if !x.Acknowledged() {
		return errQuiet
	}

	return nil
}

func (a *command) sayTestResult(x *client.TestResult) {
	answered := "no response"
	if x.Status != 0 {
		answered = strconv.Itoa(x.Status) + " " + http.StatusText(x.Status)
	}

	took := time.Duration(x.DurationMS * float64(time.Millisecond)).Round(100 * time.Microsecond)
	a.say("%s: %s after %s\n", clean(x.Host), answered, took)
	if x.Response != "" {
		a.say("%s\n", clean(x.Response))
	}

	switch {
	case x.Acknowledged():
		a.say("The receiver acknowledged the test.\n")
		return
	case x.Reason != "":
		a.say("The receiver did not acknowledge the test: %s.\n", clean(x.Reason))
	default:
		a.say("The receiver did not acknowledge the test.\n")
	}

	switch {
	case x.Final:
		a.say("A notice with this response would become a dead letter.\n")
	case x.NextMS > 0:
		a.say("A notice with this response would be retried in %s.\n", notice.Short(x.Next()))
	}
}

// testRoute returns the route with that name, if a test with these flags can be sent to it.
func (a *command) testRoute(name, to, audience string) (*route.Route, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}

	table, err := route.NewTable(cfg.Routes)
	if err != nil {
		return nil, usage("%w", err)
	}

	r := table.Name(name)
	switch {
	case r == nil:
		return nil, usage("no route is named %q", name)
	case r.Target.Kind != route.KindFixed && r.Target.Kind != route.KindNotice:
		return nil, usage("the target of route %s is %s, which makes no callbacks", r.Name, r.Target.Kind)
	case r.Target.Kind == route.KindNotice && to == "":
		return nil, usage("the target of route %s is notice; want --to with the address", r.Name)
	case r.Target.Kind == route.KindFixed && to != "":
		return nil, usage("route %s has a configured address; --to is for the target notice", r.Name)
	case r.Signs() == sign.PerAudience && audience == "":
		return nil, usage("route %s signs for each audience; want --audience with a name", r.Name)
	case notice.CheckAudience(audience) != nil:
		return nil, usage("--audience: want 1 to %d letters, digits, '_', '.', '~' or '-'", notice.MaxAudience)
	}

	return r, nil
}

// sayTest makes one callback with that content and prints the exchange.
func (a *command) sayTest(ctx context.Context, r *route.Route, content notice.Content) error {
	key := r.Prefix + strings.Repeat(":test", 4-len(strings.Split(r.Prefix, ":")))
	now := time.Now().UTC().Truncate(time.Millisecond)
	x, err := a.probe(ctx, r, &notice.Notice{Key: key, Route: r.Prefix, Made: notice.MadeAt(now), Due: now, Content: content})
	if err != nil {
		return err
	}

	if !a.json {
		a.say("%s", x.String())
	} else if err := a.sayValue(x); err != nil {
		return err
	}

	if x.Result.Outcome != notice.OutcomeDelivered {
		return errQuiet
	}

	return nil
}

// testContent returns the content of a test with that body, or with a default body if it is empty.
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
