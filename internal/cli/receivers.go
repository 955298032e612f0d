package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifier/client"
)

// receiverVar adds the flags that name a receiver.
func receiverVar(f *pflag.FlagSet, r *client.ReceiverName, audience bool) {
	f.StringVar(&r.Host, "host", "", "a host with all its ports, or host:port: shop.example")
	if audience {
		f.StringVar(&r.Audience, "audience", "", "an audience, alone or at the host")
	}

	f.StringVar(&r.Prefix, "prefix", "", "only notices under this prefix")
}

// named reports whether the flags name a receiver, and returns an error unless they name exactly one, or args a route.
func named(r client.ReceiverName, args []string) (bool, error) {
	if (r.Host != "" || r.Audience != "") == (len(args) == 1) {
		return false, usage("want ROUTE, or --host, --audience or both")
	}

	return len(args) == 0, nil
}

func (a *command) receivers() *cobra.Command {
	var q client.ReceiverQuery
	var all bool
	c := &cobra.Command{
		Use:   "receivers",
		Short: "Show the receivers: failing, paused, limited, or called now",
		Long: `Shows the receivers that failed within 48 hours, paused and limited ones, and those that
are called now; those that fail longest first. ATTEMPTS and FAILED are those of this
clock hour and the one before. WAITING notices are due or have failed before. HELD
notices wait for the end of the pause. PAUSED names the rule of a route that has made
the pause.`,
		Example: `  notifier receivers
  notifier receivers --state failing --route orders --reason timeout
  notifier receivers --contains shop --all
  notifier receivers --host shop.example`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			return a.showReceivers(cmd.Context(), c, q, all)
		},
	}
	f := c.Flags()
	f.StringVar(&q.Host, "host", "", "only this host, with or without its port")
	f.StringVar(&q.Contains, "contains", "", "only hosts and audiences that contain this text")
	f.StringVar(&q.State, "state", "", "failing, paused, limited or recovered (default: all)")
	f.StringVar(&q.Route, "route", "", "name of a route: its receivers, with its figures")
	f.StringVar(&q.Reason, "reason", "", "why the last attempt failed: status_5xx, timeout, connect, …")
	f.IntVar(&q.Limit, "limit", 0, "receivers a page, 1 to 1000 (default 100)")
	f.StringVar(&q.Cursor, "cursor", "", "continue after an earlier page")
	f.BoolVar(&all, "all", false, "print all pages")
	return a.withJSON(c)
}

// showReceivers prints a page of receivers, or all.
func (a *command) showReceivers(ctx context.Context, c *client.Client, q client.ReceiverQuery, all bool) error {
	rows := [][]cell{head("RECEIVER\tPREFIX\tPAUSED\tHELD\tIN FLIGHT\tATTEMPTS\tFAILED\tFAILING SINCE\tREASON\tWAITING" +
		"\tBREAKER\tRATE\tCONCURRENCY")}
	for {
		l, err := c.Receivers(ctx, q)
		if err != nil {
			return err
		}

		if a.json {
			if err := a.sayJSON(l.JSON); err != nil {
				return err
			}
		}

		for i := range l.Items {
			rows = append(rows, a.receiverRow(&l.Items[i]))
		}

		if q.Cursor = l.Cursor; q.Cursor == "" || !all {
			break
		}
	}

	if !a.json {
		a.screen.table(false, rows...)
	}

	if q.Cursor != "" {
		a.complain("there are more: --cursor %s, or --all", q.Cursor)
	}

	return nil
}

// receiverTitle names a receiver: "shop.example", "audience m17" or "shop.example audience m17".
func receiverTitle(r client.ReceiverName) string {
	if r.Audience == "" {
		return r.Host
	}
	return strings.TrimSpace(r.Host + " audience " + r.Audience)
}

func (a *command) receiverRow(x *client.ReceiverFigures) []cell {
	number := func(n int64) string {
		if n == 0 {
			return "-"
		}
		return strconv.FormatInt(n, 10)
	}
	name, paused, since, reason := receiverTitle(x.ReceiverName), "-", "-", x.Reason
	if x.Paused {
		switch paused = "paused"; {
		case x.PausedBy != "":
			paused = "by " + x.PausedBy
		case !x.PausedUntil.IsZero():
			paused = "until " + a.screen.when(x.PausedUntil)
		}
	}

	if !x.FailingSince.IsZero() {
		since = a.screen.when(x.FailingSince)
	}

	if x.Status > 0 && x.Reason != "" {
		reason = strconv.Itoa(x.Status) + " " + x.Reason
	}

	return row(name, dash(x.Prefix), styled(paused, yellow), number(x.Held), number(int64(x.InFlight)), number(int64(x.Attempts)),
		number(int64(x.Failed)), styled(since, red), dash(reason), number(int64(x.Waiting)), dash(x.Breaker), dash(x.Rate),
		number(int64(x.Concurrency)))
}

