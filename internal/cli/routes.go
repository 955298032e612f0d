package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
)

func (a *command) routes() *cobra.Command {
	c := a.withJSON(&cobra.Command{
		Use:   "routes [NAME...]",
		Short: "Print the effective configuration",
		Long: `Reads the environment as serve does, without any connection, and prints each route in a
line. With NAMEs it prints the ladder of those routes: when each attempt is made, counted
from the first. Its commands call the service.`,
		ValidArgsFunction: a.configuredNames,
		Example: `  notifier routes
  notifier routes orders
  notifier routes --json | jq '.[].total'`,
		RunE: func(_ *cobra.Command, args []string) error {
			chosen, err := a.chosenRoutes(args)
			switch {
			case err != nil:
				return err
			case a.json:
				return a.sayRoutesJSON(chosen)
			case len(args) == 0:
				a.sayRoutes(chosen)
				return nil
			}

			for i, r := range chosen {
				if i > 0 {
					a.say("\n")
				}
				a.sayRoute(r)
			}

			return nil
		},
	})
	c.AddCommand(a.recorded(), a.release())
	return c
}

// chosenRoutes returns the configured routes with these names, or all of them.
func (a *command) chosenRoutes(names []string) ([]*route.Route, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	if len(cfg.Routes) == 0 {
		return nil, usage("NOTIFIER_ROUTES is empty; want the names of routes")
	}

	table, err := route.NewTable(cfg.Routes)
	if err != nil {
		return nil, usage("%w", err)
	}
	if len(names) == 0 {
		return cfg.Routes, nil
	}

	var chosen []*route.Route
	for _, name := range names {
		r := table.Name(name)
		if r == nil {
			return nil, usage("no route is named %q", name)
		}

		chosen = append(chosen, r)
	}

	return chosen, nil
}

func (a *command) sayRoutesJSON(routes []*route.Route) error {
	out := make([]routeView, len(routes))
	for i, r := range routes {
		out[i] = viewRoute(r)
	}

	return a.sayValue(out)
}

type routeView struct {
	Name        string     `json:"name"`
	Prefix      string     `json:"prefix"`
	Target      string     `json:"target"`
	Ack         string     `json:"ack"`
	OnStatus    string     `json:"on_status,omitempty"`
	PauseAfter  string     `json:"pause_after,omitempty"`
	Timeout     string     `json:"timeout"`
	Lease       string     `json:"lease"`
	Jitter      float64    `json:"jitter"`
	Expires     string     `json:"expires,omitempty"`
	Concurrency int        `json:"concurrency"`
	Signed      int        `json:"secrets"`
	Sign        []string   `json:"sign,omitempty"`     // the schemes; empty = unsigned
	SignPer     string     `json:"sign_per,omitempty"` // empty = no scheme uses a secret
	Total       string     `json:"total"`
	Summary     string     `json:"summary"`
	Ladder      []stepView `json:"ladder"`
}

type stepView struct {
	Attempt int    `json:"attempt"`
	After   string `json:"after"` // the previous attempt
	At      string `json:"at"`    // from the first attempt
}

func viewRoute(r *route.Route) routeView {
	v := routeView{Name: r.Name, Prefix: r.Prefix, Target: string(r.Target.Kind), Ack: r.Acknowledgement(), OnStatus: r.OnStatus.String(),
		Timeout: notice.Short(r.Timeout), Lease: notice.Short(r.Lease()), Jitter: r.Jitter, Concurrency: r.Concurrency, Signed: len(r.Secrets),
		Total: notice.Short(r.Ladder.Total()), Summary: r.Ladder.Summary(), Ladder: []stepView{{Attempt: 1, After: "0s", At: "0s"}}}
	signing := r.Signing()
	if signing.Shared() {
		v.SignPer = string(r.Signs())
	}

	if r.PauseAfter > 0 {
		v.PauseAfter = notice.Short(r.PauseAfter)
	}

	if r.Expires > 0 {
		v.Expires = notice.Short(r.Expires)
	}

	v.Sign = r.SignedBy()

	var at time.Duration
	for i, d := range r.Ladder {
		at += max(d, -d)
		v.Ladder = append(v.Ladder, stepView{Attempt: i + 2, After: notice.StepText(d), At: notice.Short(at)})
	}

	return v
}

// signing returns the schemes and the scope of the keys.
func (v *routeView) signing() string {
	var parts []string
	switch {
	case len(v.Sign) == 0:
		return "unsigned"
	case len(v.Sign) > 1 || v.Sign[0] != string(sign.Standard):
		parts = append(parts, "by "+strings.Join(v.Sign, "+"))
	}

	if v.SignPer != "" {
		parts = append(parts, "per "+v.SignPer)
	}

	if v.Signed > 1 {
		parts = append(parts, fmt.Sprintf("%d secrets", v.Signed))
	}

	return strings.Join(parts, ", ")
}

// sayRoutes prints a line for each route.
func (a *command) sayRoutes(routes []*route.Route) {
	rows := [][]cell{head("ROUTE\tPREFIX\tTARGET\tACK\tTIMEOUT\tAT A TIME\tSIGNED\tRETRIES\tDELAYS")}
	for _, r := range routes {
		v := viewRoute(r)
		signed := styled(v.signing(), plain)
		if len(v.Sign) == 0 {
			signed.look = faint
		}

		steps := make([]string, 0, len(v.Ladder))
		for _, s := range v.Ladder[1:] {
			steps = append(steps, "+"+s.After)
		}

		rows = append(rows, row(styled(v.Name, bold), v.Prefix, v.Target, v.Ack, v.Timeout, v.Concurrency, signed, v.Summary,
			dash(strings.Join(steps, " "))))
	}

	a.screen.table(true, rows...)
}

// sayRoute prints one route with its ladder.
func (a *command) sayRoute(r *route.Route) {
	v := viewRoute(r)
	a.say("route %s: %s to %s, %s\n", a.screen.paint(v.Name, bold), v.Prefix, v.Target, v.Summary)
	detail := fmt.Sprintf("acknowledged by %s within %s, lease %s, %d at a time", v.Ack, v.Timeout, v.Lease, v.Concurrency)
	if v.Jitter > 0 {
		detail += fmt.Sprintf(", each step ± %g %%", v.Jitter*100)
	}

	if v.Expires != "" {
		detail += ", expires " + v.Expires + " after it is due"
	}

	if v.OnStatus != "" {
		detail += ", on status " + v.OnStatus
	}

	if v.PauseAfter != "" {
		detail += ", receivers paused after " + v.PauseAfter + " of failures"
	}

	if len(v.Sign) > 0 {
		detail += ", signed " + v.signing()
	} else {
		detail += ", unsigned"
	}

	a.say("  %s\n", detail)
	rows := [][]cell{head("  ATTEMPT\tAFTER\tFROM THE FIRST")}
	for _, s := range v.Ladder {
		rows = append(rows, row(s.Attempt, "+"+s.After, s.At))
	}

	rows = append(rows, row("  total", "", v.Total))
	a.screen.table(false, rows...)
}
