package cli

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifier/client"
	"notifier/internal/config"
	"notifier/internal/wire"
)

// Errors use the words of the command line: flags, arguments and variables instead of JSON members.

// usageError is a usage error found after the command had started.
type usageError struct{ err error }

func (u *usageError) Error() string { return u.err.Error() }
func (u *usageError) Unwrap() error { return u.err }

func usage(format string, a ...any) error { return &usageError{fmt.Errorf(format, a...)} }

// errQuiet fails a command that has reported its error already; errQuietlyWrong is the same for wrong usage.
var (
	errQuiet        = errors.New("failed")
	errQuietlyWrong = errors.New("wrong use")
)

// asksForWrong reports whether the API found an argument invalid: a key, a state, a cursor. Retrying would not help.
func asksForWrong(err error) bool {
	return client.IsStatus(err, http.StatusBadRequest) || client.IsStatus(err, http.StatusUnprocessableEntity)
}

// howTo returns the usage that follows a usage error.
func howTo(c *cobra.Command) string {
	if c == nil || !c.HasParent() {
		return "run notifier --help for the usage"
	}
	return fmt.Sprintf("usage: %s\nrun %s --help for more", c.UseLine(), c.CommandPath())
}

// takes checks the number of arguments, most < 0 meaning any, and names the expected ones as the usage line does.
func takes(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		_, want, _ := strings.Cut(c.Use, " ")
		want, _, _ = strings.Cut(want, " --")
		switch {
		case len(args) < least:
			return fmt.Errorf("%s wants %s", c.Name(), want)
		case most == 0 && len(args) > 0:
			return fmt.Errorf("%s takes no arguments; there is %q", c.Name(), args[0])
		case most >= 0 && len(args) > most:
			return fmt.Errorf("%s takes %s and no more; there is %q", c.Name(), want, args[most])
		}

		return nil
	}
}

// either marks flags of which at most one, or exactly one, must be given.
func (a *command) either(c *cobra.Command, required bool, names ...string) {
	c.MarkFlagsMutuallyExclusive(names...)
	if required {
		c.MarkFlagsOneRequired(names...)
	}

	spelt := strings.Join(names[:len(names)-1], ", --") + " or --" + names[len(names)-1]
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error { // cobra's check runs after PreRunE
		given := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !c.Flags().Changed(name) })
		switch {
		case len(given) > 1:
			return fmt.Errorf("--%s and --%s exclude each other: want --%s, only one of them", given[0], given[1], spelt)
		case required && len(given) == 0:
			return fmt.Errorf("want --%s", spelt)
		case before != nil:
			return before(c, args)
		}

		return nil
	}
}

// flagOf maps members and parameters to flags with other names.
var flagOf = map[string]string{"url": "to", "headers": "header", "body_base64": "body-file"}

// inFlags returns the flag or argument of a member or parameter of the API.
func inFlags(c *cobra.Command, location string) string {
	_, name, ok := strings.Cut(location, ".")
	if !ok {
		return location
	}

	name, _, _ = strings.Cut(name, ".") // body.headers.x-a
	if name == "key" || name == "name" {
		if _, arg, ok := strings.Cut(c.Use, " "); ok {
			arg, _, _ = strings.Cut(arg, " ")
			return strings.Trim(arg, "[].")
		}
	}

	if _, arg, ok := strings.Cut(c.Use, " "); ok && strings.EqualFold(strings.Trim(arg, "[]"), name) {
		return strings.ToUpper(name)
	}
	if f, ok := flagOf[name]; ok && c.Flags().Lookup(f) != nil {
		return "--" + f
	}
	if f := strings.ReplaceAll(name, "_", "-"); c.Flags().Lookup(f) != nil {
		return "--" + f
	}

	return name
}

// inWords replaces the API's words in problem texts with those of the command line.
var inWords = strings.NewReplacer("on_duplicate", "--on-duplicate", "body_base64", "--body-file", "body_text", "--body-text",
	"state=dead", "--state dead", "dry_run=true", "--dry-run", "host=,", "--host,", "audience=,", "--audience,",
	"either delay or due", "either --delay or --due", "delay and due", "--delay and --due")

// explain describes the failure of a call of the API or of Redis.
func (a *command) explain(err error) string {
	var p *client.Problem
	var op *net.OpError
	switch {
	case errors.As(err, &p):
		return strings.Replace(err.Error(), p.Error(), a.problem(p), 1)
	case errors.Is(err, wire.ErrUnavailable): // a command that connects to Redis
		return err.Error() + "; check that Redis runs at the address in NOTIFIER_REDIS_URL"
	case errors.As(err, &op) && op.Op == "dial":
		return err.Error() + "; check that the service runs at the address in --api or NOTIFIER_URL"
	}

	return err.Error()
}

func (a *command) problem(p *client.Problem) string {
	c := a.running
	switch {
	case p.Status == http.StatusUnauthorized && a.env["NOTIFIER_TOKEN"] == "" && a.env["NOTIFIER_TOKEN_FILE"] == "":
		return "401 Unauthorized: the service needs a token; set NOTIFIER_TOKEN, or NOTIFIER_TOKEN_FILE, to the token of a client"
	case p.Status == http.StatusUnauthorized:
		return "401 Unauthorized: unknown token; set NOTIFIER_TOKEN, or NOTIFIER_TOKEN_FILE, to the token of a client"
	case c == nil || c.Name() == "import": // its file uses the API's words
		return p.Error()
	}

	if len(p.Errors) == 0 {
		return withoutErrors(c, p)
	}

	said := make([]string, len(p.Errors))
	for i, w := range p.Errors {
		_, name, _ := strings.Cut(w.Location, ".")
		rest, own := strings.CutPrefix(w.Message, name+" ") // "url must be …"
		sep := ": "
		if own || strings.HasPrefix(w.Message, "is ") {
			sep = " "
		}

		said[i] = inFlags(c, w.Location) + sep + inWords.Replace(rest)
	}

	return strings.Join(said, "; ")
}

var unknownFlag = regexp.MustCompile(`unknown flag: --(\S+)`)

// suggestFlag adds the flag that was probably meant.
func suggestFlag(c *cobra.Command, err error) error {
	m := unknownFlag.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}

	name, best, least := m[1], "", 3
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if d := config.Distance(name, f.Name, math.MaxInt); d < least || len(name) > 2 && strings.HasPrefix(f.Name, name) && least > 1 {
			best, least = f.Name, d
		}
	})
	if f := flagOf[strings.ReplaceAll(name, "-", "_")]; f != "" && c.Flags().Lookup(f) != nil {
		best = f // the API's name of the flag
	}

	if best == "" {
		return fmt.Errorf("%w of %s", err, c.CommandPath())
	}

	return fmt.Errorf("%w of %s; did you mean --%s?", err, c.CommandPath(), best)
}

// withoutErrors returns the text of a problem that lists no fields. The names of fields become flags.
func withoutErrors(c *cobra.Command, p *client.Problem) string {
	detail := p.Detail
	if len(p.Differs) > 0 {
		differs := make([]string, len(p.Differs))
		for i, d := range p.Differs {
			differs[i] = inFlags(c, "body."+d)
		}

		detail = strings.Replace(detail, strings.Join(p.Differs, ", "), strings.Join(differs, ", "), 1)
	}

	return strings.TrimSuffix(fmt.Sprintf("%d %s: %s", p.Status, p.Title, inWords.Replace(detail)), ": ")
}
