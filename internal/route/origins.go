package route

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Origin is the scheme, host and port that a call connects to.
type Origin struct {
	Scheme string // http or https
	Host   string // normalized by notice.Host; a link-local address keeps its zone
	Port   string // decimal, without leading zeros
}

// OriginOf returns the origin of an absolute http or https url, whose host normalized by notice.Host is host.
// Calls connect to it, and Origins are matched against it.
func OriginOf(u *url.URL, host string) Origin {
	name, zone, _ := strings.Cut(u.Hostname(), "%")
	if ip, err := netip.ParseAddr(name); zone != "" && err == nil && ip.IsLinkLocalUnicast() {
		host = u.Hostname() // without its zone the address is ambiguous
	}

	o := Origin{Scheme: u.Scheme, Host: host, Port: defaultPort(u.Scheme)}
	if p := u.Port(); p != "" {
		if o.Port = strings.TrimLeft(p, "0"); o.Port == "" {
			o.Port = "0"
		}
	}

	return o
}

// Addr returns host:port, with an IPv6 address in brackets.
func (o Origin) Addr() string { return net.JoinHostPort(o.Host, o.Port) }

// String returns the origin without a default port.
func (o Origin) String() string {
	host := o.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}

	if o.Port == defaultPort(o.Scheme) {
		return o.Scheme + "://" + host
	}

	return o.Scheme + "://" + host + ":" + o.Port
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// OriginGrammar describes the form of an entry of HEADERS_TO.
const OriginGrammar = "[http://|https://]host[:port|:*], where host is a name, *.domain, an address ([::1] for IPv6) or * for all hosts; " +
	"without scheme and port: https on port 443"

// Origins is a list of origins. An entry may stand for many hosts or for all ports. The zero value is empty.
type Origins struct{ entries []originEntry }

type originEntry struct {
	scheme string
	host   string // normalized by notice.Host, ".example.com" for *.example.com, or *
	port   string // * = any
}

// ParseOrigins parses a comma-separated list of entries of the form OriginGrammar.
func ParseOrigins(s string) (Origins, error) {
	var list Origins
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		e, ok := parseOrigin(part)
		if !ok {
			return Origins{}, fmt.Errorf("%.80q is not %s", part, OriginGrammar)
		}

		list.entries = append(list.entries, e)
	}

	slices.SortFunc(list.entries, func(a, b originEntry) int { return strings.Compare(a.String(), b.String()) })
	list.entries = slices.Compact(list.entries)
	return list, nil
}

func parseOrigin(s string) (e originEntry, ok bool) {
	e.scheme = "https"
	if scheme, rest, has := strings.Cut(s, "://"); has {
		if e.scheme, s = strings.ToLower(scheme), rest; e.scheme != "http" && e.scheme != "https" {
			return e, false
		}
	}

	host, port := splitPort(s)
	if port == "" {
		port = defaultPort(e.scheme)
	}

	if port != "*" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return e, false
		}

		port = strconv.FormatUint(n, 10)
	}

	e.port = port
	if host == "*" {
		e.host = "*"
		return e, true
	}

	var h hostList
	switch {
	case strings.Contains(host, "%") || !h.add(host): // a zone has a meaning only on the calling machine
		return e, false
	case len(h.below) > 0:
		e.host = h.below[0]
	default:
		e.host = h.names[0]
	}

	return e, true
}

// splitPort splits host:port. An empty port after the colon makes the host invalid.
func splitPort(s string) (host, port string) {
	colon := strings.LastIndexByte(s, ':')
	if _, err := netip.ParseAddr(s); err == nil || colon < 0 || strings.HasSuffix(s, "]") || colon == len(s)-1 {
		return s, ""
	}

	return s[:colon], s[colon+1:]
}

// String returns one form for all spellings of the same entry.
func (e originEntry) String() string {
	host := e.host
	switch {
	case strings.HasPrefix(host, "."):
		host = "*" + host
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}

	if e.port != defaultPort(e.scheme) {
		host += ":" + e.port
	}

	if e.scheme == "http" {
		return "http://" + host
	}

	return host
}

func (e originEntry) covers(host string) bool {
	return e.host == "*" || e.host == host || strings.HasPrefix(e.host, ".") && strings.HasSuffix(host, e.host)
}

func (e originEntry) match(o Origin) bool {
	return e.covers(o.Host) && e.scheme == o.Scheme && (e.port == "*" || e.port == o.Port)
}

// Match reports whether the list contains o.
func (l Origins) Match(o Origin) bool {
	return slices.ContainsFunc(l.entries, func(e originEntry) bool { return e.match(o) })
}

// Others lists the origins of o's host in the list, if o itself is not in it. It is empty if the list
// contains o, or no entry for its host.
func (l Origins) Others(o Origin) []string {
	if l.Match(o) {
		return nil
	}

	var out []string
	for _, e := range l.entries {
		if !e.covers(o.Host) {
			continue
		}
		if e.port == "*" {
			out = append(out, Origin{e.scheme, o.Host, defaultPort(e.scheme)}.String()+" with any port")
		} else {
			out = append(out, Origin{e.scheme, o.Host, e.port}.String())
		}
	}

	slices.Sort(out)
	return slices.Compact(out)
}

// Empty reports whether the list has no entry.
func (l Origins) Empty() bool { return len(l.entries) == 0 }

// String returns one form for all spellings of the same list.
func (l Origins) String() string {
	out := make([]string, len(l.entries))
	for i, e := range l.entries {
		out[i] = e.String()
	}

	return strings.Join(out, ",")
}

// HeadersError means that a url's host gets the route's headers, but not by the url's scheme or port.
type HeadersError struct {
	Origin Origin
	Want   []string // the origins of the host that get the headers
	Route  string
}

func (e *HeadersError) Error() string { return "its url " + e.Text() }

// Text returns the error without its subject.
func (e *HeadersError) Text() string {
	return fmt.Sprintf("leads to %s, and route %s sends its headers to this host by %s only; NOTIFIER_ROUTE_%s_HEADERS_TO=%s would allow it",
		e.Origin, e.Route, strings.Join(e.Want, " or "), EnvName(e.Route), e.Origin)
}

// CheckHeaders rejects a notice's url whose host gets the route's headers only by another scheme or port. A
// url whose host is not listed is called without the headers.
func (r *Route) CheckHeaders(o Origin) error {
	if want := r.HeadersTo.Others(o); len(want) > 0 {
		return &HeadersError{Origin: o, Want: want, Route: r.Name}
	}
	return nil
}
