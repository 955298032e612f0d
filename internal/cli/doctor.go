package cli

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/config"
	"notifier/internal/doctor"
)

func (a *command) doctor() *cobra.Command {
	var o doctor.Options
	var quick, acl bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check Redis and the configuration, and suggest fixes",
		Long: `Checks the Redis of the environment: the connection, the user's rights, expired events,
persistence and eviction. Each finding has a severity and a remedy. The exit code is 1 if a
finding is an error.

--fix sets values that are safe to change: notify flags, eviction policy, the subscribers'
output buffer. It does not change redis.conf; the remedies name the lines that belong there.
--acl prints the line of an ACL file with exactly the rights that this configuration needs:
keys, channels and commands. CONFIG is included only with NOTIFIER_CONFIGURE_REDIS=true,
because it cannot be granted for one setting. Run it again after each change of routes.
--quick only checks whether the running service is ready, for health checks.`,
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
	c.Flags().BoolVar(&o.Fix, "fix", false, "set values that are safe to change")
	c.Flags().BoolVar(&quick, "quick", false, "only check whether the running service is ready")
	c.Flags().BoolVar(&acl, "acl", false, "print the minimum rights for this configuration")
	a.either(c, false, "quick", "fix", "acl")
	return a.withJSON(c)
}

// sayACL prints the line of an ACL file for a configuration. If Redis's prefixes cannot be read, it reports that on
// standard error and prints the line for the configuration alone.
func (a *command) sayACL(ctx context.Context, cfg *config.Config) error {
	user, rules, err := doctor.ACLUser(ctx, cfg)
	if rules == nil {
		return err
	}

	if err != nil {
		fmt.Fprintf(a.Stderr, "notifier: cannot read the prefixes stored in Redis (%v); the line covers only this configuration\n", err)
	}

	if a.json {
		return a.sayValue(map[string]any{"user": user, "rules": rules})
	}

	a.say("user %s on %s\n", user, strings.Join(rules, " "))
	return nil
}

// configWithoutRoutes reads the configuration for checks of Redis, which need no routes.
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

// quick calls the service's /readyz.
func (a *command) quick(ctx context.Context) error {
	if err := a.useListen(); err != nil {
		return err
	}

	h, err := fetch(a, func(c *client.Client) (*client.Health, error) { return c.Ready(ctx) })
	if err != nil {
		return err
	}

	if a.json {
		err = a.sayJSON(h.JSON)
	} else {
		a.say("%s\n", clean(stateOf(h)))
	}

	if err == nil && !h.Ready {
		return errQuiet
	}

	return err
}

// useListen takes the address of the service from NOTIFIER_LISTEN if neither --api nor NOTIFIER_URL is set.
func (a *command) useListen() error {
	if a.api != "" || a.env["NOTIFIER_URL"] != "" || a.env["NOTIFIER_LISTEN"] == "" {
		return nil
	}

	host, port, err := net.SplitHostPort(a.env["NOTIFIER_LISTEN"])
	if err != nil {
		return usage("NOTIFIER_LISTEN: %w", err)
	}

	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}

	a.api = "http://" + net.JoinHostPort(host, port)
	return nil
}

// stateOf returns the health of a service as text.
func stateOf(h *client.Health) string {
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

	return state
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
