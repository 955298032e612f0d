package receivers

import (
	"net"
	"net/url"
	"strings"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// ReceiverOf returns the receiver of a route's notice with that url: host:port, or the target's
// list or stream. It is empty if the route has no receivers, as with the target log.
func ReceiverOf(r *route.Route, address string) string {
	u := r.Target.URL
	switch r.Target.Kind {
	case route.KindList, route.KindStream:
		return r.Target.Key
	case route.KindNotice:
		var err error
		if u, err = url.Parse(address); err != nil {
			return ""
		}
	}

	if u == nil {
		return ""
	}

	host, err := notice.Host(u.Hostname())
	if err != nil {
		return ""
	}

	return net.JoinHostPort(host, route.OriginOf(u, host).Port)
}

// Host returns the host of a receiver, without its port. The name of a list or stream is returned unchanged.
func Host(receiver string) string {
	if host, _, err := net.SplitHostPort(receiver); err == nil {
		return host
	}
	return receiver
}

// Title is a receiver's name for people: without the port of https or http.
func Title(receiver string) string {
	for _, port := range []string{":443", ":80"} {
		if host, ok := strings.CutSuffix(receiver, port); ok {
			return host
		}
	}
	return receiver
}
