package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/app"
	"notifier/internal/config"
	"notifier/internal/queue"
	"notifier/internal/wire"
)

func (a *command) consume() *cobra.Command {
	var (
		shell                string
		timeout, idle, drain time.Duration
		group, consumer      string
		after                time.Duration
		concurrency          int
	)
	c := &cobra.Command{
		Use:   "consume ROUTE --exec COMMAND",
		Short: "Run a command for each notice of a list or stream route",
		Long: `Takes the notices of a list or stream route from Redis (NOTIFIER_REDIS_URL,
NOTIFIER_REDIS_MODE), runs a command for each, and reports the result to the service
(NOTIFIER_URL, NOTIFIER_TOKEN).

sh -c runs the command, with the body on its standard input and these variables in its
environment: NOTICE_KEY, NOTICE_ID, NOTICE_ATTEMPT, NOTICE_DUE, NOTICE_CONTENT_TYPE;
and NOTICE_BODY=lost if there is no body because the timer expired before it was adopted.
Redis's address, tokens and other secrets of the service are removed from its environment.
A command that calls the API itself reads NOTIFIER_TOKEN_FILE.

  exit 0      done
  exit 75     deferred: the notice comes again and uses no attempt (a lock was taken)
  any other   failed: the notice comes again on the route's ladder

The exit code also counts while background processes of the command still run.

On a route with ACK=report no notice is lost when a consumer dies. On a list without it, the
entries that a consumer had taken when it died are lost. Several consumers may run. On a
stream they are members of one group, and claim the entries of dead members.`,
		Example: `  notifier consume mail --exec 'sendmail -t'
  notifier consume orders --exec ./close-order --concurrency 8`,
		Args:              takes(1, 1),
		ValidArgsFunction: once(a.routeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if shell == "" {
				return usage("--exec is empty; want the command to run for each notice")
			}
			if concurrency < 1 || idle < time.Second {
				return usage("--concurrency must be 1 or more, and --idle a second or more")
			}

			ctx := cmd.Context()
			api, err := a.client()
			if err != nil {
				return err
			}

			defer api.Close()
			r, err := queueRoute(ctx, api, args[0])
			if err != nil {
				return err
			}

			conn, err := a.redis()
			if err != nil {
				return err
			}

			defer func() { _ = conn.Close() }()
			log, err := app.NewLog(a.or("NOTIFIER_LOG_LEVEL", "info"), a.or("NOTIFIER_LOG_FORMAT", "console"), a.Stderr)
			if err != nil {
				return usage("NOTIFIER_LOG_LEVEL: %w", err)
			}

			defer log.Close()
			report, limit := r.Ack == "report", time.Duration(r.TimeoutMS)*time.Millisecond
			if timeout == 0 && report {
				timeout = limit * 9 / 10 // the report must arrive within the route's timeout
			}

			if !report && r.Target == "list" {
				a.complain("notifier: route %s does not await reports: the notices in flight are lost if this process dies; "+
					"ACK=report prevents that", r.Name)
			}

			run := &queue.Command{Shell: shell, Environ: config.WithoutCredentials(a.Environ), Timeout: timeout, Stdout: a.pipe.Writer,
				Stderr: log}
			return queue.NewConsumer(queue.ConsumerOptions{Redis: conn, Stream: r.Target == "stream", Key: r.TargetKey, Group: group,
				Consumer: consumer,
				Idle:     idle, Report: report, Timeout: limit, Concurrency: concurrency, Drain: drain, After: after, Worker: run, API: api,
				Logger: log.Logger}).Run(ctx)
		},
	}
	f := c.Flags()
	f.StringVar(&shell, "exec", "", "the command line for sh -c")
	f.IntVar(&concurrency, "concurrency", 1, "number of simultaneous commands")
	f.DurationVar(&timeout, "timeout", 0, "end a command after this time (default: nine tenths of the route's timeout if it awaits reports, "+
		"else never)")
	f.DurationVar(&drain, "drain", 25*time.Second, "how long a stop waits for running commands")
	delayVar(f, &after, "put-off", "delay of deferred notices (default: chosen by the service)")
	f.StringVar(&group, "group", "notifier", "for a stream: the name of the group")
	f.StringVar(&consumer, "consumer", consumerName(), "for a stream: the name of this process in the group")
	f.DurationVar(&idle, "idle", time.Minute, "for a stream: claim entries that were idle for this time")
	f.Lookup("consumer").DefValue = "host name and random"
	_ = c.MarkFlagRequired("exec") // it is defined above
	return c
}

func consumerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}

	return host + "-" + strings.ToLower(rand.Text()[:6])
}

// queueRoute reads the list or stream of a route from the service.
func queueRoute(ctx context.Context, api *client.Client, name string) (*client.Route, error) {
	all, err := api.Routes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the routes: %w", err)
	}

	var names []string
	for i := range all {
		queue := all[i].TargetKey != ""
		if all[i].Name == name && queue {
			return &all[i], nil
		}
		if all[i].Name == name {
			return nil, usage("the target of route %s is %s; want a route to a list or stream", name, all[i].Target)
		}

		if queue {
			names = append(names, all[i].Name)
		}
	}

	if len(names) == 0 {
		return nil, usage("there is no route %s, and no route has a list or stream", clean(name))
	}

	return nil, usage("there is no route %s; the routes with a list or stream are %s", clean(name), strings.Join(names, ", "))
}

// redis connects as the service does.
func (a *command) redis() (*wire.Conn, error) {
	r, err := config.LoadRedis(envconfig.MapLookuper(a.env), os.ReadFile)
	if err != nil {
		return nil, usage("%w", err)
	}

	conn, err := open(r)
	if err != nil {
		return nil, usage("NOTIFIER_REDIS_URL: %w", err)
	}

	return conn, nil
}

func (a *command) or(name, otherwise string) string {
	if v := a.env[name]; v != "" {
		return v
	}
	return otherwise
}
