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

// Completions call the service with a timeout of a second. If the service is unavailable or refuses, there are no
// completions and no message, because the terminal's line belongs to the user.

// completionTime bounds a call for completions.
const completionTime = time.Second

// offered is the maximum number of offered keys.
const offered = 100

type completer = cobra.CompletionFunc

// words completes words of a closed set.
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

// ask makes a call for a completion; false means that there are none.
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
		ctx = context.Background() // cobra passes no context if it completes without running a command
	}

	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	return call(ctx, c) == nil
}

// routeNames completes the names of the service's routes.
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

// configuredNames completes the names of the routes in the environment.
func (a *command) configuredNames(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if cfg, err := a.config(); err == nil {
		for _, r := range cfg.Routes {
			names = append(names, r.Name)
		}
	}

	return fitting(names, args, begun), cobra.ShellCompDirectiveNoFileComp
}

// once completes only the first argument.
func once(f completer) completer {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(c, args, begun)
	}
}

// noticeKeys completes the keys of notices in a state; empty means any.
func (a *command) noticeKeys(state client.State) completer {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		q := client.Query{State: state, Limit: offered}
		segments := strings.Split(begun, ":")
		q.Prefix = strings.Join(segments[:min(len(segments)-1, 3)], ":")
		var keys []cobra.Completion
		a.ask(c.Context(), func(ctx context.Context, api *client.Client) error {
			var err error
			keys, err = keysWith(ctx, api, q, begun)
			return err
		})
		return fitting(keys, args, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// keysWith returns keys that begin with begun. It reads several pages, because a page may be short although more follow.
func keysWith(ctx context.Context, api *client.Client, q client.Query, begun string) (keys []cobra.Completion, err error) {
	for range 10 {
		p, err := api.List(ctx, q)
		if err != nil {
			return keys, err
		}

		for i := range p.Items {
			if strings.HasPrefix(p.Items[i].Key, begun) {
				keys = append(keys, p.Items[i].Key)
			}
		}

		if q.Cursor = p.Cursor; q.Cursor == "" || len(keys) >= offered {
			return keys, nil
		}
	}
	return keys, nil
}

// completable are the characters without a special meaning in a terminal or a shell.
const completable = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.~"

// fitting returns the completions that have the prefix begun, are not arguments already, and have only
// completable characters.
func fitting(list, written []string, begun string) []cobra.Completion {
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(s string) bool {
		odd := strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(completable, r) })
		return odd || !strings.HasPrefix(s, begun) || slices.Contains(written, s)
	})
}

// completeFlags registers the completion of each flag that has one.
func (a *command) completeFlags(c *cobra.Command) {
	byName := map[string]completer{
		"state": words(notice.States...), "reason": words(notice.Reasons...), "route": a.routeNames,
		"on-duplicate": words(client.Reject, client.Keep, client.Replace), "method": words(notice.Methods...),
		"retry": words("none", "standard", "wechat", "alipay"),
	}
	for name, f := range byName {
		if c.Flags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, f) // the flag exists and has no completion yet
		}
	}
}
