package cli

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
)

// What a shell completes is asked of the service, which gets a second for it.
// Where it is away or refuses, nothing is offered and nothing is said: the
// terminal's line belongs to the user.

// completionTime is how long a shell waits for the service.
const completionTime = time.Second

// offered is how many keys are offered at most.
const offered = 100

type completer = cobra.CompletionFunc

// words completes from a closed set.
func words[T ~string](set ...T) completer {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list []cobra.Completion
		for _, w := range set {
			if strings.HasPrefix(string(w), begun) {
				list = append(list, string(w))
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// ask makes a call for a completion; false means that there is nothing to offer.
func (a *command) ask(ctx context.Context, call func(context.Context, *client.Client) error) bool {
	o, err := a.apiOptions()
	if err != nil {
		return false
	}
	o.Retries, o.HTTP = -1, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c, err := client.New(o)
	if err != nil {
		return false
	}
	if ctx == nil {
		ctx = context.Background() // cobra gives none where it completes without a command having run
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	return call(ctx, c) == nil
}

// routeNames completes the names of routes, as the service has them.
func (a *command) routeNames(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	a.ask(c.Context(), func(ctx context.Context, api *client.Client) error {
		all, err := api.Routes(ctx)
		for _, r := range all {
			names = append(names, r.Name)
		}
		return err
	})
	return fitting(names, args, begun), cobra.ShellCompDirectiveNoFileComp
}

// configuredNames completes the names of routes, as the environment has them.
func (a *command) configuredNames(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if cfg, err := a.config(); err == nil {
		for _, r := range cfg.Routes {
			names = append(names, r.Name)
		}
	}
	return fitting(names, args, begun), cobra.ShellCompDirectiveNoFileComp
}

// once lets an argument be completed, and none after it.
func once(f completer) completer {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(c, args, begun)
	}
}

// noticeKeys completes the keys of notices in a state; empty means any.
func (a *command) noticeKeys(state string) completer {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		q := client.Query{State: state, Limit: offered}
		segments := strings.Split(begun, ":")
		q.Prefix = strings.Join(segments[:min(len(segments)-1, 3)], ":")
		var keys []cobra.Completion
		a.ask(c.Context(), func(ctx context.Context, api *client.Client) error {
			for range 10 { // a page may be short, or hold none that fits, although more follow
				p, err := api.List(ctx, q)
				if err != nil {
					return err
				}
				for i := range p.Items {
					if strings.HasPrefix(p.Items[i].Key, begun) {
						keys = append(keys, p.Items[i].Key)
					}
				}
				if q.Cursor = p.Cursor; q.Cursor == "" || len(keys) >= offered {
					return nil
				}
			}
			return nil
		})
		return fitting(keys, args, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// fitting are the completions that begin as what is written, are not written
// already, and hold nothing that a terminal or a shell would act on.
func fitting(list, written []string, begun string) []cobra.Completion {
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(s string) bool {
		odd := strings.ContainsFunc(s, func(r rune) bool {
			return !(r == ':' || r == '-' || r == '_' || r == '.' || r == '~' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' ||
				r >= 'a' && r <= 'z')
		})
		return odd || !strings.HasPrefix(s, begun) || slices.Contains(written, s)
	})
}

// completeFlags gives each flag that has one the completion of its name.
func (a *command) completeFlags(c *cobra.Command) {
	byName := map[string]completer{
		"state": words(notice.States...), "reason": words(notice.Reasons...), "route": a.routeNames,
		"on-duplicate": words(client.Reject, client.Keep, client.Replace), "method": words(notice.Methods...),
		"retry": words("none", "standard", "wechat", "alipay"),
	}
	for name, f := range byName {
		if c.Flags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, f) // it is there, and has none yet
		}
	}
}
