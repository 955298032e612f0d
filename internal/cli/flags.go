package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"notifier/internal/notice"
	"notifier/internal/timespec"
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

// instantFlag is a time in the forms of package timespec, in the zone of TZ.
type instantFlag struct {
	to   *time.Time
	now  func() time.Time // in that zone
	ages bool             // past times: see timespec.Last; else timespec.Next
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
		if i, ok := f.Value.(instantFlag); ok && *i.spoken != "" {
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
	side := timespec.Next
	if i.ages {
		side = timespec.Last
	}

	t, err := timespec.Instant(s, i.now(), side)
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
