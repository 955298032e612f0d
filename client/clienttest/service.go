package clienttest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"notifier/client"
	"notifier/client/webhook"
)

// Options configures a Service. The zero value has one route, named all, that covers
// every key; each of its notices needs a url.
type Options struct {
	Routes []Route
	// Receiver gets every callback, to any address. If it is nil, callbacks go over
	// the network to the notice's address, such as that of an [httptest.Server].
	Receiver http.Handler
	// Start is the first time of the clock; the present if it is zero.
	Start time.Time
}

// Route is a route of the service, as its environment would describe it.
type Route struct {
	Name   string
	Prefix string // app, app:module or app:module:type; empty = every key
	// Target is as NOTIFIER_ROUTE_<NAME>_TARGET: notice (the default), an http(s)
	// address, list:<key>, stream:<key> or log.
	Target string
	// Retry is the delays between attempts. Nil means 15s 3m 10m 30m 30m 1h 2h 6h
	// 15h; empty and not nil means one attempt.
	Retry []time.Duration
	// Report: a notice is delivered when a consumer acknowledges its entry, not when
	// the entry is pushed to the list or stream (_ACK=report).
	Report bool
	// Timeout of an attempt, and of the wait for a report. 0 means 10 s.
	Timeout time.Duration
	// Secret signs callbacks: the key that the receiver verifies with, whsec_…, or several, comma-separated. Empty means
	// unsigned. A real service may derive this key from the route's secret: [client.Client.ReceiverSecret] returns it.
	Secret string
}

// Entry is an element of a list or stream.
type Entry struct {
	ID          string
	Key         string
	Attempt     int
	Due         time.Time
	ContentType string
	Body        []byte
}

// Service is the fake. It may be used by many goroutines at once.
type Service struct {
	// URL is where the API is, for NOTIFIER_URL.
	URL string

	server   *httptest.Server
	routes   []*routeState
	receiver http.Handler
	web      *http.Client

	turn sync.Mutex // one Advance at a time

	mu      sync.Mutex
	now     time.Time
	kept    map[string]*notice
	made    int
	failing int // calls that are still answered with status
	status  int
}

type routeState struct {
	Route
	entries []Entry
}

var defaultLadder = []time.Duration{15 * time.Second, 3 * time.Minute, 10 * time.Minute, 30 * time.Minute, 30 * time.Minute, time.Hour,
	2 * time.Hour, 6 * time.Hour, 15 * time.Hour}

// New starts a service; Close ends it. It panics if a route cannot be: that is a
// fault of the test.
func New(o Options) *Service {
	s := &Service{receiver: o.Receiver, now: o.Start.UTC(), kept: map[string]*notice{}}
	if o.Start.IsZero() {
		s.now = time.Now().UTC()
	}
	s.now = s.now.Truncate(time.Millisecond)
	if len(o.Routes) == 0 {
		o.Routes = []Route{{Name: "all"}}
	}
	for _, r := range o.Routes {
		s.routes = append(s.routes, newRoute(r))
	}
	s.web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s.server = httptest.NewServer(s.handler())
	s.URL = s.server.URL
	return s
}

func newRoute(r Route) *routeState {
	if r.Target == "" {
		r.Target = "notice"
	}
	if r.Retry == nil {
		r.Retry = defaultLadder
	}
	if r.Timeout <= 0 {
		r.Timeout = 10 * time.Second
	}
	kind := targetKind(r.Target)
	if r.Name == "" || kind == "" {
		panic(fmt.Sprintf("clienttest: route %q to %q: want a name, and the target notice, http(s)://…, list:<key>, stream:<key> or log", r.Name, r.Target))
	}
	if r.Secret != "" {
		if _, err := webhook.New(r.Secret); err != nil {
			panic("clienttest: route " + r.Name + ": " + err.Error())
		}
	}
	return &routeState{Route: r}
}

// targetKind is the API's word for a target, empty if it is none.
func targetKind(target string) string {
	switch scheme, rest, _ := strings.Cut(target, ":"); {
	case target == "notice", target == "log":
		return target
	case (scheme == "list" || scheme == "stream") && rest != "":
		return scheme
	case (scheme == "http" || scheme == "https") && strings.HasPrefix(rest, "//"):
		return "http"
	}
	return ""
}

// Close ends the service.
func (s *Service) Close() {
	s.server.Close()
	s.web.CloseIdleConnections()
}

// Client is a client of the service that repeats nothing, so that a test sees
// each answer.
func (s *Service) Client() *client.Client {
	c, err := client.New(client.Options{URL: s.URL, Retries: -1, HTTP: s.server.Client()})
	if err != nil {
		panic("clienttest: " + err.Error()) // the address is httptest's
	}
	return c
}

// Now is the time of the service's clock.
func (s *Service) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Fail simulates an outage: the next calls, as many as given, are answered with a
// status such as 503 and have no effect.
func (s *Service) Fail(calls, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing, s.status = calls, status
}

// Take removes the entries of a route's list or stream and returns them, oldest
// first. It panics if no route has this name.
func (s *Service) Take(route string) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.routes {
		if r.Name == route {
			list := r.entries
			r.entries = nil
			return list
		}
	}
	panic("clienttest: no route is named " + route)
}

// maxAttempts bounds one Advance: a receiver that schedules the next notice at
// once, each time it is called, would never let it end.
const maxAttempts = 100_000

// Advance moves the clock forward by d and returns the number of attempts made. It
// makes each attempt that falls due on the way, one at a time, in the order of their
// times; with 0, the attempts that are due now. Receivers may call the API during an
// attempt, but not Advance. It panics after 100,000 attempts.
func (s *Service) Advance(d time.Duration) (attempts int) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.now.Add(d)
	for {
		n := s.next(end)
		if n == nil {
			break
		}
		if n.due.After(s.now) {
			s.now = n.due
		}
		if n.handed {
			s.unreported(n)
			continue
		}
		if attempts++; attempts > maxAttempts {
			panic("clienttest: one Advance made 100,000 attempts and there are more: does the receiver schedule a notice each time it is called?")
		}
		s.attempt(n)
	}
	if end.After(s.now) {
		s.now = end
	}
	return attempts
}

// next is the first notice that is due by then, nil if there is none.
func (s *Service) next(end time.Time) *notice {
	var first *notice
	for _, n := range s.kept {
		waits := n.state == client.Scheduled || n.state == client.Claimed && n.handed
		if !waits || n.due.After(end) {
			continue
		}
		if first == nil || n.due.Before(first.due) || n.due.Equal(first.due) && n.serial < first.serial {
			first = n
		}
	}
	return first
}

// routeOf is the route with the longest prefix that covers a key, nil if none.
func (s *Service) routeOf(key string) *routeState {
	var best *routeState
	for _, r := range s.routes {
		if under(key, r.Prefix) && (best == nil || len(r.Prefix) > len(best.Prefix)) {
			best = r
		}
	}
	return best
}

func under(key, prefix string) bool {
	return prefix == "" || key == prefix || strings.HasPrefix(key, prefix+":")
}

func (s *Service) routeNamed(name string) *routeState {
	if i := slices.IndexFunc(s.routes, func(r *routeState) bool { return r.Name == name }); i >= 0 {
		return s.routes[i]
	}
	return nil
}