func (a *command) limit() *cobra.Command {
	var r client.ReceiverName
	var rate string
	var concurrency int
	c := &cobra.Command{
		Use:   "limit --host HOST",
		Short: "Limit the calls to one host",
		Long: `Lowers rate and concurrent calls of one host, on each route. The lower of these limits
and the route's hold. Without --rate and --concurrency, the limits are removed.`,
		Example: "  notifier limit --host shop.example --rate 5/s --concurrency 2\n  notifier limit --host shop.example",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.Host == "" {
				return usage("want --host")
			}

			s, err := fetch(a, func(c *client.Client) (*client.ReceiverState, error) {
				return c.LimitReceiver(cmd.Context(), r, rate, concurrency)
			})
			if err != nil {
				return err
			}

			return a.showReceiver(s, "limited")
		},
	}
	receiverVar(c.Flags(), &r, false)
	c.Flags().StringVar(&rate, "rate", "", "calls in a second, a minute or an hour: 5/s")
	c.Flags().IntVar(&concurrency, "concurrency", 0, "concurrent calls")
	return a.withJSON(c)
}

// showReceiver prints a receiver after a change; did is "paused", "resumed" or "limited".
func (a *command) showReceiver(s *client.ReceiverState, did string) error {
	if s.Host != "" && !s.Known {
		a.complain("no attempt for %s failed within 48 hours, so there are no figures of it: check the name", clean(s.Host))
	}

	if a.json {
		return a.sayJSON(s.JSON)
	}

	name := clean(receiverTitle(s.ReceiverName))
	switch {
	case did == "resumed" && !s.Changed:
		a.say("%s was not paused\n", name)
	case did == "limited" && s.Rate == "" && s.Concurrency == 0:
		a.say("%s has the routes' limits\n", name)
	case did == "limited":
		a.say("%s is limited: rate %s, concurrency %s\n", name, dash(s.Rate),
			dash(map[bool]string{true: strconv.Itoa(s.Concurrency)}[s.Concurrency > 0]))
	case !s.PausedUntil.IsZero():
		a.say("%s is paused until %s\n", name, a.screen.when(s.PausedUntil))
	default:
		a.say("%s is %s\n", name, did)
	}

	return nil
}

// receiverTimes are the flags of pause and resume for a receiver.
type receiverTimes struct {
	client.ReceiverName
	until time.Time
	over  time.Duration
}

func (a *command) pauseReceiver(cmd *cobra.Command, r receiverTimes) error {
	s, err := fetch(a, func(c *client.Client) (*client.ReceiverState, error) {
		return c.PauseReceiver(cmd.Context(), r.ReceiverName, r.until, r.over)
	})
	if err != nil {
		return err
	}

	return a.showReceiver(s, "paused")
}

func (a *command) resumeReceiver(cmd *cobra.Command, r receiverTimes) error {
	s, err := fetch(a, func(c *client.Client) (*client.ReceiverState, error) {
		return c.ResumeReceiver(cmd.Context(), r.ReceiverName, r.over)
	})
	if err != nil {
		return err
	}

	if err := a.showReceiver(s, "resumed"); err != nil || s.Changed || a.json {
		return err
	}

	return a.nameNarrowerPauses(cmd, r.ReceiverName)
}

// nameNarrowerPauses names the pauses of a receiver under prefixes, as rules make them, with the commands that end them.
func (a *command) nameNarrowerPauses(cmd *cobra.Command, asked client.ReceiverName) error {
	list, err := fetch(a, func(c *client.Client) (*client.Receivers, error) {
		return c.Receivers(cmd.Context(), client.ReceiverQuery{Host: asked.Host, State: "paused"})
	})
	if err != nil {
		return err
	}

	for i := range list.Items {
		p := list.Items[i].ReceiverName
		if p.Prefix == "" || p == asked || asked.Audience != "" && p.Audience != asked.Audience {
			continue
		}

		command := "notifier resume"
		for _, f := range [][2]string{{"host", p.Host}, {"audience", p.Audience}, {"prefix", p.Prefix}} {
			if f[1] != "" {
				command += " --" + f[0] + " " + clean(f[1])
			}
		}

		a.complain("its notices under %s are paused: %s", clean(p.Prefix), command)
	}

	return nil
}
