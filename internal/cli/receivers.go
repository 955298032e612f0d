package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifier/client"
)

// receiverVar adds the flags that name a receiver.
func receiverVar(f *pflag.FlagSet, r *client.ReceiverName, audience bool) {
	f.StringVar(&r.Host, "host", "", "a host with all its ports, or host:port: shop.example")
	if audience {
		f.StringVar(&r.Audience, "audience", "", "an audience")
	}

	f.StringVar(&r.Prefix, "prefix", "", "only notices under this prefix")
}

// named reports whether the flags name a receiver, and returns an error unless they name exactly one, or args a route.
func named(r client.ReceiverName, args []string) (bool, error) {
	n := len(args)
	for _, name := range []string{r.Host, r.Audience} {
		if name != "" {
			n++
		}
	}

	if n != 1 {
		return false, usage("want one of ROUTE, --host and --audience")
	}

	return len(args) == 0, nil
}

func (a *command) receivers() *cobra.Command {
	var host string
	c := &cobra.Command{
		Use:   "receivers",
		Short: "Show the receivers: failing, paused, limited, or called now",
		Long: `Shows paused and limited receivers first, then those with failures within 48 hours and
those that are called now. ATTEMPTS and FAILED are those of this clock hour and the one
before. HELD notices wait for the end of the pause.`,
		Example: "  notifier receivers\n  notifier receivers --host shop.example",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			l, err := c.Receivers(cmd.Context(), host)
			if err != nil {
				return err
			}
			if a.json {
				return a.sayJSON(l.JSON)
			}

			a.showReceivers(l)
			return nil
		},
	}
	c.Flags().StringVar(&host, "host", "", "only this host, with or without its port")
	return a.withJSON(c)
}

func (a *command) showReceivers(l *client.Receivers) {
	rows := [][]cell{head("RECEIVER\tPREFIX\tPAUSED\tHELD\tIN FLIGHT\tATTEMPTS\tFAILED\tFAILING SINCE\tBREAKER\tRATE\tCONCURRENCY")}
	number := func(n int64) string {
		if n == 0 {
			return "-"
		}
		return strconv.FormatInt(n, 10)
	}
	for i := range l.Items {
		x := &l.Items[i]
		name, paused, since := x.Host, "-", "-"
		if x.Audience != "" {
			name = "audience " + x.Audience
		}

		if x.Paused {
			if paused = "paused"; !x.PausedUntil.IsZero() {
				paused = "until " + a.screen.when(x.PausedUntil)
			}
		}

		if !x.FailingSince.IsZero() {
			since = a.screen.when(x.FailingSince)
		}

		rows = append(rows, row(name, dash(x.Prefix), styled(paused, yellow), number(x.Held), number(int64(x.InFlight)),
			number(int64(x.Attempts)), number(int64(x.Failed)), styled(since, red), dash(x.Breaker), dash(x.Rate), number(int64(x.Concurrency))))
	}

	a.screen.table(false, rows...)
	if l.LeftOut > 0 {
		a.complain("%d more receivers; --host selects some", l.LeftOut)
	}
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

			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			s, err := c.LimitReceiver(cmd.Context(), r, rate, concurrency)
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

	name := clean(s.Host)
	if s.Audience != "" {
		name = "audience " + clean(s.Audience)
	}

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
	c, err := a.client()
	if err != nil {
		return err
	}

	defer c.Close()
	s, err := c.PauseReceiver(cmd.Context(), r.ReceiverName, r.until, r.over)
	if err != nil {
		return err
	}

	return a.showReceiver(s, "paused")
}

func (a *command) resumeReceiver(cmd *cobra.Command, r receiverTimes) error {
	c, err := a.client()
	if err != nil {
		return err
	}

	defer c.Close()
	s, err := c.ResumeReceiver(cmd.Context(), r.ReceiverName, r.over)
	if err != nil {
		return err
	}

	return a.showReceiver(s, "resumed")
}
