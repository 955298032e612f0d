package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"notifier/internal/notice"
)

// delayFlag is a Go duration or a number of seconds, as in the API.
type delayFlag struct{ to *time.Duration }

func delayVar(f *pflag.FlagSet, to *time.Duration, name, about string) {
	f.Var(delayFlag{to}, name, about)
}

func (d delayFlag) Type() string { return "duration" }

func (d delayFlag) String() string {
	if d.to == nil || *d.to == 0 {
		return ""
	}
	return notice.Short(*d.to)
}

func (d delayFlag) Set(s string) error {
	v, err := notice.ParseDuration(s)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), notice.ErrInvalid.Error()+": "))
	}

	*d.to = v
	return nil
}

// instantFlag is a time in the forms of package notice, in the zone of TZ.
type instantFlag struct {
	to   *time.Time
	now  func() time.Time // in that zone
	ages bool             // past times: see notice.TakeLast; else notice.TakeNext
	// spoken is set to the full time if the text was a short form.
	spoken *string
}

// instantVar adds a flag for a future time.
func (a *command) instantVar(f *pflag.FlagSet, to *time.Time, name, about string) {
	f.Var(instantFlag{to: to, now: a.now, spoken: new(string)}, name, about)
}

// agoVar adds a flag for a past time.
func (a *command) agoVar(f *pflag.FlagSet, to *time.Time, name, about string) {
	f.Var(instantFlag{to: to, now: a.now, ages: true, spoken: new(string)}, name, about)
}

// now returns the time in the zone of TZ.
func (a *command) now() time.Time {
	if zone, err := time.LoadLocation(a.env["TZ"]); a.env["TZ"] != "" && err == nil {
		return time.Now().In(zone)
	}
	return time.Now()
}

// sayTimes prints the full times of flags that were given in a short form.
func (a *command) sayTimes(f *pflag.FlagSet) {
	f.Visit(func(f *pflag.Flag) {
		i, ok := f.Value.(instantFlag)
		if x, expires := f.Value.(expiryFlag); expires {
			i, ok = x.instantFlag, true
		}

		if ok && *i.spoken != "" {
			a.complain("--%s is %s", f.Name, *i.spoken)
		}
	})
}

func (i instantFlag) Type() string { return "time" }

func (i instantFlag) String() string {
	if i.to == nil || i.to.IsZero() {
		return ""
	}
	return i.to.Format(time.RFC3339Nano)
}

func (i instantFlag) Set(s string) error {
	*i.spoken = ""
	side := notice.TakeNext
	if i.ages {
		side = notice.TakeLast
	}

	t, err := notice.ParseInstant(s, i.now(), side)
	if err != nil {
		return err
	}

	_, exact := time.Parse(time.RFC3339Nano, s)
	if _, age := notice.ParseDuration(s); exact != nil && (age != nil || !i.ages) {
		*i.spoken = t.Format(time.RFC3339Nano)
	}

	*i.to = t
	return nil
}

// expiryFlag is when a notice expires: a duration, or a time in the forms of instantFlag.
type expiryFlag struct {
	instantFlag
	after *time.Duration
}

// expiryVar adds the flag expires.
func (a *command) expiryVar(f *pflag.FlagSet, at *time.Time, after *time.Duration, about string) {
	f.Var(expiryFlag{instantFlag{to: at, now: a.now, spoken: new(string)}, after}, "expires", about)
}

func (x expiryFlag) Type() string { return "time" }

func (x expiryFlag) String() string {
	if x.after != nil && *x.after != 0 {
		return notice.Short(*x.after)
	}
	return x.instantFlag.String()
}

func (x expiryFlag) Set(s string) error {
	*x.to, *x.after = time.Time{}, 0
	d, err := notice.ParseDuration(s)
	if err != nil {
		return x.instantFlag.Set(s)
	}
	if d <= 0 {
		return errors.New("want a time, or a duration such as 10m")
	}

	*x.after = d
	return nil
}
