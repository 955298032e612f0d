package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
)

var (
	segment = regexp.MustCompile(`^[A-Za-z0-9_.~-]{1,64}$`)
	named   = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,30}[a-z0-9])?$`)
)

func elem(target any) any { return reflect.ValueOf(target).Elem().Interface() }

// cause returns an error's text without the path, which the message already has.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}

	return err.Error()
}

func (r *reader) integer(name, s string, least, most int) int {
	return r.integerAs(Prefix+name, s, least, most)
}

func (r *reader) integerAs(variable, s string, least, most int) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		r.add(variable, s, fmt.Sprintf("want a whole number from %d to %d", least, most))
		return least
	}

	return n
}

func (r *reader) duration(name, s string, least, most time.Duration) time.Duration {
	return r.durationAs(Prefix+name, s, least, most)
}

func (r *reader) durationAs(variable, s string, least, most time.Duration) time.Duration {
	d, err := notice.ParseDuration(s)
	if err == nil && d >= least && d <= most {
		return d
	}

	text := fmt.Sprintf("want a duration from %s to %s, such as 15s, 3m, 1h30m", notice.Short(least), notice.Short(most))
	if meant, ok := notice.Respelled(s); err != nil && ok && meant >= least && meant <= most {
		text = notice.WantDuration(s)
	} else if notice.Unitless(s) {
		text += "; a number without a unit is seconds"
	}

	r.add(variable, s, text)
	return least
}

// networks reads a comma-separated list of networks and addresses.
func (r *reader) networks(name, s string) []netip.Prefix {
	var out []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}

		network, err := netip.ParsePrefix(part)
		if a, aerr := netip.ParseAddr(part); err != nil && aerr == nil && a.Zone() == "" {
			network, err = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
		}

		if err != nil || network.Addr().Is4In6() {
			r.wrong(name, part, "networks or addresses, such as 10.0.0.0/8,2001:db8::/32,192.0.2.1")
			continue
		}

		out = append(out, network.Masked())
	}

	return out
}

func (r *reader) boolean(name, s string) bool { return r.booleanAs(Prefix+name, s) }

func (r *reader) booleanAs(variable, s string) bool {
	switch strings.ToLower(s) {
	case "true", "1", "yes", "on":
		return true
	case "false", "0", "no", "off":
		return false
	}

	r.add(variable, s, "want true or false")
	return false
}

func (r *reader) oneOf(name, s string, options ...string) string {
	if !slices.Contains(options, s) {
		r.wrong(name, s, list(options))
	}
	return s
}

// list joins words with commas and a last "or".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// size reads a number of bytes with an optional unit.
func (r *reader) size(name, s string, least, most int64) int64 {
	n, ok := parseSize(s)
	if !ok || n < least || n > most {
		r.wrong(name, s, fmt.Sprintf("a size from %d to %s, such as 65536, 64KiB or 1MiB", least, spellSize(most)))
		return least
	}

	return n
}

func parseSize(s string) (int64, bool) {
	end := strings.IndexFunc(s, func(c rune) bool { return (c < '0' || c > '9') && c != '.' })
	unit := ""
	if end >= 0 {
		s, unit = s[:end], strings.ToLower(strings.TrimSpace(s[end:]))
	}

	scale, ok := map[string]float64{"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20,
		"gb": 1e9, "g": 1 << 30, "gib": 1 << 30}[unit]
	n, err := strconv.ParseFloat(s, 64)
	if !ok || err != nil || n*scale > math.MaxInt64/2 {
		return 0, false
	}

	return int64(n * scale), true
}

func spellSize(n int64) string {
	if n >= 1<<30 && n%(1<<30) == 0 {
		return strconv.FormatInt(n>>30, 10) + "GiB"
	}
	if n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + "MiB"
	}

	return strconv.FormatInt(n, 10)
}

// parseHeaders reads Name=value,…. Its errors do not contain values, which may be passwords.
func parseHeaders(s string) ([]notice.Header, error) {
	var hs []notice.Header
	for i, part := range strings.Split(s, ",") {
		name, value, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		if !ok {
			return nil, fmt.Errorf("entry %d has no '='; want Name=value,…", i+1)
		}

		hs = append(hs, notice.Header{Name: name, Value: strings.TrimSpace(value)})
	}

	return hs, notice.CheckHeaders(hs)
}

// redact returns a URL without the parts that may be secret: the user and the values of the query.
func redact(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" {
		return "(not shown)"
	}

	text := u.Scheme + "://"
	if u.User != nil {
		text += "•••@"
	}

	text += u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		text += "?•••"
	}

	return text
}

// origin returns a URL's scheme and host. Paths and queries of receivers are often secrets.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// names reads a comma-separated list of names, in lower case.
func (r *reader) names(variable, s string) []string {
	var out []string
	seen := map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}

		name := strings.ToLower(part)
		if !named.MatchString(name) {
			r.add(variable, s, fmt.Sprintf("%q is not a valid name; want 1 to 32 letters, digits, '_' and '-', the first and last a letter or "+
				"digit", part))
			continue
		}

		if other, twice := seen[route.EnvName(name)]; twice {
			r.add(variable, s, fmt.Sprintf("%s and %s have the same variables; list each name once", other, name))
			continue
		}

		seen[route.EnvName(name)] = name
		out = append(out, name)
	}

	return out
}
