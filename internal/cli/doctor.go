package cli

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"notifier/internal/config"
	"notifier/internal/doctor"
)

func (a *command) doctor() *cobra.Command {
	var o doctor.Options
	var quick, acl bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check Redis and the configuration, and say what helps",
		Long: `Looks at the Redis of the environment: is it reached, may this user do what is
needed, does it send expired events, keep what it is given, throw nothing away.
Each finding has a severity and a remedy; the exit code is 1 if one is an error.

--fix sets what can be set safely: notify flags, eviction policy, the subscribers'
output buffer. It is not written to redis.conf: the remedies say what belongs there.
--acl prints the line of a file of users that grants what this configuration
needs and nothing else: its keys, its channels, its commands. CONFIG is granted
only with NOTIFIER_CONFIGURE_REDIS=true, since it cannot be granted for one
setting. Run it again after each change of routes.
--quick only asks the running service whether it is ready, for health checks.`,
		Example: `  notifier doctor
  notifier doctor --fix
  notifier doctor --json | jq '.findings[] | select(.severity != "ok")'
  notifier doctor --acl      # user notifier on resetkeys … -@all +…
  notifier doctor --quick    # HEALTHCHECK of a container`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if quick {
				return a.quick(cmd.Context())
			}
			cfg, err := a.configWithoutRoutes()
			if err != nil {
				return err
			}
			if acl {
				return a.sayACL(cmd.Context(), cfg)
			}
			report, err := doctor.Run(cmd.Context(), cfg, o)
			if err != nil {
				return err
			}
			if a.json {
				err = a.sayValue(report)
			} else {
				a.sayReport(report)
			}
			if err == nil && report.Errors > 0 {
				err = errQuiet
			}
			return err
		},
	}
	c.Flags().BoolVar(&o.Fix, "fix", false, "set what can be set safely")
	c.Flags().BoolVar(&quick, "quick", false, "only ask the running service whether it is ready")
	c.Flags().BoolVar(&acl, "acl", false, "print the least rights for this configuration")
	a.either(c, false, "quick", "fix", "acl")
	return a.withJSON(c)
}

// sayACL prints the line of a file of users for a configuration. What cannot be
// read from Redis is reported on standard error: the line is then of the
// configuration alone.
func (a *command) sayACL(ctx context.Context, cfg *config.Config) error {
	user, rules, err := doctor.ACLUser(ctx, cfg)
	if rules == nil {
		return err
	}
	if err != nil {
		fmt.Fprintf(a.Stderr, "notifier: the prefixes that Redis holds could not be read (%v): the line covers this configuration alone\n", err)
	}
	if a.json {
		return a.sayValue(map[string]any{"user": user, "rules": rules})
	}
	a.say("user %s on %s\n", user, strings.Join(rules, " "))
	return nil
}

// configWithoutRoutes is the configuration for looking at Redis, which can be
// done before there are routes.
func (a *command) configWithoutRoutes() (*config.Config, error) {
	if a.env["NOTIFIER_ROUTES"] != "" {
		return a.config()
	}
	const name = "NOTIFIER_ROUTE_DOCTOR_"
	stand := map[string]string{"NOTIFIER_ROUTES": "doctor", name + "PREFIX": "doctor", name + "TARGET": "log"}
	b := *a
	b.env = map[string]string{}
	for k, v := range a.env {
		b.env[k] = v
	}
	b.Environ = append([]string(nil), a.Environ...)
	for k, v := range stand {
		b.env[k] = v
		b.Environ = append(b.Environ, k+"="+v)
	}
	cfg, err := b.config()
	if err == nil {
		cfg.Routes = nil
	}
	return cfg, err
}

// quick asks the service's /readyz.
func (a *command) quick(ctx context.Context) error {
	if a.api == "" && a.env["NOTIFIER_URL"] == "" && a.env["NOTIFIER_LISTEN"] != "" {
		host, port, err := net.SplitHostPort(a.env["NOTIFIER_LISTEN"])
		if err != nil {
			return usage("NOTIFIER_LISTEN: %w", err)
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		a.api = "http://" + net.JoinHostPort(host, port)
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	h, err := c.Ready(ctx)
	if err != nil {
		return err
	}
	if a.json {
		err = a.sayJSON(h.JSON)
	} else {
		state := "ready"
		switch {
		case !h.Ready:
			state = "not ready"
		case h.Degraded:
			state = "ready, degraded"
		}
		if len(h.Reasons) > 0 {
			state += ": " + strings.Join(h.Reasons, "; ")
		}
		a.say("%s\n", clean(state))
	}
	if err == nil && !h.Ready {
		return errQuiet
	}
	return err
}

// severities are the colours of findings.
var severities = map[string]style{"ok": green, "fixed": green, "info": cyan, "warning": yellow, "error": red}

func (a *command) sayReport(r *doctor.Report) {
	for _, f := range r.Findings {
		mark := string(f.Severity)
		if f.Fixed {
			mark = "fixed"
		}
		at := f.Check
		if f.Node != "" {
			at += " of " + f.Node
		}
		a.say("%s %s: %s\n", a.screen.paint(fmt.Sprintf("%-8s", mark), severities[mark]), at, clean(f.Message))
		if f.Remedy != "" && !f.Fixed {
			a.say("         → %s\n", f.Remedy)
		}
	}
	a.say("%d error(s), %d warning(s)\n", r.Errors, r.Warnings)
}
