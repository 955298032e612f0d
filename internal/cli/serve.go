package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"notifier/internal/app"
	"notifier/internal/config"
)

// logWrong logs the problems of the configuration in the configured format, because log collectors may not accept other
// lines.
func (a *command) logWrong(errs config.Errors) {
	log, err := app.NewLog("error", "json", a.Stderr)
	if err != nil {
		a.complain("wrong configuration:\n%v", errs)
		return
	}

	defer log.Close()
	for _, p := range errs {
		log.Error("wrong configuration", zap.String("variable", p.Variable), zap.String("problem", p.String()))
	}
}

func (a *command) serve() *cobra.Command {
	o := ServeOptions{Version: a.Version, Stdout: a.Stdout, Stderr: a.Stderr}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Long: `Runs the service until SIGTERM, SIGINT or SIGHUP (except under nohup). Then it stops claiming,
waits for running attempts, and releases the other claims. A second SIGTERM or SIGINT ends it at
once.

NOTIFIER_* variables configure everything. notifier routes prints the effective routes,
notifier doctor checks Redis.`,
		Example: `  NOTIFIER_ROUTES=orders \
  NOTIFIER_ROUTE_ORDERS_PREFIX=app1:orders \
  NOTIFIER_ROUTE_ORDERS_TARGET=notice \
  notifier serve

  # without a Redis, for development: nothing outlives the process
  NOTIFIER_ROUTES=dev NOTIFIER_ROUTE_DEV_PREFIX=app1 NOTIFIER_ROUTE_DEV_TARGET=log notifier serve --embedded`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			if len(cfg.Routes) == 0 {
				return usage("NOTIFIER_ROUTES is empty; want the names of the routes to serve")
			}
			if a.deps.Serve == nil {
				return errors.New("this build cannot serve")
			}

			return a.deps.Serve(cmd.Context(), cfg, o)
		},
	}
	c.Flags().BoolVar(&o.Embedded, "embedded", false, "start a Redis for development (redis-server, or else an emulation); no data is kept")
	return c
}
