package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"notifier/internal/notice"
)

// delayFlag takes a Go duration or a number of seconds, as the API does.
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

// instantFlag takes a time, or with ages how long ago it was.
type instantFlag struct {
	to   *time.Time
	ages bool
}

func instantVar(f *pflag.FlagSet, to *time.Time, name, about string) {
	f.Var(instantFlag{to: to}, name, about)
}

func agoVar(f *pflag.FlagSet, to *time.Time, name, about string) {
	f.Var(instantFlag{to: to, ages: true}, name, about)
}

func (i instantFlag) Type() string { return "time" }

func (i instantFlag) String() string {
	if i.to == nil || i.to.IsZero() {
		return ""
	}
	return i.to.Format(time.RFC3339Nano)
}

func (i instantFlag) Set(s string) error {
	if d, err := notice.ParseDuration(s); err == nil && i.ages {
		*i.to = time.Now().Add(-d).UTC()
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	switch {
	case err == nil:
		*i.to = t.UTC()
		return nil
	case i.ages:
		return fmt.Errorf("%q is no time; want one such as 2026-12-24T18:00:00Z, or how long ago it was, such as 24h", s)
	}
	return fmt.Errorf("%q is no time; want one such as 2026-12-24T18:00:00Z", s)
}
